"""The pictures of docs/papers in the papers' form: the product's own where there are any, else bars.

What was not run is not drawn; a picture of which nothing was run is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from points import BATCHES, CYCLES, NETWORKS, RATE, SWEPT, UNSHAPED
from readings import Reading, Readings
from roofline_client import Client, connect

NAMES = {"alexnet": "AlexNet", "resnet50": "ResNet-50", "vgg16": "VGG-16", "inception3": "Inception-v3"}
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
DPI = 110
BASE = {"batch": 16, "onednn": 1}


class Picture(NamedTuple):
    """What it shows, of which paper, and what draws it on a figure; it returns whether there was anything."""

    name: str
    caption: str
    draw: Callable[[Client, Readings, dict[str, dict[str, float]]], Any]


def draw_all(
    server: str, readings: Readings, network: dict[str, dict[str, float]], folder: Path
) -> list[Picture]:
    """Writes each picture to FOLDER/NAME.png; returns those that were drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with connect(server) as client:
        for picture in PICTURES:
            figure = picture.draw(client, readings, network)
            if figure is None:
                continue
            figure.savefig(folder / f"{picture.name}.png", dpi=DPI)
            plt.close(figure)
            drawn.append(picture)
    return drawn


# -- trajectories and planes: drawn by the product ----------------------------------------------------------


def trajectories(
    experiment: str, role: str, over: str, stops: Sequence[dict[str, object]]
) -> Callable[..., Any]:
    """A panel for each network: its role over jobs that differ in one tag."""

    def draw(client: Client, readings: Readings, _network: object) -> Any:
        wanted = {
            n: _jobs(readings, experiment, [{**stop, "network": n} for stop in stops]) for n in NETWORKS
        }
        wanted = {n: jobs for n, jobs in wanted.items() if len(jobs) > 1}
        if not wanted:
            return None
        rows = (len(wanted) + 1) // 2
        figure, axes = plt.subplots(rows, 2, figsize=(13, 5 * rows), layout="constrained", squeeze=False)
        for ax, (network, jobs) in zip(axes.flat, wanted.items(), strict=False):
            client.experiment(jobs=jobs).trajectory(over=over, roles=[role]).plot(ax=ax)
            ax.set_title(NAMES[network])
            if ax.child_axes and ax.get_legend() is not None:
                ax.get_legend().remove()  # the magnified part lies where it would
        return _without_rest(figure, axes.flat[len(wanted) :])

    return draw


def planes(layer: str) -> Callable[..., Any]:
    """Complexity and time: a row for each framework, a column for each parameter."""

    def draw(client: Client, readings: Readings, _network: object) -> Any:
        frameworks, parameters = ("torch", "tensorflow"), SWEPT[layer]
        shape = {"nrows": len(frameworks), "ncols": len(parameters)}
        figure, axes = plt.subplots(**shape, figsize=(22, 11), layout="constrained", squeeze=False)
        drawn = 0
        for row, framework in zip(axes, frameworks, strict=True):
            for ax, (name, sizes) in zip(row, parameters.items(), strict=True):
                stops = [{"framework": framework, "layer": layer, name: size} for size in sizes]
                jobs = _jobs(readings, f"{layer}-{name}", stops)
                if not jobs:
                    ax.set_axis_off()
                    continue
                client.experiment(jobs=jobs).time_roofline(over=name).plot(ax=[ax])
                ax.set_title(f"{framework}: {name} {', '.join(map(str, sizes))}")
                drawn += 1
        return figure if drawn else None

    return draw


def _jobs(readings: Readings, experiment: str, stops: Sequence[dict[str, object]]) -> list[str]:
    found = [readings.find(experiment, **stop) for stop in stops]
    return [one.job for one in found if one is not None]


def _without_rest(figure: Any, rest: Sequence[Any]) -> Any:
    for ax in rest:
        ax.set_axis_off()
    return figure


# -- bars ---------------------------------------------------------------------------------------------------


