"""FLOPs and tensor bytes of the recorded kernels, and FLOPs that hardware counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.answers.values import Provenance, Scope, Value, value

from .evidence import NS, KernelEvidence, RankEvidence, reason_of
from .rates import apart, counter_rate, coverage_of, mean, median, per_window, pool, rate, ratio, total_of
from .roofline import TENSOR_BYTES

MUCH = 0.1  # of tensor bytes, worth a word
_MEASURED, _ANALYTIC = Provenance.MEASURED, Provenance.ANALYTIC


def work(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    recorded = [r.kernels for r in ranks if r.kernels is not None]
    counting = [r for r in ranks if r.kernels is not None and r.kernels.has_flops]
    counted = [k for k in recorded if k.has_flops]
    stepping = [
        r.kernels for r in ranks if r.kernels is not None and (len(r.steps.step) or r.kernels.profiled)
    ]
    missing = reason_of(ranks, "flops", "no kernels were recorded")
    flops = pool([k.flops[k.complete] for k in counted])
    moved = pool([k.bytes[k.complete] for k in counted if k.has_bytes])
    complete = sum(int(k.complete.sum()) for k in recorded)
    windows = sum(len(k.flops) for k in recorded)
    share = complete / windows if windows else None
    if windows and not complete:
        missing = "no step was watched from begin to end"
    elif windows and not len(flops):
        missing = "nobody knows the FLOPs of its kernels"
    # Without steps the kernels of the whole run are known: rates, but nothing per step.
    no_steps = (
        missing if stepping or not complete else reason_of(ranks, "steps", "no step marks were received")
    )
    note = _unmodelled_note(counted)
    kernel_time = pool([k.kernel_ns[k.complete] for k in stepping])
    per_step = pool([k.flops[k.complete] for k in stepping if k.has_flops])
    moved_per_step = pool([k.bytes[k.complete] for k in stepping if k.has_bytes])
    sized = pool([k.sized_flops[k.complete] for k in counted])
    tensors = _tensors(counted)

    origin = _MEASURED if any(k.on_gpu for k in counted) else _ANALYTIC

    def analytic(number: float | None, unit: str, why: str = note, without: str = missing) -> Value:
        return value(number, unit, origin, scope, share, why, without)

    no_traffic = "its kernels have FLOPs but no known traffic" if len(flops) else missing

    return {
        "flops_per_step": analytic(median(per_step), "FLOP", without=no_steps),
        "flops_per_second": _of_others(
            analytic(rate(counting, "flops"), "FLOP/s", joined(note, apart(counting))), counted
        ),
        "bytes_per_step.minimum": analytic(
            median(moved_per_step), "byte", tensors, no_traffic if stepping and len(flops) else no_steps
        ),
        "intensity.minimum": analytic(
            ratio(total_of(sized), total_of(moved)), "FLOP/byte", _sized(counted, tensors), no_traffic
        ),
        "kernel_time_per_step": value(
            mean(kernel_time, NS),
            "s",
            _MEASURED,
            scope,
            share,
            "summed over kernels, as the library timed them",
            no_steps,
        ),
    }


def mean_flops(ranks: Sequence[RankEvidence], values: Mapping[str, Value]) -> Value:
    """FLOPs a step, the mean over steps: what goes with bytes and joules a step, which are means, too.

    values: of `work` and `counted_flops` for these ranks; of recorded kernels, else by counters.
    """
    found = values["flops_per_step"]
    if found.value is None:
        counted = values["flops_per_step.measured"]
        return found if counted.value is None else counted
    known = [r.kernels for r in ranks if r.kernels is not None and len(r.steps.step) and r.kernels.has_flops]
    return found._replace(value=mean(pool([k.flops[k.complete] for k in known]), 1))


def counted_flops(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """FLOPs by hardware counters; coverage: of steps, times the share of time the events really counted."""
    known = [r.counted_flops for r in ranks if r.counted_flops is not None]
    counters = [k.counter for k in known]
    missing = reason_of(ranks, "perf", "no hardware counter counted FLOPs")
    shares = [k.coverage for k in known if k.coverage is not None]
    seen = coverage_of(counters, ranks)
    share = seen if not shares else (1.0 if seen is None else seen) * min(shares)
    notes = ["the matrix unit (AMX) ran, and no event counts its FLOPs: too few"] * any(
        k.amx_busy for k in known
    )
    notes += ["multiplexed: scaled up by perf"] * (bool(shares) and min(shares) < 0.995)
    origin = Provenance.ESTIMATED if any(k.estimated for k in known) else _MEASURED

    stepping = any(len(r.steps.step) for r in ranks)
    no_steps = "no steps" if counters and not stepping else missing

    def counted(number: float | None, unit: str, missing: str = missing, why: str = "") -> Value:
        return value(number, unit, origin, scope, share, joined(*notes, why), missing)

    per_step = per_window(counters, ranks, 1) if stepping else None
    counting = [r for r in ranks if r.counted_flops is not None]
    per_second = counter_rate(ranks, lambda r: r.counted_flops and r.counted_flops.counter, 1)
    return {
        "flops_per_step.measured": counted(per_step, "FLOP", no_steps),
        "flops_per_second.measured": counted(per_second, "FLOP/s", why=apart(counting)),
    }


def _of_others(found: Value, counted: Sequence[KernelEvidence]) -> Value:
    """The rate, which is an estimate where a profiler drew out the steps whose FLOPs are known."""
    if found.value is None or not any(k.profiled for k in counted):
        return found
    how = "FLOPs of profiled steps over the mean time of the others"
    return found._replace(provenance=Provenance.ESTIMATED, reason=joined(how, found.reason))


def joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _tensors(counted: Sequence[KernelEvidence]) -> str:
    """What tensor bytes are, and how many of them no FLOPs go with, where that is much."""
    idle = sum(total_of(k.idle_bytes[k.complete]) for k in counted if k.idle_bytes is not None)
    moved = sum(total_of(k.bytes[k.complete]) for k in counted)
    if idle <= MUCH * moved:
        return TENSOR_BYTES
    without = "kernels without FLOPs (reorders, copies, element-wise)"
    return f"{TENSOR_BYTES}; {idle / moved:.0%} of it by {without}"


def _sized(counted: Sequence[KernelEvidence], tensors: str) -> str:
    lacking = without_bytes(counted)
    return "; ".join((f"over {tensors}", *[f"{lacking}: left out"] * bool(lacking)))


def without_bytes(counted: Sequence[KernelEvidence]) -> str:
    """How many of the FLOPs have no bytes to go with them; "": all have."""
    flops = sum(total_of(k.flops[k.complete]) for k in counted)
    sized = sum(total_of(k.sized_flops[k.complete]) for k in counted)
    return no_bytes_of(1 - sized / flops) if flops > sized > 0 else ""


def no_bytes_of(share: float) -> str:
    how_many = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    return f"of kernels with {how_many} of the FLOPs no bytes are known"


def _unmodelled_note(counted: Sequence[KernelEvidence]) -> str:
    calls = sum(total_of(k.unmodelled) for k in counted)
    return "pooling, normalisation and element-wise operations are not counted" if calls else ""


def dominant_precision(ranks: Sequence[RankEvidence]) -> str:
    """Precision of more than half of the FLOPs: "f32", "bf16", ...; "": none has, or it is not known.

    Of kernels where any were recorded, else of what the CPU's counters counted.
    """
    kernels = [r.kernels for r in ranks if r.kernels is not None and r.kernels.has_flops]
    found: dict[str, float] = {}
    for k in kernels:
        for precision, flops in k.by_precision.items():
            found[precision] = found.get(precision, 0.0) + total_of(flops)
    total = sum(total_of(k.flops) for k in kernels)
    if not kernels:
        for name, counted in (
            event for r in ranks if r.counted_flops for event in r.counted_flops.by.items()
        ):
            found[name.partition(".")[0]] = found.get(name.partition(".")[0], 0.0) + counted
        total = sum(found.values())
        found.pop("all", None)
    return next((precision for precision, flops in found.items() if 2 * flops > total), "")
