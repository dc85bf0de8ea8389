"""FLOPs and tensor bytes of the recorded kernels, and FLOPs that hardware counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ...records import Ints
from ...sentences import origins, reasons
from ...sentences.points import no_bytes_of
from ...sentences.wording import joined
from ..evidence import NS, CountedFlops, KernelEvidence, RankEvidence, reason_of, total_of
from .compose import sampled, watched
from .rates import apart, counter_rate, coverage_of, mean, median, per_window, pool, rate, ratio

MUCH = 0.1  # of tensor bytes, worth a word
ALL_COUNTED = 0.995  # share of the time in which a counter counted that is as good as all
_MEASURED = Provenance.MEASURED


class _Missing(NamedTuple):
    """Why values are absent, by what they are of."""

    flops: str
    flops_per_step: str
    traffic: str
    traffic_per_step: str


def work(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """FLOPs, tensor bytes and time of recorded kernels, per step and per second."""
    kernels = [(r, r.kernels) for r in ranks if r.kernels is not None]
    counted = [k for _, k in kernels if k.has_flops]
    stepping = [k for r, k in kernels if len(r.steps.step) or k.profiled]
    missing = _why_missing(ranks, [k for _, k in kernels], bool(stepping))
    # All five share their kernels and coverage: apart, each would gather them again.
    share = watched(kernels)
    how_known, of_sample = sampled([k for _, k in kernels])
    of_flops = _MEASURED if any(k.counted for k in counted) else how_known

    def known(number: float | None, unit: str, how: str, why_not: str) -> Value:
        origin = of_flops if unit.startswith("FLOP") and not unit.endswith("byte") else how_known
        return value(number, unit, origin, scope, share, how, why_not)

    note = joined(
        of_sample,
        origins.UNMODELLED if sum(total_of(k.unmodelled) for k in counted) else "",
        *dict.fromkeys(origins.updates_by_rule(k.rule) for k in counted if k.rule),
    )
    counting = [r for r, k in kernels if k.has_flops]
    per_second = known(rate(counting, "flops"), "FLOP/s", joined(note, apart(counting)), missing.flops)
    if any(k.profiled for k in counted):
        per_second = _over_time_of_others(per_second)

    tensors = joined(of_sample, _what_tensor_bytes_are(counted))
    over_tensors = joined(of_sample, origins.over_bytes(_what_tensor_bytes_are(counted)))
    unsized = without_bytes(counted)
    if unsized:
        over_tensors = joined(over_tensors, origins.left_out(no_bytes_of(unsized)))
    sized = total_of(_in_watched_windows(counted, "sized_flops"))
    moved = total_of(_in_watched_windows([k for k in counted if k.has_bytes], "bytes"))
    flops_per_step = median(_in_watched_windows([k for k in stepping if k.has_flops], "flops"))
    bytes_per_step = median(_in_watched_windows([k for k in stepping if k.has_bytes], "bytes"))
    kernel_time = mean(_in_watched_windows([k for k in stepping if not k.rule], "kernel_ns"), NS)
    timed = joined(of_sample, origins.KERNEL_TIMES)
    return {
        "flops_per_step": known(flops_per_step, "FLOP", note, missing.flops_per_step),
        "flops_per_second": per_second,
        "bytes_per_step.minimum": known(bytes_per_step, "byte", tensors, missing.traffic_per_step),
        "intensity.minimum": known(ratio(sized, moved), "FLOP/byte", over_tensors, missing.traffic),
        "kernel_time_per_step": value(
            kernel_time,
            "s",
            _MEASURED,
            scope,
            share,
            timed,
            origins.NOT_TIMED if any(k.rule for k in counted) else missing.flops_per_step,
        ),
    }


def _over_time_of_others(per_second: Value) -> Value:
    """A profiler slowed down the steps whose FLOPs are known: the time is that of the others."""
    if per_second.value is None:
        return per_second
    how = joined(origins.PROFILED_FLOPS, per_second.reason)
    return per_second._replace(provenance=Provenance.ESTIMATED, reason=how)


def _in_watched_windows(kernels: Sequence[KernelEvidence], field: str) -> Ints:
    """A column of all windows that were watched from begin to end."""
    return pool([k.watched(field) for k in kernels])


def _why_missing(
    ranks: Sequence[RankEvidence], recorded: Sequence[KernelEvidence], stepping: bool
) -> _Missing:
    windows = sum(len(k.flops) for k in recorded)
    complete = sum(np.count_nonzero(k.complete) for k in recorded)
    if windows and not complete:
        why = reasons.NOT_WATCHED
        return _Missing(why, why, why, why)
    has_flops = any(k.has_flops and k.complete.any() for k in recorded)
    flops = reason_of(ranks, "flops", reasons.NO_KERNELS)
    if windows and not has_flops:
        flops = reasons.FLOPS_UNKNOWN
    per_step = flops
    if complete and not stepping:
        # The kernels of the whole run are known: rates, but nothing per step.
        per_step = reason_of(ranks, "steps", reasons.NO_STEP_MARKS)
    if not has_flops:
        return _Missing(flops, per_step, traffic=flops, traffic_per_step=per_step)
    no_traffic = reasons.TRAFFIC_UNKNOWN
    return _Missing(
        flops, per_step, traffic=no_traffic, traffic_per_step=no_traffic if stepping else per_step
    )


def mean_flops(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> Value:
    """FLOPs a step, the mean over steps: what goes with bytes and joules a step, which are means, too.

    values: of `work` and `counted_flops` for these ranks; of recorded kernels, else by counters.
    """
    found = values["flops_per_step"]
    if found.value is None:
        return or_counted(ranks, found, values["flops_per_step.measured"])
    known = [r.kernels for r in ranks if r.kernels is not None and len(r.steps.step) and r.kernels.has_flops]
    return found._replace(value=mean(_in_watched_windows(known, "flops"), 1))


def or_counted(ranks: Sequence[RankEvidence], recorded: Value, counted: Value) -> Value:
    """FLOPs of recorded kernels, else those that hardware counted, where they are the work of any rank."""
    if recorded.value is not None or counted.value is None or all(r.counted_flops is None for r in ranks):
        return recorded
    return counted


def by_hardware(ranks: Sequence[RankEvidence]) -> tuple[list[RankEvidence], list[CountedFlops], str]:
    """Ranks of which hardware counted FLOPs, what it counted, and a note; where they are the work of none of
    these ranks, those of the CPUs of ranks on GPUs."""
    work = [(r, r.counted_flops) for r in ranks if r.counted_flops is not None]
    known = work or [(r, r.cpu_flops) for r in ranks if r.cpu_flops is not None]
    return [r for r, _ in known], [k for _, k in known], origins.OF_CPUS if known and not work else ""


def counted_flops(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """FLOPs by hardware counters; coverage: of steps, times the share of time the events really counted."""
    counting, known, whose = by_hardware(ranks)
    counters = [k.counter for k in known]
    missing = reason_of(ranks, "perf", reasons.NO_FLOPS_COUNTER)
    # Two values of one measurement: their origin, coverage and notes are found together.
    share = coverage_of(counters, ranks)
    shares = [k.coverage for k in known if k.coverage is not None]
    notes = [whose, origins.AMX_NOT_COUNTED if any(k.amx_busy for k in known) else ""]
    if shares:
        share = min(shares) if share is None else share * min(shares)
        if min(shares) < ALL_COUNTED:
            notes.append(origins.MULTIPLEXED)
    origin = Provenance.ESTIMATED if any(k.estimated for k in known) else _MEASURED

    stepping = any(len(r.steps.step) for r in ranks)
    no_steps = reasons.NO_STEPS if counters and not stepping else missing
    per_step = per_window(counters, ranks, 1) if stepping else None
    counter_of = {r.key: k.counter for r, k in zip(counting, known, strict=True)}
    per_second = counter_rate(ranks, lambda r: counter_of.get(r.key), 1)
    at_different_times = apart(counting)
    return {
        "flops_per_step.measured": value(per_step, "FLOP", origin, scope, share, joined(*notes), no_steps),
        "flops_per_second.measured": value(
            per_second, "FLOP/s", origin, scope, share, joined(*notes, at_different_times), missing
        ),
    }


def _what_tensor_bytes_are(counted: Sequence[KernelEvidence]) -> str:
    """What tensor bytes are, and how many of them no FLOPs go with, where that is much."""
    if counted and all(k.rule for k in counted):
        return origins.UPDATED_BYTES
    idle = sum(k.total("idle_bytes") for k in counted if k.idle_bytes is not None)
    moved = sum(k.total("bytes") for k in counted)
    if idle <= MUCH * moved:
        return origins.TENSOR_BYTES
    return origins.tensor_bytes_of_idle(idle / moved)


def without_bytes(counted: Sequence[KernelEvidence]) -> float:
    """Share of the FLOPs that have no bytes to go with them; 0 where none have."""
    flops = sum(k.total("flops") for k in counted)
    sized = sum(k.total("sized_flops") for k in counted)
    return 1 - sized / flops if flops > sized > 0 else 0.0


def dominant_precision(ranks: Sequence[RankEvidence]) -> str:
    """Precision of more than half of the FLOPs: "f32", "bf16", ...; "": none has, or it is not known.

    Of kernels where any were recorded, else of what the CPU's counters counted.
    """
    # Both sources give the same sums, so that the choice at the end is made once.
    kernels = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    found: dict[str, float] = {}
    for k in kernels:
        for precision, flops in k.flops_by_precision.items():
            found[precision] = found.get(precision, 0.0) + flops
    total = sum(k.total_flops for k in kernels)
    if not kernels:
        for rank in ranks:
            counted = rank.counted_flops.by if rank.counted_flops else {}
            for event, count in counted.items():
                precision = event.partition(".")[0]
                found[precision] = found.get(precision, 0.0) + count
        total = sum(found.values())
        found.pop("all", None)
    return next((precision for precision, flops in found.items() if 2 * flops > total), "")
