"""What one rank, or all ranks of a role, did per step and per second, against the roof.

A rank's evidence (`RankEvidence`) is plain arrays; `summarize` turns the evidence of one or more ranks into
named values. Rates of ranks add up; times and per-step values are pooled over all their steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..records import ABSENT, Bools, Floats, Ints
from .roofline import Roof
from .values import Provenance, Scope, Value, value

NS = 1e9
# Values per step are shown as soon as this share of the windows has them; the share itself is shown beside.
_MEASURED, _ANALYTIC, _REPORTED = Provenance.MEASURED, Provenance.ANALYTIC, Provenance.REPORTED


class StepEvidence(NamedTuple):
    """Step windows of a rank, in order of end; server times, ns."""

    step: Ints
    begin_ns: Ints
    end_ns: Ints
    examples: Ints  # ABSENT where not said


class KernelEvidence(NamedTuple):
    """Kernel sums per window of a rank; only windows of which every kernel was recorded count."""

    flops: Ints
    bytes: Ints
    duration_ns: Ints  # of the window
    kernel_ns: Ints
    complete: Bools
    unmodelled: Ints
    flops_f32: Ints
    flops_f64: Ints
    dram: Ints  # bytes that a profiler counted; ABSENT where it did not count every call
    has_flops: bool = True  # of any call the FLOPs are known
    has_bytes: bool = True
    on_gpu: bool = False  # of some the kernels ran on a GPU, where a profiler counted their FLOPs


class CounterEvidence(NamedTuple):
    """One cumulative counter of a rank over its windows."""

    total: float  # over the stretch from the first to the last reading, all incarnations; NaN: none
    seconds: float  # length of that stretch
    windows: int  # windows that have a reading at both borders
    per_window: float  # mean over those windows; NaN: none


class CountedFlops(NamedTuple):
    """FLOPs that the CPU's own counters counted."""

    counter: CounterEvidence
    coverage: float | None = None  # share of the time the least covered event was on a counter
    estimated: bool = False  # speculative instructions, or a vector length assumed
    amx_busy: bool = False  # the matrix unit ran, whose FLOPs no event counts


class RankEvidence(NamedTuple):
    """All that is known of one rank."""

    key: str
    role: str
    host: str
    steps: StepEvidence
    kernels: KernelEvidence | None
    counted_flops: CountedFlops | None
    cpu_ns: CounterEvidence | None
    sent: CounterEvidence | None
    received: CounterEvidence | None
    dram: CounterEvidence | None  # its share of what its node moved, bytes; else a lower bound of its own
    energy: CounterEvidence | None  # its share of what its node used, J
    rss_peak: float | None
    samples_per_step: float | None
    serving: bool  # its windows are the workers'
    dram_is_bound: bool  # `dram` is its cache misses, each a line of 64 bytes
    reasons: Mapping[str, str]  # why a kind of evidence is absent: steps, flops, cpu, tcp, dram, examples


class Summary(NamedTuple):
    values: dict[str, Value]
    bound: str
    bound_reason: str


def summarize(ranks: Sequence[RankEvidence], roofs: Mapping[str, Roof | None], scope: Scope) -> Summary:
    """The values of docs/metrics.md for these ranks (one, or all of a role). roofs: by host, for the
    precision these ranks compute in."""
    values = {**_times(ranks, scope), **_work(ranks, scope), **_resources(ranks, scope)}
    values |= _counted(ranks, scope)
    values |= _of_nodes(ranks, scope, values)
    roofline, bound, reason = _against_roof(ranks, roofs, values)
    return Summary({**values, **roofline}, bound, reason)


def _reason(ranks: Sequence[RankEvidence], kind: str, default: str) -> str:
    found = dict.fromkeys(r.reasons[kind] for r in ranks if kind in r.reasons)
    return "; ".join(found) or default


# -- steps -----------------------------------------------------------------------------------------