def bars(title: str, groups: Sequence[str], series: dict[str, list[float | None]], unit: str) -> Any:
    """A group of bars for each name, one bar a series; what is None is not drawn. None: nothing is known."""
    if not any(number is not None for numbers in series.values() for number in numbers):
        return None
    figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
    width = 0.8 / len(series)
    for index, (label, numbers) in enumerate(series.items()):
        at = [group + index * width for group, number in enumerate(numbers) if number is not None]
        ax.bar(
            at, [n for n in numbers if n is not None], width, label=label, color=COLOURS[index % len(COLOURS)]
        )
    ax.set_xticks([group + 0.4 - width / 2 for group in range(len(groups))], groups)
    ax.set_ylabel(unit)
    ax.set_title(title, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return figure


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
    figure, ax = plt.subplots(figsize=(10, 4.5), layout="constrained")
    bottom = [0.0] * len(found)
    for index, name in enumerate(names):
        shares = [(_number(job, name) or 0.0) for _, _, job in found]
        ax.bar(
            range(len(found)), shares, 0.7, bottom, label=name.removeprefix("width."), color=COLOURS[index]
        )
        bottom = [b + s for b, s in zip(bottom, shares, strict=True)]
    ax.set_xticks(
        range(len(found)),
        [f"{NAMES[n]}\noneDNN {'on' if onednn else 'off'}" for n, onednn, _ in found],
        fontsize=8,
    )
    ax.set_ylabel("share of the FLOPs")
    ax.set_title("FLOPs by precision and vector width", loc="left")
    ax.legend(frameon=False, bbox_to_anchor=(1, 1))
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def work(_client: Client, readings: Readings, _network: object) -> Any:
    def of(experiment: str, name: str, **tags: object) -> list[float | None]:
        return [
            _number(readings.find(experiment, network=n, workers=2, **BASE, **tags), name, 1e-9)
            for n in NETWORKS
        ]

    series = {
        "NUM_FLOP, PS": of("ps", "worker.flops_per_step", ps=1),
        "NUM_FLOP, Horovod": of("horovod", "horovod.flops_per_step"),
        "MEM_ACC x 1000, PS": _scaled(of("ps", "work.memory accesses", ps=1), 1e3),
        "MEM_ACC x 1000, Horovod": _scaled(of("horovod", "work.memory accesses"), 1e3),
    }
    return bars(
        "Work and memory accesses of a step and rank (of tensors)",
        [NAMES[n] for n in NETWORKS],
        series,
        "10^9",
    )


def _scaled(numbers: list[float | None], by: float) -> list[float | None]:
    return [None if number is None else number * by for number in numbers]


def layers(_client: Client, readings: Readings, _network: object) -> Any:
    """Where a step goes, by the layers of the stack: of Horovod's two ranks."""
    found = {n: readings.find("horovod", network=n, workers=2, **BASE) for n in NETWORKS}
    known = {n: job for n, job in found.items() if job is not None}
    if not known:
        return None
    parts = {name: None for job in known.values() for name in job.numbers if name.startswith("account.")}
    series = {
        part.removeprefix("account.").replace("_", " "): [_number(known.get(n), part, 100) for n in known]
        for part in parts
        if max((_number(job, part) or 0.0) for job in known.values()) > 0.005
    }
    return bars("Where a step goes, Horovod with 2 ranks", [NAMES[n] for n in known], series, "% of the step")


def processes(_client: Client, readings: Readings, _network: object) -> Any:
    stops = {"1 process\n2 threads": (1, 2), "2 processes\n1 thread": (2, 1), "4 processes\n1 thread": (4, 1)}
    found = [
        _number(readings.find("processes", processes=p, threads=t), "horovod.examples_per_second")
        for p, t in stops.values()
    ]
    return bars(
        "Processes on two CPUs, 64 examples a step in all", list(stops), {"PyTorch": found}, "examples/s"
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


def links(_client: Client, _readings: Readings, network: dict[str, dict[str, float]]) -> Any:
    payloads_ = ("uniform.small", "uniform.mixed", "random", "skewed")
    series = {
        f"{rate}{', serialised' if packed else ''}": [
            _scaled([network.get(rate, {}).get(f"grpc.latency.{name}{packed}")], 1e3)[0] for name in payloads_
        ]
        for rate in (RATE, UNSHAPED)
        for packed in ("", ".serialized")
    }
    return bars("gRPC: round trip of a payload", list(payloads_), series, "ms")


WORKERS = [{"ps": 1, "workers": n, **BASE} for n in (1, 2, 4)]
RANKS = [{"workers": n, **BASE} for n in (1, 2, 4)]
PICTURES = (
    Picture(
        "ps-roofline",
        "Javed, figure 5: parameter servers over workers, by the optimizer's rule",
        trajectories("ps", "ps", "workers", WORKERS),
    ),
    Picture(
        "worker-roofline",
        "Javed, figure 6: workers over their number",
        trajectories("ps", "worker", "workers", WORKERS),
    ),
    Picture("throughput", "Javed, figure 7: throughput", throughput),
    Picture(
        "horovod-roofline",
        "Javed, figure 8: Horovod's ranks over their number",
        trajectories("horovod", "horovod", "workers", RANKS),
    ),
    Picture("work", "Javed, figures 9 and 14: work and memory accesses", work),
    Picture("widths", "Javed, figures 10 and 15: FLOPs by precision and vector width", widths),
    Picture(
        "onednn",
        "Javed, figures 11 to 13: without and with oneDNN, one worker",
        trajectories(
            "ps", "worker", "onednn", [{"ps": 1, "workers": 1, "batch": 16, "onednn": x} for x in (0, 1)]
        ),
    ),
    Picture(
        "batch",
        "Javed, figures 16 and 17: batch size, two workers",
        trajectories(
            "ps", "worker", "batch", [{"ps": 1, "workers": 2, "batch": x, "onednn": 1} for x in BATCHES]
        ),
    ),
    Picture("time-conv2d", "Wang, Conv2D: complexity and time", planes("conv2d")),
    Picture("time-lstm", "Wang, LSTM: complexity and time", planes("lstm")),
    Picture("processes", "Jain: processes on a node", processes),
    Picture("threads", "Jain: threads of one process", threads),
    Picture("cycles", "Jain: allreduces asked for and made", cycles),
    Picture("payloads", "Biswas: payloads of parameter servers", payloads),
    Picture("links", "Biswas: gRPC over shaped links", links),
    Picture("layers", "Lu: layers of a step", layers),
)
