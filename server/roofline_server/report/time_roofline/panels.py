"""One plane of the time-based roofline: points, overhead boxes, isocurves, and what does not fit in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.machines import NO_CEILING
from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint
from roofline.answers.values import Provenance, Scope, Value, value

from ...model import time_roofline as plane
from ...model.roofline import Limits
from ...model.time_roofline import Machine, Work
from ...model.wording import many, number
from .works import Found

MOST_POINTS = 100
MOST_BOXES = 4
WEAKER = [
    Provenance.MEASURED,
    Provenance.REPORTED,
    Provenance.ESTIMATED,
    Provenance.ANALYTIC,
    Provenance.UNSPECIFIED,
]
RECORDED_ALONE = (
    "launches of a step are calls of oneDNN and MKL: what else the framework starts is not counted"
)
MORE_THAN_ONE = 1.5  # launches a step from which on a step's box is another than that of one launch


class Drawn(NamedTuple):
    """Something to be placed, of which job, and where the job stands in a sweep."""

    found: Found
    job: str
    at: str


Launches = Mapping[tuple[str, str | None, str], float]  # by host, device, role


def launches_of(found: Iterable[Found]) -> Launches:
    """How much a step of one rank of each role launches on a device, in all precisions: of ranks the mean."""
    by_rank: dict[tuple[str, str | None, str], dict[str, float]] = {}
    for f in found:
        ranks = by_rank.setdefault((f.place.host, f.place.device, f.role), {})
        ranks[f.rank] = ranks.get(f.rank, 0.0) + f.launches
    return {key: sum(ranks.values()) / len(ranks) for key, ranks in by_rank.items()}


def panel(
    limits: Limits, drawn: Sequence[Drawn], points: str, launches: Mapping[tuple[str, str], float]
) -> tuple[TimePanel | None, list[str]]:
    """The plane of one device in one precision, and notes; None where it would have no points.

    launches: by job and role, how many a step of one rank has on the device.
    """
    ordered = _ordered(drawn)
    shown, more = _worth_most([d for d in ordered if d.found.is_drawable])
    nothing = [d for d in drawn if d.found.flops == 0]
    notes = [*_left_out(limits, ordered, points), *more]
    if not shown:
        return None, [*notes, *_only_without_flops(limits, nothing)]
    machine, lacks = _machine(limits)
    notes += [lacks] if lacks else []
    notes += [] if limits.launch or not machine else [_no_launch(limits)]
    there = _crowd(drawn)
    notes += _shared(limits, max(there.values(), default=0))
    # Kernels of a GPU run one after another, each on all of it.
    alone = points == "kernel" and bool(limits.device)
    made = [_point(d, machine, lacks, points, 1 if alone else there[d.job]) for d in shown]
    boxes = _boxes(machine, launches)
    notes += [RECORDED_ALONE] * (not limits.device and any(box.launches > 1 for box in boxes))
    return (
        TimePanel(
            limits.host,
            limits.device,
            limits.precision,
            limits.compute or NO_CEILING,
            limits.bandwidth() or NO_CEILING,
            _balance(limits, machine, lacks),
            _overhead(limits),
            made,
            *_without_flops(nothing, points),
            boxes,
            _isocurves(machine, shown, made),
        ),
        notes,
    )


def _ordered(drawn: Sequence[Drawn]) -> list[Drawn]:
    """Worth most time first; what a sweep line joins together, along the line."""
    most: dict[tuple[str, ...], float] = {}
    for d in drawn:
        most[_line(d)] = max(d.found.seconds, most.get(_line(d), 0.0))
    return sorted(drawn, key=lambda d: (-most[_line(d)], _line(d)))


def _line(d: Drawn) -> tuple[str, ...]:
    return (d.found.label, d.found.role) if d.at else (d.found.label, d.found.role, d.found.rank, d.job)


def _machine(limits: Limits) -> tuple[Machine | None, str]:
    """Peaks and launch overhead; or None, and which ceilings lack."""
    memory = limits.bandwidth()
    if not limits.precision:
        return (
            None,
            f"{limits.host}: nobody says in which precision these compute: no peak to hold them against",
        )
    if limits.compute is None or memory is None:
        return None, limits.lacks()
    launch = None if limits.launch is None else limits.launch.value
    return Machine(limits.compute.value, memory.value, launch), ""


def _crowd(drawn: Sequence[Drawn]) -> dict[str, int]:
    """How many ranks of each job have the peaks together."""
    ranks: dict[tuple[str, str], int] = {}
    for job, role in dict.fromkeys((d.job, d.found.role) for d in drawn):
        mine = [d.found for d in drawn if (d.job, d.found.role) == (job, role)]
        named = len({f.rank for f in mine if f.rank})
        ranks[job, role] = max(named, *(f.ranks for f in mine))
    return {job: sum(n for (j, _), n in ranks.items() if j == job) for job, _ in ranks}


def _shared(limits: Limits, most: int) -> list[str]:
    where = f"{limits.host} {limits.device}".strip()
    return [f"{most} ranks share the peaks of {where}: one alone does not reach them"] if most > 1 else []


def _worth_most(drawn: Sequence[Drawn]) -> tuple[list[Drawn], list[str]]:
    rest = drawn[MOST_POINTS:]
    if not rest:
        return list(drawn), []
    share = sum(d.found.seconds for d in rest) / sum(d.found.seconds for d in drawn)
    left = "1 more point is" if len(rest) == 1 else f"{len(rest)} more points are"
    return list(drawn[:MOST_POINTS]), [f"{left} left out, {share:.1%} of the time"]


# -- points -------------------------------------------------------------------------------------------------


def _point(d: Drawn, machine: Machine | None, lacks: str, points: str, parts: int) -> TimePoint:
    f = d.found
    work = Work(f.flops or 0.0, f.bytes or 0.0, f.seconds, f.launches)
    placed = plane.place(work, machine) if machine is not None else None
    scope = Scope.PROCESS if f.rank else Scope.ROLE

    def derived(number: float | None) -> Value:
        return value(number, "s", Provenance.ESTIMATED, scope, reason=f.per, missing=lacks)

    return TimePoint(
        label=f.label,
        kind=points,
        role=f.role,
        rank=f.rank,
        job=d.job,
        at=d.at,
        flops=value(f.flops, "FLOP", f.flops_origin, scope, reason=f.per),
        bytes=value(f.bytes, "byte", f.bytes_origin, scope, reason=f.per),
        time=value(f.seconds, "s", Provenance.MEASURED, scope, reason=f.per),
        launches=round(f.launches) or (1 if f.launches else 0),
        bandwidth_time=derived(placed.bandwidth_time if placed else None),
        compute_time=derived(placed.compute_time if placed else None),
        time_bytes=placed.bytes if placed else 0.0,
        time_flops=placed.flops if placed else 0.0,
        bound=placed.bound if placed else "",
        time_spread=f.spread,
        incomplete=f.incomplete,
        words=_words(f, work, machine, points, parts) if machine else lacks,
        level=f.level,
    )


def _words(f: Found, work: Work, machine: Machine, points: str, parts: int) -> str:
    """What is said of it: of the median call, or step, where a few that took much longer rule the mean."""
    each = f.launches if points == "kernel" else 1.0
    ruled = f.spread is not None and f.spread.p50 > 0 and each > 0 and work.seconds / each > f.spread.p95
    if ruled and f.spread is not None:
        work = work._replace(seconds=f.spread.p50 * each)
    said = plane.words(work, machine, plane.place(work, machine), parts)
    if not ruled:
        return said
    what = "calls" if points == "kernel" else "steps"
    times = number(f.seconds / work.seconds)
    return f"{said}; that is by its median: a few {what} took much longer, and the mean is {times} times that"


def _left_out(limits: Limits, drawn: Sequence[Drawn], points: str) -> list[str]:
    """What computes but cannot be placed, and why; by how much time it took."""
    where = f"{limits.host} {limits.device}".strip()
    notes = []
    for why, chosen in (
        ("FLOPs are not known", [d for d in drawn if d.found.flops is None]),
        ("FLOPs are below zero", [d for d in drawn if (d.found.flops or 0) < 0]),
        ("bytes are not known", [d for d in drawn if d.found.flops and d.found.bytes is None]),
        ("bytes are zero", [d for d in drawn if d.found.flops and d.found.bytes == 0]),
        ("bytes are below zero", [d for d in drawn if d.found.flops and (d.found.bytes or 0) < 0]),
        ("time is zero", [d for d in drawn if d.found.flops and d.found.bytes and d.found.seconds <= 0]),
    ):
        if chosen:
            seconds = sum(d.found.seconds for d in chosen)
            names = list(dict.fromkeys(d.found.name for d in chosen))
            some = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            notes.append(f"{where}: {points}s whose {why} have no place: {some} ({seconds * 1e3:.3g} ms)")
    return notes


# -- kernels without FLOPs ----------------------------------------------------------------------------------


def _without_flops(nothing: Sequence[Drawn], points: str) -> tuple[Value, Value]:
    """Launches and time of the kernels that only move data."""
    if points != "kernel":
        why = "counted where points are kernels"
        return Value(None, "1", reason=why), Value(None, "s", reason=why)
    launches, seconds = (sum(d.found.launches for d in nothing), sum(d.found.seconds for d in nothing))
    jobs = len({d.job for d in nothing})
    per = (f"{jobs} jobs added up; of each " if jobs > 1 else "") + (nothing[0].found.per if nothing else "")
    return (
        value(launches, "1", Provenance.MEASURED, Scope.ROLE, reason=per),
        value(seconds, "s", Provenance.MEASURED, Scope.ROLE, reason=per),
    )


def _only_without_flops(limits: Limits, nothing: Sequence[Drawn]) -> list[str]:
    if not nothing:
        return []
    launches, seconds = (sum(d.found.launches for d in nothing), sum(d.found.seconds for d in nothing))
    where = f"{limits.host} {limits.device}".strip()
    told = f"{many(launches, 'kernel')} without FLOPs took {seconds * 1e3:.3g} ms"
    return [f"{where}: {told}, and there are no others"]


# -- what is drawn beside -----------------------------------------------------------------------------------


def _balance(limits: Limits, machine: Machine | None, lacks: str) -> Value:
    balance = None if machine is None else machine.balance
    origins = [c.provenance for c in (limits.compute, limits.bandwidth()) if c is not None]
    # What one peak is only reported to be cannot be measured by the other.
    weaker = max(origins, key=WEAKER.index, default=Provenance.UNSPECIFIED)
    return value(balance, "FLOP/byte", weaker, Scope.NODE, missing=lacks)


def _overhead(limits: Limits) -> Value:
    if limits.launch is None:
        return Value(None, "s", reason=_no_launch(limits))
    launch = limits.launch
    return value(launch.value, "s", launch.provenance, Scope.NODE, reason=launch.method)


def _no_launch(limits: Limits) -> str:
    where = f"{limits.host} {limits.device}".strip()
    return (
        f"no launch overhead of {where} was measured, so there is no overhead box: run `roofline-agent "
        "calibrate --python PATH` there (PATH: the Python of the training)"
    )


def _boxes(machine: Machine | None, launches: Mapping[tuple[str, str], float]) -> list[OverheadBox]:
    """Of one launch, and of those of a step of each role; of several jobs the fewest and the most."""
    if machine is None:
        return []
    wanted = {1: "1 launch"}
    jobs = {job for job, _ in launches}
    for (job, role), count in sorted(launches.items(), key=lambda item: item[1]):
        of_job = f", job {job}" if len(jobs) > 1 else ""
        if count > MORE_THAN_ONE:
            wanted.setdefault(round(count), f"{round(count):,} launches ({role}, a step{of_job})")
    some = sorted(wanted)
    if len(some) > MOST_BOXES:
        some = [*some[: MOST_BOXES // 2], *some[-(MOST_BOXES // 2) :]]
    made = [plane.overhead_box(count, machine, wanted[count]) for count in some]
    return [box for box in made if box is not None]


def _isocurves(machine: Machine | None, shown: Sequence[Drawn], made: Sequence[TimePoint]) -> list[Isocurve]:
    if machine is None:
        return []
    works = [Work(d.found.flops or 0.0, d.found.bytes or 0.0, d.found.seconds, 0.0) for d in shown]
    times = [t for work in works for t in (work.seconds, plane.least_time(work, machine))]
    across = [x for w, p in zip(works, made, strict=True) for x in (w.bytes, p.time_bytes)]
    up = [y for w, p in zip(works, made, strict=True) for y in (w.flops, p.time_flops)]
    return plane.isocurves(times, machine, plane.corner(across, up))
