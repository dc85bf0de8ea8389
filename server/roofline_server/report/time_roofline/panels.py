"""One plane of the time-based roofline: points, overhead boxes, isocurves, and what does not fit in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint
from roofline.answers.values import Provenance, Scope, Value, value

from ...model.roofline import time_roofline as plane
from ...model.roofline.roofs import Limits
from ...model.roofline.time_roofline import Peaks, Work
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
# Why something has no place in the plane, in the order of the notes.
FLOPS_UNKNOWN, FLOPS_NEGATIVE = "FLOPs are not known", "FLOPs are below zero"
BYTES_UNKNOWN, BYTES_ZERO, BYTES_NEGATIVE = "bytes are not known", "bytes are zero", "bytes are below zero"
TIME_ZERO = "time is zero"
NO_PLACE = (FLOPS_UNKNOWN, FLOPS_NEGATIVE, BYTES_UNKNOWN, BYTES_ZERO, BYTES_NEGATIVE, TIME_ZERO)
MORE_THAN_ONE = 1.5  # launches a step from which on a step's box is another than that of one launch


class Drawn(NamedTuple):
    """Something to be placed, of which job, and where the job is in a sweep."""

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
    ordered = _ordered(drawn)
    notes = _no_place(limits, ordered, points)
    drawable = [d for d in ordered if d.found.is_drawable]
    shown, rest = drawable[:MOST_POINTS], drawable[MOST_POINTS:]
    if rest:
        share = sum(d.found.seconds for d in rest) / sum(d.found.seconds for d in drawable)
        notes.append(texts.points_left_out(len(rest), share))
    without_flops = [d for d in drawn if d.found.flops == 0]
    if shown:
        made, more = _panel_of(limits, drawn, shown, without_flops, points, launches)
        return made, notes + more
    if without_flops:
        started = sum(d.found.launches for d in without_flops)
        seconds = sum(d.found.seconds for d in without_flops)
        notes.append(texts.only_without_flops(limits.host, limits.device, started, seconds))
    return None, notes


def _panel_of(
    limits: Limits,
    drawn: Sequence[Drawn],
    shown: Sequence[Drawn],
    without_flops: Sequence[Drawn],
    points: str,
    launches: Mapping[tuple[str, str], float],
) -> tuple[TimePanel, list[str]]:
    """drawn: all that was found on the device; shown: what becomes a point."""
    peaks, no_peaks = _peaks(limits)
    sharing = _sharing(drawn)
    notes = _notes_on_peaks(limits, peaks, no_peaks, max(sharing.values(), default=0))
    if points == "kernel" and limits.device:
        # Kernels of a GPU run one after another, each on all of it.
        sharing = dict.fromkeys(sharing, 1)
    made = [_point(d, peaks, no_peaks, points, sharing[d.job]) for d in shown]
    boxes = _boxes(peaks, launches)
    if not limits.device and any(box.launches > 1 for box in boxes):
        notes.append(texts.RECORDED_ALONE)
    no_flop_launches, no_flop_time = _launches_and_time(without_flops, points)
    found = TimePanel(
        limits.host,
        limits.device,
        limits.precision,
        limits.compute,
        limits.bandwidth(),
        _balance(limits, peaks, no_peaks),
        _overhead(limits),
        made,
        no_flop_launches,
        no_flop_time,
        boxes,
        _isocurves(peaks, shown, made),
    )
    return found, notes


def _notes_on_peaks(limits: Limits, peaks: Peaks | None, no_peaks: str, sharing: int) -> list[str]:
    """sharing: how many ranks of a job have the peaks together."""
    notes = [no_peaks] if no_peaks else []
    if peaks and not limits.launch:
        notes.append(texts.no_launch_overhead(limits.host, limits.device))
    if sharing > 1:
        notes.append(texts.shared_peaks(sharing, limits.host, limits.device))
    return notes


def _balance(limits: Limits, peaks: Peaks | None, no_peaks: str) -> Value:
    """The balance point, FLOP/byte: as weak as the weaker of its two peaks."""
    origins = [c.provenance for c in (limits.compute, limits.bandwidth()) if c is not None]
    weaker = max(origins, key=WEAKER.index, default=Provenance.UNSPECIFIED)
    return value(peaks.balance if peaks else None, "FLOP/byte", weaker, Scope.NODE, missing=no_peaks)


def _overhead(limits: Limits) -> Value:
    """Time to launch one kernel, s."""
    launch = limits.launch
    if launch is None:
        return Value(None, "s", reason=texts.no_launch_overhead(limits.host, limits.device))
    return value(launch.value, "s", launch.provenance, Scope.NODE, reason=launch.method)


def _ordered(drawn: Sequence[Drawn]) -> list[Drawn]:
    """What took most time first; what a sweep line joins together, along the line."""

    def line(d: Drawn) -> tuple[str, ...]:
        return (d.found.label, d.found.role) if d.at else (d.found.label, d.found.role, d.found.rank, d.job)

    most: dict[tuple[str, ...], float] = {}
    for d in drawn:
        most[line(d)] = max(d.found.seconds, most.get(line(d), 0.0))
    return sorted(drawn, key=lambda d: (-most[line(d)], line(d)))


def _no_place(limits: Limits, drawn: Sequence[Drawn], points: str) -> list[str]:
    """Notes on what computes but cannot be placed, and why; by how much time it took."""
    by_reason: dict[str, list[PointWork]] = {why: [] for why in NO_PLACE}
    for d in drawn:
        for why in _why_no_place(d.found):
            by_reason[why].append(d.found)
    notes = []
    for why, found in by_reason.items():
        if found:
            seconds = sum(f.seconds for f in found)
            names = list(dict.fromkeys(f.name for f in found))
            notes.append(texts.no_place(limits.host, limits.device, points, why, names, seconds))
    return notes


def _why_no_place(found: PointWork) -> list[str]:
    if found.flops is None:
        return [FLOPS_UNKNOWN]
    if found.flops == 0:
        return []  # what only moves data is reported apart
    reasons = []
    if found.flops < 0:
        reasons.append(FLOPS_NEGATIVE)
    if found.bytes is None:
        reasons.append(BYTES_UNKNOWN)
    elif found.bytes == 0:
        reasons.append(BYTES_ZERO)
    elif found.bytes < 0:
        reasons.append(BYTES_NEGATIVE)
    if found.bytes and found.seconds <= 0:
        reasons.append(TIME_ZERO)
    return reasons


def _peaks(limits: Limits) -> tuple[Peaks | None, str]:
    """Peaks and launch overhead; or None, and which ceilings are missing."""
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


def _point(d: Drawn, peaks: Peaks | None, no_peaks: str, points: str, parts: int) -> TimePoint:
    """no_peaks: why there are none; parts: ranks that share the peaks."""
    f = d.found
    work = Work(f.flops or 0.0, f.bytes or 0.0, f.seconds, f.launches)
    scope = Scope.PROCESS if f.rank else Scope.ROLE

    def estimated(number: float | None) -> Value:
        return value(number, "s", Provenance.ESTIMATED, scope, reason=f.per, missing=no_peaks)

    made = TimePoint(
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
        bandwidth_time=estimated(None),
        compute_time=estimated(None),
        time_bytes=0.0,
        time_flops=0.0,
        bound="",
        time_spread=f.spread,
        incomplete=f.incomplete,
        words=no_peaks,
        level=f.level,
    )
    if peaks is None:
        return made
    placed = plane.place(work, peaks)
    return made._replace(
        bandwidth_time=estimated(placed.bandwidth_time),
        compute_time=estimated(placed.compute_time),
        time_bytes=placed.bytes,
        time_flops=placed.flops,
        bound=placed.bound,
        words=_words(f, work, peaks, points, parts),
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


def _launches_and_time(nothing: Sequence[Drawn], points: str) -> tuple[Value, Value]:
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
