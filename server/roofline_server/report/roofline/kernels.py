"""Points of kernels, and of the phases they ran in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance, Scope, Spread, Value, value

from ...correlate.kernel_totals import KernelTotal
from ...model.breakdown import untold
from ...model.evidence import NS, RankEvidence
from ...model.points import Level, Named, plain, point
from ...model.roofline import MINIMUM, Limits, main_memory
from ...model.summary import on_gpu
from ...model.work import dominant_precision
from ...records import ABSENT
from ...store.store import Store
from ...store.view import JobView
from ..breakdown.kernel_totals import Kernels, kernel_totals
from ..ceilings import roofs
from ..questions import Steps
from ..ranks.contention import Crowd, sharing

MOST_POINTS = 2000
OUTSIDE = "outside any phase"
LATER = (
    "kernels of a GPU count for the phase in which they ran, which may be later than that which launched them"
)


class _Sum(NamedTuple):
    """Calls that make one point. None: not known of every call."""

    time_ns: int
    calls: int
    flops: float | None
    bytes: Mapping[str, float | None]  # by level
    on_gpu: bool
    spread: Spread | None  # of a call's time, s; None: of several kinds or ranks
    lacking: int  # calls whose FLOPs nobody can tell, of kernels that were left out of the sums
    more: float = 0.0  # FLOPs of kernels whose bytes nobody knows, beside `flops`
    unsized: int = 0  # calls of these


def of_kernels(
    store: Store,
    view: JobView,
    evidence: Mapping[int, RankEvidence],
    steps: Steps,
    kind: str,
    points: str,
    there: Crowd,
) -> tuple[list[RoofPoint], list[str]]:
    """A point for each kind of kernel of a role, or for each phase of a rank. there: of the whole job."""
    notes: list[str] = []
    if points == "phase":
        replayed = [n for n, r in evidence.items() if r.kernels is not None and r.kernels.profiled]
        names = ", ".join(evidence[n].key for n in replayed)
        notes = [f"{names}: ncu tells the order of kernels, not in which phase they ran"] * bool(replayed)
        evidence = {n: rank for n, rank in evidence.items() if n not in replayed}
        if not evidence:
            return [], notes
    found = kernel_totals(store, view, steps, list(evidence), by_phase=points == "phase")
    if not found.totals:
        return [], ["no kernels were recorded in these steps: start the ranks with `roofline-agent run`"]
    if points == "phase":
        made, more = _phases(view, evidence, found, kind, there)
        return made, [*notes, *more]
    return _kernels(view, evidence, found, kind, there)


def _kernels(
    view: JobView, evidence: Mapping[int, RankEvidence], found: Kernels, kind: str, there: Crowd
) -> tuple[list[RoofPoint], list[str]]:
    pooled: dict[tuple[str, str, str, bool], list[KernelTotal]] = {}
    for total in found.totals:
        key = (evidence[total.rank].role, _label(total), total.kind.precision, total.on_gpu)
        pooled.setdefault(key, []).append(total)
    ordered = sorted(pooled.items(), key=lambda item: -sum(t.time_ns for t in item[1]))
    made: list[RoofPoint] = []
    for (role, label, precision, gpu), totals in ordered[:MOST_POINTS]:
        label += " (GPU)" * (gpu and (role, label, precision, False) in pooled)
        first = max(totals, key=lambda t: t.time_ns)
        limits = roofs.of_rank(view, first.rank, precision, first.on_gpu)
        who = Named(label, "kernel", role, "", limits.host)
        # Kernels of a GPU run one after another, each on all of it.
        mates = 1 if first.on_gpu else sharing(there, [limits])
        made += _of_sum(who, _summed(totals), [limits], kind, mates)
    notes = [f"the {MOST_POINTS} kernels that took most time are shown"] * (len(ordered) > MOST_POINTS)
    return made, [*notes, *_left_out(found.totals), *_pooled(view, found, evidence)]


def _label(total: KernelTotal) -> str:
    kind = total.kind
    words = (kind.operation, kind.variant, kind.problem[:60])
    return " ".join(word for word in words if word)


def _left_out(totals: Sequence[KernelTotal]) -> list[str]:
    """Kernels that are no points, and how much time they took."""
    unknown = sum(t.time_ns for t in totals if t.flops is None) / NS
    none = sum(t.time_ns for t in totals if t.flops == 0) / NS
    notes = [f"kernels whose FLOPs nobody can tell took {unknown:.3g} s and are not shown"] * (unknown > 0)
    return notes + [
        f"kernels that compute nothing (copies, reorders) took {none:.3g} s and are not shown"
    ] * (none > 0)


def _pooled(view: JobView, found: Kernels, evidence: Mapping[int, RankEvidence]) -> list[str]:
    """What pooling hides."""
    ranks = {total.rank for total in found.totals}
    hosts = {evidence[n].host for n in ranks}
    notes = []
    if len(ranks) > 1:
        notes.append(
            "FLOP/s of a kernel are those of one rank while it runs; other ranks share its node's roof"
        )
    if len(hosts) > 1:
        notes.append(
            f"kernels of {len(hosts)} hosts are pooled by role, against the roof where each took most time"
        )
    return notes


def _summed(totals: Sequence[KernelTotal]) -> _Sum:
    def add(numbers: Iterable[float | None]) -> float | None:
        known = list(numbers)
        some = [n for n in known if n is not None]
        return sum(some) if len(some) == len(known) else None

    gpu = any(t.on_gpu for t in totals)
    main = main_memory("gpu" if gpu else "")
    levels = {
        MINIMUM: add(t.bytes for t in totals),
        "l1": add(t.l1 for t in totals),
        "l2": add(t.l2 for t in totals),
        main: add(t.dram for t in totals),
    }
    spread = totals[0].time if len(totals) == 1 else None
    time_ns, calls = sum(t.time_ns for t in totals), sum(t.calls for t in totals)
    return _Sum(time_ns, calls, add(t.flops for t in totals), levels, gpu, spread, 0)


def _of_sum(who: Named, summed: _Sum, limits: Sequence[Limits], kind: str, mates: int) -> Iterable[RoofPoint]:
    if not summed.flops:
        return
    known = [(level, moved) for level, moved in summed.bytes.items() if moved is not None]
    main = [pair for pair in known if pair[0] == main_memory(limits[0].device)]
    least = [pair for pair in known if pair[0] == MINIMUM]
    wanted = known if kind == "hierarchical" else (main or least)
    rates = _rates(summed)
    for level, moved in wanted:
        lasted = summed.time_ns / NS
        made = plain(
            who, level, summed.flops, moved, lasted, limits, summed.on_gpu, rates, summed.more, mates
        )
        yield made._replace(incomplete=_incomplete(summed))
    if not wanted:
        why = Value(None, "FLOP/byte", reason="nobody counted its bytes")
        reached = value(
            summed.flops / (summed.time_ns / NS) if summed.time_ns else None,
            "FLOP/s",
            Provenance.MEASURED if summed.on_gpu else Provenance.ANALYTIC,
            Scope.PROCESS,
            missing="it took no time",
        )
        took = value(summed.time_ns / NS, "s", Provenance.MEASURED, Scope.PROCESS)
        yield point(who, Level(MINIMUM, why), reached, limits, took, incomplete=_incomplete(summed))


def _incomplete(summed: _Sum) -> str:
    said = [f"{summed.lacking} kernel calls are not modelled"] * bool(summed.lacking)
    told = f"of {summed.unsized} kernel calls no bytes are known: the intensity is that of the others"
    return "; ".join([*said, *[told] * bool(summed.unsized)])


def _rates(summed: _Sum) -> Spread | None:
    """FLOP/s of single calls: the slowest calls have the lowest."""
    times = summed.spread
    if times is None or summed.flops is None or times.count < 2 or times.p5 <= 0:
        return None
    flops = summed.flops / summed.calls
    p5, p25, p50, p75, p95 = (flops / t for t in (times.p95, times.p75, times.p50, times.p25, times.p5))
    return Spread(p5, p25, p50, p75, p95, times.count)


def _phases(
    view: JobView, evidence: Mapping[int, RankEvidence], found: Kernels, kind: str, there: Crowd
) -> tuple[list[RoofPoint], list[str]]:
    """FLOPs of the kernels of a phase over the time of the phase."""
    grouped: dict[tuple[int, str], list[KernelTotal]] = {}
    for total in found.totals:
        grouped.setdefault((total.rank, total.phase), []).append(total)
    made: list[RoofPoint] = []
    for (number, phase), totals in grouped.items():
        rank = evidence[number]
        limits = roofs.everywhere(view, number, dominant_precision([rank]), on_gpu([rank]))
        summed = _of_phase(totals)
        who = Named(f"{rank.key} {phase or OUTSIDE}", "phase", rank.role, rank.key, rank.host)
        lasted = _phase_ns(rank, phase)
        summed = summed._replace(time_ns=lasted or summed.time_ns)
        for one in _of_sum(who, summed, limits, kind, sharing(there, limits)):
            alone = "over the time of its kernels alone: " if lasted is None else ""
            made.append(one._replace(words=alone + one.words))
    notes = _left_out(found.totals)
    if any(total.phase and total.on_gpu for total in found.totals):
        notes.append(LATER)
    if not any(total.phase for total in found.totals):
        notes.append(f"{untold(list(evidence.values()))}: all kernels are outside any phase")
    return made, notes


def _of_phase(totals: Sequence[KernelTotal]) -> _Sum:
    """All kernels; those without bytes count for the rate, those without FLOPs for the bytes."""
    known = [t._replace(flops=t.flops or 0.0) for t in totals]
    sized = [t for t in known if t.bytes is not None]
    sized = sized if any(t.flops for t in sized) else []  # copies alone have no intensity
    unsized = [t for t in known if t.bytes is None] if sized else []
    more = sum(t.flops or 0.0 for t in unsized)
    return _summed(sized or known)._replace(
        time_ns=sum(t.time_ns for t in totals),
        spread=None,
        lacking=sum(t.calls for t in totals if t.flops is None),
        more=more,
        unsized=sum(t.calls for t in unsized if t.flops),
    )


def _phase_ns(rank: RankEvidence, phase: str) -> int | None:
    """Time of a phase, of the rest of the steps for "", in the steps whose kernels were all recorded."""
    complete = rank.columns.get("kernels.complete")
    if complete is None or not len(complete):
        return None
    whole = complete > 0 if (complete > 0).any() else np.ones(len(complete), bool)
    named = {
        name.removeprefix("phase.").removesuffix(".ns"): np.where(column == ABSENT, 0, column)[whole].sum()
        for name, column in rank.columns.items()
        if name.startswith("phase.") and name.endswith(".ns")
    }
    if phase:
        return int(named[phase]) if named.get(phase, 0) > 0 else None
    steps = (rank.steps.end_ns - rank.steps.begin_ns)[whole].sum()
    rest = int(steps - sum(named.values()))
    return rest if rest > 0 else None
