"""Pictures of bars, of what the papers drew so: throughput, work, threads, messages, layers of a step.

What was not run is not drawn; None: nothing was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
from judging import named
from lu2018 import LAYERS
from points import BASE, CYCLES, NAMES, NETWORKS, RATE, TRACED_NETWORKS, UNSHAPED
from readings import Reading, Readings
from roofline_client import Client

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def bars(title: str, groups: Sequence[str], series: dict[str, list[float | None]], unit: str) -> Any:
    """A group of bars for each name, one bar a series; what is None is not drawn, nor groups and series of
    nothing else. None: nothing is known."""
    figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
    return figure if _bars(ax, title, groups, series, unit) else None


def _bars(
    ax: Any, title: str, groups: Sequence[str], series: dict[str, list[float | None]], unit: str
) -> bool:
    """Returns whether there was anything to draw."""
    known = [i for i in range(len(groups)) if any(numbers[i] is not None for numbers in series.values())]
    shown = {label: [numbers[i] for i in known] for label, numbers in series.items()}
    shown = {label: numbers for label, numbers in shown.items() if any(n is not None for n in numbers)}
    if not shown:
        return False
    width = 0.8 / len(shown)
    for index, (label, numbers) in enumerate(shown.items()):
        at = [group + index * width for group, number in enumerate(numbers) if number is not None]
        heights = [n for n in numbers if n is not None]
        ax.bar(at, heights, width, label=label, color=COLOURS[index % len(COLOURS)])
    ax.set_xticks([group + 0.4 - width / 2 for group in range(len(known))], [groups[i] for i in known])
    is_one = len(shown) == 1
    _finish(ax, f"{title}, {next(iter(shown))}" if is_one else title, unit, is_one)
    return True


def stacked(title: str, groups: Sequence[str], series: dict[str, list[float]], unit: str) -> Any:
    """A bar for each name, one part a series."""
    figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
    bottom = [0.0] * len(groups)
    for index, (label, numbers) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        ax.bar(range(len(groups)), numbers, 0.6, bottom, label=label, color=colour)
        bottom = [b + n for b, n in zip(bottom, numbers, strict=True)]
    ax.set_xticks(range(len(groups)), groups, fontsize=8 if len(groups) > 4 else None)
    _finish(ax, title, unit)
    return figure


def _finish(ax: Any, title: str, unit: str, is_one: bool = False) -> None:
    """is_one: what the bars are is in the title."""
    ax.set_ylabel(unit)
    ax.set_title(title, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    if not is_one:
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _number(reading: Reading | None, name: str, scale: float = 1.0) -> float | None:
    found = reading.numbers.get(name) if reading is not None else None
    return found * scale if found is not None else None


def throughput(_client: Client, readings: Readings, _network: object) -> Any:
    layouts = {"1 PS, 1 worker": (1, 1), "1 PS, 2 workers": (1, 2), "2 PS, 2 workers": (2, 2)}
    series = {
        label: [
            _number(
                readings.find("ps", network=n, ps=ps, workers=workers, **BASE), "worker.examples_per_second"
            )
            for n in NETWORKS
        ]
        for label, (ps, workers) in layouts.items()
    }
    for ranks in (1, 2):
        series[f"Horovod, {ranks} rank{'s' * (ranks > 1)}"] = [
            _number(readings.find("horovod", network=n, workers=ranks, **BASE), "horovod.examples_per_second")
            for n in NETWORKS
        ]
    return bars("Throughput", [NAMES[n] for n in NETWORKS], series, "images/s")


def widths(_client: Client, readings: Readings, _network: object) -> Any:
    """Stacked: shares of FLOPs by vector width, without and with oneDNN."""
    found = [
        (n, onednn, readings.find("horovod", network=n, workers=1, batch=16, onednn=onednn))
        for n in NETWORKS
        for onednn in (0, 1)
    ]
    found = [one for one in found if one[2] is not None]
    if not found:
        return None
    names = sorted({name for _, _, job in found if job for name in job.numbers if name.startswith("width.")})
    shares = {
        name.removeprefix("width."): [_number(job, name, 100) or 0.0 for _, _, job in found] for name in names
    }
    groups = [f"{NAMES[n]}\noneDNN {'on' if onednn else 'off'}" for n, onednn, _ in found]
    return stacked("FLOPs by precision and vector width", groups, shares, "% of the FLOPs")


def work(_client: Client, readings: Readings, _network: object) -> Any:
    jobs = {
        "PS": ("worker", [readings.find("ps", network=n, workers=2, ps=1, **BASE) for n in NETWORKS]),
        "Horovod": ("horovod", [readings.find("horovod", network=n, workers=2, **BASE) for n in NETWORKS]),
    }
    flops = {
        label: [_number(one, f"{role}.flops_per_step", 1e-9) for one in found]
        for label, (role, found) in jobs.items()
    }
    accesses = {
        label: [_number(one, "work.memory accesses", 1e-6) for one in found]
        for label, (_, found) in jobs.items()
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
    names = [NAMES[n] for n in NETWORKS]
    drawn = _bars(left, "NUM_FLOP of a step and rank, of 2", names, flops, "GFLOP")
    drawn |= _bars(
        right, "MEM_ACC of a step and rank, of 2 (over tensors)", names, accesses, "million accesses"
    )
    left.get_legend() and left.get_legend().remove()
    return figure if drawn else None


def layers(_client: Client, readings: Readings, _network: object) -> Any:
    """Where a step goes, by the layers of the stack: of Horovod's two ranks."""
    found = {n: readings.find("horovod", network=n, workers=2, **BASE) for n in NETWORKS}
    known = {n: job for n, job in found.items() if job is not None}
    if not known:
        return None
    parts = {name: None for job in known.values() for name in job.numbers if name.startswith("account.")}
    series = {
        named(part.removeprefix("account.")): [_number(job, part, 100) or 0.0 for job in known.values()]
        for part in parts
        if max((_number(job, part) or 0.0) for job in known.values()) > 0.005
    }
    groups = [NAMES[n] for n in known]
    return stacked("Where a step goes, Horovod with 2 ranks", groups, series, "% of the step")


