"""Calls of kernels added up, and the points that such a sum makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance, Scope, Spread, Value, value

from ...correlate.kernel_totals import KernelTotal
from ...model.evidence import NS, RankEvidence
from ...model.roofline.points import Level, Named, plain, point
from ...model.roofline.roofs import MINIMUM, Limits, main_memory
from ...sentences import points, reasons
from ...sentences import rooflines as texts
from ...sentences.wording import joined
from ...store.store import Store
from ...store.view import JobView
from ..ceilings.contention import Contention, sharing
from ..questions import Steps


class CallsAsked(NamedTuple):
    """Whose calls of kernels are asked for, and under which kind of roofline."""

    store: Store
    view: JobView
    evidence: Mapping[int, RankEvidence]  # of the ranks asked for
    steps: Steps
    kind: str
    contention: Contention  # of the whole job


class KernelSum(NamedTuple):
    """Calls that make one point. None: not known of every call."""

    time_ns: float
    calls: float
    flops: float | None
    bytes: Mapping[str, float | None]  # by level
    on_gpu: bool
    counted: bool  # of some the FLOPs, by a profiler
    spread: Spread | None  # of a call's time, s; None: of several kinds or ranks
    unknown: float = 0  # calls whose FLOPs are not known, of kernels that were left out of the sums
    more: float = 0.0  # FLOPs of kernels whose bytes are not known, in addition to `flops`
    unsized: float = 0  # calls of these


def summed(totals: Sequence[KernelTotal]) -> KernelSum:
    gpu = any(t.on_gpu for t in totals)
    levels = {
        MINIMUM: _add(t.bytes for t in totals),
        "l1": _add(t.l1 for t in totals),
        "l2": _add(t.l2 for t in totals),
        main_memory("gpu" if gpu else ""): _add(t.dram for t in totals),
    }
    return KernelSum(
        time_ns=sum(t.time_ns for t in totals),
        calls=sum(t.calls for t in totals),
        flops=_add(t.flops for t in totals),
        bytes=levels,
        on_gpu=gpu,
        counted=any(t.counted and t.flops is not None for t in totals),
        spread=totals[0].time if len(totals) == 1 else None,
    )


def _add(numbers: Iterable[float | None]) -> float | None:
    """Their sum; None where one of them is not known."""
    every = list(numbers)
    known = [number for number in every if number is not None]
    return sum(known) if len(known) == len(every) else None


def points_of(
    who: Named, found: KernelSum, limits: Sequence[Limits], kind: str, mates: int
) -> list[RoofPoint]:
    """One for each level of a hierarchical roofline, else one for the best known level of bytes; none where
    there are no FLOPs. mates: how many like it compute in these places at once."""
    if not found.flops:
        return []
    # Each kind of roofline wants other levels of the same sum; without any there is one point that says why.
    incomplete = joined(
        points.not_modelled_calls(round(found.unknown)) if found.unknown else "",
        points.no_bytes_of_calls(round(found.unsized)) if found.unsized else "",
    )
    seconds = found.time_ns / NS
    known = {level: moved for level, moved in found.bytes.items() if moved is not None}
    if kind == "hierarchical":
        wanted = list(known)
    else:
        wanted = [level for level in (main_memory(limits[0].device), MINIMUM) if level in known][:1]
    if not wanted:
        rate = value(
            found.flops / seconds if found.time_ns else None,
            "FLOP/s",
            Provenance.MEASURED if found.counted else Provenance.ANALYTIC,
            Scope.PROCESS,
            missing=reasons.TOOK_NO_TIME,
        )
        level = Level(MINIMUM, Value(None, "FLOP/byte", reason=reasons.BYTES_NOT_COUNTED))
        took = value(seconds, "s", Provenance.MEASURED, Scope.PROCESS)
        return [point(who, level, rate, limits, took, incomplete=incomplete)]
    made = []
    rates = _rate_spread(found)
    for name in wanted:
        at_level = plain(
            who,
            name,
            found.flops,
            known[name],
            seconds,
            limits,
            found.counted,
            rates,
            found.more,
            mates,
        )
        made.append(at_level._replace(incomplete=incomplete))
    return made


def points_on(device: Limits, asked: CallsAsked, who: Named, found: KernelSum) -> list[RoofPoint]:
    """The points of calls that ran on one device."""
    # Kernels of a GPU run one after another, each on all of it.
    mates = 1 if found.on_gpu else sharing(asked.contention, [device])
    return points_of(who, found, [device], asked.kind, mates)


def _rate_spread(found: KernelSum) -> Spread | None:
    """FLOP/s of single calls: the slowest calls have the lowest."""
    times = found.spread
    if times is None or found.flops is None or times.count < 2 or times.p5 <= 0:
        return None
    flops = found.flops / found.calls
    p5, p25, p50, p75, p95 = (flops / t for t in (times.p95, times.p75, times.p50, times.p25, times.p5))
    return Spread(p5, p25, p50, p75, p95, times.count)


def left_out(totals: Sequence[KernelTotal]) -> list[str]:
    """Notes on kernels that are no points, and how much time they took."""
    unknown = sum(t.time_ns for t in totals if t.flops is None) / NS
    without_flops = sum(t.time_ns for t in totals if t.flops == 0) / NS
    notes = []
    if unknown > 0:
        notes.append(texts.unknown_kernels(unknown))
    if without_flops > 0:
        notes.append(texts.kernels_without_flops(without_flops))
    return notes
