"""One plane of the time-based roofline: points, overhead boxes, isocurves, and what does not fit in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.machines import NO_CEILING
from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint
from roofline.answers.values import Provenance, Scope, Value, value

from ...model import time_roofline as plane
from ...model.roofline import Limits
from ...model.time_roofline import Peaks, Work
from ...sentences import time_rooflines as texts
from .works import PointWork

MOST_POINTS = 100
MOST_BOXES = 4
WEAKER = [
    Provenance.MEASURED,
    Provenance.REPORTED,
    Provenance.ESTIMATED,
    Provenance.ANALYTIC,
    Provenance.UNSPECIFIED,
]
MORE_THAN_ONE = 1.5  # launches a step from which on a step's box is another than that of one launch


class Drawn(NamedTuple):
    """Something to be placed, of which job, and where the job stands in a sweep."""

    found: PointWork
    job: str
    at: str


Launches = Mapping[tuple[str, str | None, str], float]  # by host, device, role


def launches_of(found: Iterable[PointWork]) -> Launches:
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
    host, device = limits.host, limits.device
    ordered = _ordered(drawn)
    notes = _no_place(limits, ordered, points)
    drawable = [d for d in ordered if d.found.is_drawable]
    shown, rest = drawable[:MOST_POINTS], drawable[MOST_POINTS:]
    if rest:
        share = sum(d.found.seconds for d in rest) / sum(d.found.seconds for d in drawable)
        notes.append(texts.points_left_out(len(rest), share))
    nothing = [d for d in drawn if d.found.flops == 0]
    if not shown:
        if nothing:
            started = sum(d.found.launches for d in nothing)
            seconds = sum(d.found.seconds for d in nothing)
            notes.append(texts.only_without_flops(host, device, started, seconds))
        return None, notes

    peaks, lacks = _peaks(limits)
    if lacks:
        notes.append(lacks)
    if peaks and not limits.launch:
        notes.append(texts.no_launch_overhead(host, device))
    sharing = _sharing(drawn)
    most = max(sharing.values(), default=0)
    if most > 1:
        notes.append(texts.shared_peaks(most, host, device))
    # Kernels of a GPU run one after another, each on all of it.
    alone = points == "kernel" and bool(device)
    made = [_point(d, peaks, lacks, points, 1 if alone else sharing[d.job]) for d in shown]
    boxes = _boxes(peaks, launches)
    if not device and any(box.launches > 1 for box in boxes):
        notes.append(texts.RECORDED_ALONE)
    no_flop_launches, no_flop_time = _without_flops(nothing, points)
    found = TimePanel(
        host,
        device,
        limits.precision,
        limits.compute or NO_CEILING,
        limits.bandwidth() or NO_CEILING,
        _balance(limits, peaks, lacks),
        _overhead(limits),
        made,
        no_flop_launches,
        no_flop_time,
        boxes,
        _isocurves(peaks, shown, made),
    )
    return found, notes


def _ordered(drawn: Sequence[Drawn]) -> list[Drawn]:
    """Worth most time first; what a sweep line joins together, along the line."""
    most: dict[tuple[str, ...], float] = {}
    for d in drawn:
        most[_line(d)] = max(d.found.seconds, most.get(_line(d), 0.0))
    return sorted(drawn, key=lambda d: (-most[_line(d)], _line(d)))


def _line(d: Drawn) -> tuple[str, ...]:
    return (d.found.label, d.found.role) if d.at else (d.found.label, d.found.role, d.found.rank, d.job)


def _no_place(limits: Limits, drawn: Sequence[Drawn], points: str) -> list[str]:
    """Notes on what computes but cannot be placed, and why; by how much time it took."""
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
            notes.append(texts.no_place(limits.host, limits.device, points, why, names, seconds))
    return notes


def _peaks(limits: Limits) -> tuple[Peaks | None, str]:
    """Peaks and launch overhead; or None, and which ceilings lack."""
    memory = limits.bandwidth()
    if not limits.precision:
        return None, texts.no_precision(limits.host)
    if limits.compute is None or memory is None:
        return None, limits.lacks()
    launch = None if limits.launch is None else limits.launch.value
    return Peaks(limits.compute.value, memory.value, launch), ""


def _sharing(drawn: Sequence[Drawn]) -> dict[str, int]:
    """How many ranks of each job have the peaks together."""
    names: dict[tuple[str, str], set[str]] = {}  # by job and role
    mean_of: dict[tuple[str, str], int] = {}
    for d in drawn:
        key = d.job, d.found.role
        names.setdefault(key, set()).add(d.found.rank)
        mean_of[key] = max(d.found.ranks, mean_of.get(key, 0))
    found: dict[str, int] = {}
    for (job, role), ranks in names.items():
        found[job] = found.get(job, 0) + max(len(ranks - {""}), mean_of[job, role])
    return found


# -- points -------------------------------------------------------------------------------------------------


def _point(d: Drawn, peaks: Peaks | None, lacks: str, points: str, parts: int) -> TimePoint:
    f = d.found
    work = Work(f.flops or 0.0, f.bytes or 0.0, f.seconds, f.launches)
    placed = plane.place(work, peaks) if peaks is not None else None
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
        words=_words(f, work, peaks, points, parts) if peaks else lacks,
        level=f.level,
    )


def _words(f: PointWork, work: Work, peaks: Peaks, points: str, parts: int) -> str:
    """The verdict: of the median call, or step, where a few that took much longer rule the mean."""
    each = f.launches if points == "kernel" else 1.0
    spread = f.spread
    if spread is None or spread.p50 <= 0 or each <= 0 or work.seconds / each <= spread.p95:
        return plane.words(work, peaks, plane.place(work, peaks), parts)
    usual = work._replace(seconds=spread.p50 * each)
    verdict = plane.words(usual, peaks, plane.place(usual, peaks), parts)
    what = "calls" if points == "kernel" else "steps"
    return texts.by_median(verdict, what, f.seconds / usual.seconds)


# -- kernels without FLOPs ----------------------------------------------------------------------------------


def _without_flops(nothing: Sequence[Drawn], points: str) -> tuple[Value, Value]:
    """Launches and time of the kernels that only move data."""
    if points != "kernel":
        why = texts.FOR_KERNELS_ONLY
        return Value(None, "1", reason=why), Value(None, "s", reason=why)
    per = nothing[0].found.per if nothing else ""
    jobs = len({d.job for d in nothing})
    if jobs > 1:
        per = texts.jobs_added(jobs, per)
    launches, seconds = sum(d.found.launches for d in nothing), sum(d.found.seconds for d in nothing)
    return (
        value(launches, "1", Provenance.MEASURED, Scope.ROLE, reason=per),
        value(seconds, "s", Provenance.MEASURED, Scope.ROLE, reason=per),
    )


# -- what is drawn beside -----------------------------------------------------------------------------------


def _balance(limits: Limits, peaks: Peaks | None, lacks: str) -> Value:
    origins = [c.provenance for c in (limits.compute, limits.bandwidth()) if c is not None]
    # What one peak is only reported to be cannot be measured by the other.
    weaker = max(origins, key=WEAKER.index, default=Provenance.UNSPECIFIED)
    return value(peaks.balance if peaks else None, "FLOP/byte", weaker, Scope.NODE, missing=lacks)


def _overhead(limits: Limits) -> Value:
    if limits.launch is None:
        return Value(None, "s", reason=texts.no_launch_overhead(limits.host, limits.device))
    launch = limits.launch
    return value(launch.value, "s", launch.provenance, Scope.NODE, reason=launch.method)


def _boxes(peaks: Peaks | None, launches: Mapping[tuple[str, str], float]) -> list[OverheadBox]:
    """Of one launch, and of those of a step of each role; of several jobs the fewest and the most."""
    if peaks is None:
        return []
    labels = {1: texts.ONE_LAUNCH}
    several = len({job for job, _ in launches}) > 1
    for (job, role), count in sorted(launches.items(), key=lambda item: item[1]):
        if count > MORE_THAN_ONE:
            labels.setdefault(
                round(count), texts.launches_of_step(round(count), role, job if several else "")
            )
    counts = sorted(labels)
    if len(counts) > MOST_BOXES:
        counts = [*counts[: MOST_BOXES // 2], *counts[-(MOST_BOXES // 2) :]]
    made = [plane.overhead_box(count, peaks, labels[count]) for count in counts]
    return [box for box in made if box is not None]


def _isocurves(peaks: Peaks | None, shown: Sequence[Drawn], made: Sequence[TimePoint]) -> list[Isocurve]:
    if peaks is None:
        return []
    times: list[float] = []
    across: list[float] = []
    up: list[float] = []
    for d, point in zip(shown, made, strict=True):
        work = Work(d.found.flops or 0.0, d.found.bytes or 0.0, d.found.seconds, 0.0)
        times += (work.seconds, plane.least_time(work, peaks))
        across += (work.bytes, point.time_bytes)
        up += (work.flops, point.time_flops)
    return plane.isocurves(times, peaks, plane.corner(across, up))