def traced(_client: Client, readings: Readings, _network: object) -> Any:
    """The same by what the framework's profiler recorded of some steps."""
    layouts = {"PS": ("traced-ps", 1), "Horovod": ("traced-horovod", 2)}
    found = {
        f"{NAMES[n]}\n{how}": job
        for n in TRACED_NETWORKS
        for how, (experiment, workers) in layouts.items()
        if (job := readings.find(experiment, network=n, workers=workers)) is not None
    }
    series = {
        layer: [_number(job, f"traced.{layer}", 100) or 0.0 for job in found.values()] for layer in LAYERS
    }
    return stacked("Layers of traced steps", list(found), series, "% of the step") if found else None


def processes(_client: Client, readings: Readings, _network: object) -> Any:
    stops = {"1 process\n2 threads": (1, 2), "2 processes\n1 thread": (2, 1), "4 processes\n1 thread": (4, 1)}
    found = [
        _number(readings.find("processes", processes=p, threads=t), "horovod.examples_per_second")
        for p, t in stops.values()
    ]
    return bars(
        "Processes on two CPUs, 64 examples a step in all",
        list(stops),
        {"PyTorch": found},
        "examples/s",
    )


def threads(_client: Client, readings: Readings, _network: object) -> Any:
    stops = {"1 x 1": (1, 1), "1 x 2": (1, 2), "2 x 1": (2, 1), "4 x 1": (4, 1)}
    series = {
        NAMES[n]: [
            _number(readings.find("threads", network=n, intra=a, inter=b), "horovod.flops_per_second", 1e-9)
            for a, b in stops.values()
        ]
        for n in ("resnet50", "inception3")
    }
    return bars("Threads: intra-op x inter-op, one process on two CPUs", list(stops), series, "GFLOP/s")


def cycles(_client: Client, readings: Readings, _network: object) -> Any:
    found = [readings.find("cycle", cycle=n) for n in CYCLES] + [readings.find("fusion", fusion=0)]
    groups = [f"cycle {n} ms" for n in CYCLES] + ["no fusion"]
    series = {
        "asked for by the framework": [_number(one, "asked") for one in found],
        "made by Horovod's engine": [_number(one, "engine") for one in found],
    }
    return bars("Allreduces of a step", groups, series, "calls")


def payloads(_client: Client, readings: Readings, _network: object) -> Any:
    found = [readings.find("ps", network=n, ps=1, workers=1, **BASE) for n in NETWORKS]
    series = {
        f"{size}, by {what}": [_share(one, size, what) for one in found]
        for what in ("variables", "bytes")
        for size in ("small", "medium", "large")
    }
    return bars(
        "Variables of a parameter server: under 1 KiB, under 1 MiB, larger",
        [NAMES[n] for n in NETWORKS],
        series,
        "%",
    )


def _share(one: Reading | None, size: str, what: str) -> float | None:
    whole, part = (_number(one, f"ps:0.payload.{name}.{what}") for name in ("total", size))
    return 100 * part / whole if whole and part is not None else None


def _scaled(number: float | None, by: float) -> float | None:
    return None if number is None else number * by


def links(_client: Client, _readings: Readings, network: dict[str, dict[str, float]]) -> Any:
    payloads_ = ("uniform.small", "uniform.mixed", "random", "skewed")
    series = {
        f"{rate}{', serialised' if packed else ''}": [
            _scaled(network.get(rate, {}).get(f"grpc.latency.{name}{packed}"), 1e3) for name in payloads_
        ]
        for rate in (RATE, UNSHAPED)
        for packed in ("", ".serialized")
    }
    return bars("gRPC: round trip of a payload", list(payloads_), series, "ms")