def runs(steps: StepEvidence) -> list[tuple[int, int]]:
    """Stretches [begin, end] of consecutive step numbers: time in which no step is missing."""
    if not len(steps.step):
        return []
    breaks = np.flatnonzero(steps.step[1:] != steps.step[:-1] + 1) + 1
    firsts = np.concatenate(([0], breaks))
    lasts = np.concatenate((breaks - 1, [len(steps.step) - 1]))
    return [(int(steps.begin_ns[a]), int(steps.end_ns[b])) for a, b in zip(firsts, lasts, strict=True)]


def union_seconds(stretches: Sequence[tuple[int, int]]) -> float:
    """Length of the union of intervals, seconds."""
    total, reach = 0, None
    for begin, end in sorted(stretches):
        start = begin if reach is None or begin > reach else reach
        total += max(0, end - start)
        reach = end if reach is None else max(reach, end)
    return total / NS


def durations(steps: StepEvidence) -> Floats:
    """Step times, seconds."""
    return (steps.end_ns - steps.begin_ns) / NS


def _times(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    missing = _reason(ranks, "steps", "no step marks were received")
    times = np.concatenate([durations(r.steps) for r in ranks])
    count = len(times)
    note = "windows of the workers it serves" if any(r.serving for r in ranks) and count else ""

    def of_times(number: float | None) -> Value:
        return value(number if count else None, "s", _MEASURED, scope, reason=note, missing=missing)

    return {
        "steps": value(count, "1", _MEASURED, scope, reason=note if count else missing),
        "step_time_median": of_times(float(np.median(times)) if count else None),
        "step_time_p95": of_times(float(np.percentile(times, 95)) if count else None),
        "examples_per_second": _throughput(ranks, scope, missing),
    }


def _throughput(ranks: Sequence[RankEvidence], scope: Scope, missing: str) -> Value:
    working = [r for r in ranks if not r.serving and len(r.steps.step)]
    if not working:
        serves = any(r.serving for r in ranks)
        return Value(None, "examples/s", reason="it works on no examples of its own" if serves else missing)
    known = [_with_examples(r.steps) for r in working]
    examples = sum(float(steps.examples.sum()) for steps in known)
    counted = sum(len(steps.step) for steps in known)
    if not counted:
        why = _reason(ranks, "examples", "nobody said how many examples a step has")
        return Value(None, "examples/s", reason=why)
    seconds = union_seconds([stretch for steps in known for stretch in runs(steps)])
    share = counted / sum(len(r.steps.step) for r in working)
    return value(examples / seconds if seconds else None, "examples/s", _REPORTED, scope, coverage=share)


def _with_examples(steps: StepEvidence) -> StepEvidence:
    said = steps.examples != ABSENT
    return StepEvidence(*(column[said] for column in steps))


# -- work ------------------------------------------------------------------------------------------


def _work(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    recorded = [r.kernels for r in ranks if r.kernels is not None]
    counted = [k for k in recorded if k.has_flops]
    stepping = [r.kernels for r in ranks if r.kernels is not None and len(r.steps.step)]
    missing = _reason(ranks, "flops", "no kernels were recorded")
    flops = _pool([k.flops[k.complete] for k in counted])
    moved = _pool([k.bytes[k.complete] for k in counted if k.has_bytes])
    complete = sum(int(k.complete.sum()) for k in recorded)
    windows = sum(len(k.flops) for k in recorded)
    share = complete / windows if windows else None
    if windows and not complete:
        missing = "no step was watched from begin to end"
    elif windows and not len(flops):
        missing = "nobody knows the FLOPs of its kernels"
    # Without steps the kernels of the whole run are known: rates, but nothing per step.
    no_steps = missing if stepping or not complete else _reason(ranks, "steps", "no step marks were received")
    note = _unmodelled_note(counted)
    kernel_time = _pool([k.kernel_ns[k.complete] for k in stepping])
    per_step = _pool([k.flops[k.complete] for k in stepping if k.has_flops])
    moved_per_step = _pool([k.bytes[k.complete] for k in stepping if k.has_bytes])

    origin = _MEASURED if any(k.on_gpu for k in counted) else _ANALYTIC

    def analytic(number: float | None, unit: str, why: str = note, without: str = missing) -> Value:
        return value(number, unit, origin, scope, share, why, without)

    no_traffic = "its kernels have FLOPs but no known traffic" if len(flops) else missing

    minimum = "each tensor touched once; caches make it no less, real traffic is more"
    return {
        "flops_per_step": analytic(_median(per_step), "FLOP", without=no_steps),
        "flops_per_second": analytic(_rate(counted, "flops"), "FLOP/s"),
        "bytes_per_step.minimum": analytic(
            _median(moved_per_step), "byte", minimum, no_traffic if stepping and len(flops) else no_steps
        ),
        "intensity.minimum": analytic(_ratio(_sum(flops), _sum(moved)), "FLOP/byte", minimum, no_traffic),
        "kernel_time_per_step": value(
            _mean(kernel_time, NS),
            "s",
            _MEASURED,
            scope,
            share,
            "summed over kernels, as the library timed them",
            no_steps,
        ),
    }


def _counted(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """FLOPs by hardware counters; coverage: of steps, times the share of time the events really counted."""
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    counters = [k.counter for k in known]
    missing = _reason(ranks, "perf", "no hardware counter counted FLOPs")
    shares = [k.coverage for k in known if k.coverage is not None]
    seen = _coverage(counters, ranks)
    share = seen if not shares else (1.0 if seen is None else seen) * min(shares)
    notes = ["the matrix unit (AMX) ran, and no event counts its FLOPs: too few"] * any(
        k.amx_busy for k in known
    )
    notes += ["multiplexed: scaled up by perf"] * (bool(shares) and min(shares) < 0.995)
    origin = Provenance.ESTIMATED if any(k.estimated for k in known) else _MEASURED

    stepping = any(len(r.steps.step) for r in ranks)
    no_steps = "no steps" if counters and not stepping else missing

    def counted(number: float | None, unit: str, missing: str = missing) -> Value:
        return value(number, unit, origin, scope, share, "; ".join(notes), missing)

    per_step = _per_window(counters, ranks, 1) if stepping else None
    return {
        "flops_per_step.measured": counted(per_step, "FLOP", no_steps),
        "flops_per_second.measured": counted(_counter_rate(counters, 1), "FLOP/s"),
    }


def _pool(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _sum(numbers: Ints) -> float:
    # The sum of a long job's FLOPs leaves int64; of single steps nothing is rounded.
    return float(numbers.sum(dtype=np.float64))


def _median(numbers: Ints) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def _mean(numbers: Ints, unit: float) -> float | None:
    return float(numbers.mean()) / unit if len(numbers) else None


def _ratio(above: float, below: float) -> float | None:
    return float(above) / float(below) if below else None


def _rate(counted: Sequence[KernelEvidence], field: str) -> float | None:
    """Sum over ranks of FLOPs in completely watched steps over the time of those steps."""
    rates = [
        _ratio(_sum(getattr(k, field)[k.complete]), _sum(k.duration_ns[k.complete]) / NS) for k in counted
    ]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _unmodelled_note(counted: Sequence[KernelEvidence]) -> str:
    calls = sum(_sum(k.unmodelled) for k in counted)
    return "pooling, normalisation and element-wise operations are not counted" if calls else ""


def dominant_precision(kernels: Sequence[KernelEvidence]) -> str:
    """Precision of more than half of the FLOPs: "f32", "f64", or "" for any other."""
    total = sum(_sum(k.flops) for k in kernels)
    for name in ("f32", "f64"):
        if total and 2 * sum(_sum(getattr(k, f"flops_{name}")) for k in kernels) > total:
            return name
    return ""


# -- shares of what nodes counted --------------------------------------------------------------------


def _of_nodes(ranks: Sequence[RankEvidence], scope: Scope, values: Mapping[str, Value]) -> dict[str, Value]:
    """Values made of counters that speak for sockets: each rank's part of them, by CPU time."""
    no_dram = _reason(ranks, "dram", "no DRAM counter was read")
    no_energy = _reason(ranks, "energy", "no energy counter was read")
    dram = [r.dram for r in ranks if r.dram is not None]
    energy = [r.energy for r in ranks if r.energy is not None]

    by_cpu = "the node's, shared out by CPU time"
    bound = "a lower bound: misses of the last cache, 64 bytes each, without prefetches and write-backs"
    how = bound if any(r.dram_is_bound for r in ranks) else by_cpu

    def shared(number: float | None, unit: str, missing: str, why: str = by_cpu) -> Value:
        return value(number, unit, Provenance.ESTIMATED, scope, reason=why, missing=missing)

    stepping = any(len(r.steps.step) for r in ranks)
    moved, used = (_per_window(c, ranks, 1) if stepping else None for c in (dram, energy))
    work = values[
        "flops_per_step" if values["flops_per_step"].value is not None else "flops_per_step.measured"
    ]
    no_work = work.reason or "no FLOPs were counted"
    flops = work.value
    return {
        "bytes_per_step.dram": shared(moved, "byte", no_dram, how),
        "dram_bytes_per_second": shared(_counter_rate(dram, 1), "byte/s", no_dram, how),
        "intensity.dram": shared(
            flops / moved if flops is not None and moved else None,
            "FLOP/byte",
            no_dram if moved is None else no_work,
            "over a lower bound of the bytes, so an upper bound" if how is bound else by_cpu,
        ),
        "energy_per_step": shared(used, "J", no_energy),
        "power": shared(_counter_rate(energy, 1), "W", no_energy),
        "flops_per_joule": shared(
            flops / used if flops is not None and used else None,
            "FLOP/J",
            no_energy if used is None else no_work,
        ),
    } | _profiled(ranks, scope)


def _profiled(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """DRAM traffic where a profiler counted it, kernel by kernel, on every rank; else nothing."""
    known = [r.kernels for r in ranks if r.kernels is not None]
    full = [k for k in known if k.complete.any() and not np.any(k.dram[k.complete] == ABSENT)]
    if not full or len(full) < len(known):
        return {}
    why = "as the profiler counted it, kernel by kernel"
    steps = any(len(r.steps.step) for r in ranks)
    moved = _pool([k.dram[k.complete] for k in full])
    flops = _pool([k.flops[k.complete] for k in full])

    def measured(number: float | None, unit: str, missing: str) -> Value:
        return value(number, unit, _MEASURED, scope, reason=why, missing=missing)

    return {
        "bytes_per_step.dram": measured(_median(moved) if steps else None, "byte", "no steps"),
        "dram_bytes_per_second": measured(_rate(full, "dram"), "byte/s", "no time"),
        "intensity.dram": measured(_ratio(_sum(flops), _sum(moved)), "FLOP/byte", "no DRAM traffic"),
    }


def placed(values: Mapping[str, Value]) -> tuple[str, Value, Value]:
    """Where the roofline puts this: (level of the bytes, intensity, FLOP/s).

    DRAM traffic that was counted goes before the least there can be, FLOPs known from kernels before those
    that hardware counted.
    """
    level = "dram" if values["intensity.dram"].value is not None else "minimum"
    flops = (
        "flops_per_second" if values["flops_per_second"].value is not None else "flops_per_second.measured"
    )
    return level, values[f"intensity.{level}"], values[flops]


# -- against the roof ------------------------------------------------------------------------------


def _against_roof(
    ranks: Sequence[RankEvidence], roofs: Mapping[str, Roof | None], values: Mapping[str, Value]
) -> tuple[dict[str, Value], str, str]:
    _, x, y = placed(values)
    intensity, reached = x.value, y.value
    hosts = dict.fromkeys(r.host for r in ranks)
    if intensity is None or reached is None:
        return _no_roof((values["flops_per_second"] if reached is None else x).reason)
    if any(r.kernels is not None and r.kernels.on_gpu for r in ranks):
        return _no_roof("its kernels ran on a GPU, of which no ceilings are known")
    found = [roofs.get(host) for host in hosts]
    if any(roof is None for roof in found) or not found:
        lacking = [host for host, roof in zip(hosts, found, strict=True) if roof is None]
        return _no_roof(_why_no_roof(ranks, lacking))
    known = [roof for roof in found if roof is not None]
    attainable = sum(roof.attainable(intensity) for roof in known)
    note = "of the whole node" if len(known) == 1 else f"of all {len(known)} nodes of the role"
    bounds = dict.fromkeys(roof.binding(intensity).name for roof in known)
    result = {
        "attainable_flops_per_second": value(
            attainable, "FLOP/s", Provenance.ESTIMATED, Scope.NODE, reason=note
        ),
        "roof_share": value(reached / attainable, "1", Provenance.ESTIMATED, Scope.NODE, reason=note),
    }
    return result, ", ".join(bounds), ""


def _why_no_roof(ranks: Sequence[RankEvidence], hosts: Sequence[str]) -> str:
    precision = dominant_precision([r.kernels for r in ranks if r.kernels is not None])
    if not precision:
        return "most FLOPs are neither FP32 nor FP64, and no ceiling was measured for them"
    return f"no ceilings of {', '.join(hosts)}: run `roofline-agent calibrate` there"


def _no_roof(reason: str) -> tuple[dict[str, Value], str, str]:
    absent = {
        "attainable_flops_per_second": Value(None, "FLOP/s", reason=reason),
        "roof_share": Value(None, "1", reason=reason),
    }
    return absent, "", reason


# -- resources -------------------------------------------------------------------------------------


def _resources(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    cpu = [r.cpu_ns for r in ranks if r.cpu_ns is not None]
    no_cpu = _reason(ranks, "cpu", "its process was not sampled")
    no_tcp = _reason(ranks, "tcp", "its connections were not counted")
    peaks = [r.rss_peak for r in ranks if r.rss_peak is not None]
    stepping = any(len(r.steps.step) for r in ranks)
    per_step = _interpolated_note(ranks)

    def each(counters: list[CounterEvidence], unit: str, scale: float, missing: str) -> Value:
        # Counters of a rank without steps are those of its whole life.
        number = _per_window(counters, ranks, scale) if stepping else None
        why = missing if not counters else "no step lies between two samples" if stepping else "no steps"
        return value(number, unit, _MEASURED, scope, _coverage(counters, ranks), per_step, why)

    def rate(counters: list[CounterEvidence], unit: str, scale: float, missing: str) -> Value:
        return value(_counter_rate(counters, scale), unit, _MEASURED, scope, missing=missing)

    sent = [r.sent for r in ranks if r.sent is not None]
    received = [r.received for r in ranks if r.received is not None]
    return {
        "cpu_time_per_step": each(cpu, "s", NS, no_cpu),
        "cpu_utilization": rate(cpu, "1", NS, no_cpu),
        "memory_peak": value(
            max(peaks, default=None),
            "byte",
            _MEASURED,
            scope,
            reason="largest of the ranks" if len(ranks) > 1 else "",
            missing=no_cpu,
        ),
        "sent_bytes_per_step": each(sent, "byte", 1, no_tcp),
        "received_bytes_per_step": each(received, "byte", 1, no_tcp),
        "sent_bytes_per_second": rate(sent, "byte/s", 1, no_tcp),
        "received_bytes_per_second": rate(received, "byte/s", 1, no_tcp),
    }


def _counter_rate(counters: Sequence[CounterEvidence], scale: float) -> float | None:
    """Sum over ranks of total / time."""
    rates = [c.total / scale / c.seconds for c in counters if c.seconds]
    return sum(rates) if rates else None


def _per_window(
    counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence], scale: float
) -> float | None:
    windows = sum(c.windows for c in counters)
    if not windows:
        return None
    if any(r.serving for r in ranks):
        # The workers' windows overlap: what a server did in all of them is its total, shared out evenly.
        return sum(c.total / c.windows for c in counters if c.windows) / len(counters) / scale
    return sum(c.per_window * c.windows for c in counters if c.windows) / windows / scale


def _coverage(counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence]) -> float | None:
    steps = sum(len(r.steps.step) for r in ranks)
    return min(1.0, sum(c.windows for c in counters) / steps) if steps else None


def _interpolated_note(ranks: Sequence[RankEvidence]) -> str:
    known = [r.samples_per_step for r in ranks if r.samples_per_step is not None]
    if not known or min(known) >= 2:
        return ""
    return f"interpolated between samples, {min(known):.2g} a step: single steps are blurred, the mean is not"
