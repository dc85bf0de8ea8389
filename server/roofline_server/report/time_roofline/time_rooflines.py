"""Complexity and time of kernels or steps in one plane (Wang et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline.answers.time_roofline import TimePanel, TimeRoofline

from ...errors import BadRequest, unknown_job
from ...model.trajectory import in_order
from ...store.store import Needed, Store
from ...store.view import JobView
from ..about import about
from ..breakdown.kernel_totals import NEEDED as OF_KERNELS
from ..breakdown.kernel_totals import kernel_totals
from ..ceilings.nodes import late_notes
from ..ceilings.roofs import limits
from ..evidence.gathering import check
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.subjects import evidence
from ..questions import Subject
from ..steps.steps import chosen
from ..trajectory.experiments import check_parameter, jobs_of, parameter, slim, tag_against_count
from ..trajectory.experiments import pooled as pooled_notes
from .panels import Drawn, Launches, launches_of, panel
from .works import Found, kernels, steps

POINTS: dict[str, Needed] = {"kernel": OF_KERNELS, "step": OF_REPORT}
USED = ("compute", "memory", "overhead")  # kinds of ceilings
MOST_JOBS = 64
ADVICE = "start ranks with `roofline-agent run -- CMD`"


class Asked(NamedTuple):
    """One job (subject.job), or several: all of an experiment or those named, joined over a parameter."""

    subject: Subject
    experiment: str
    jobs: tuple[str, ...]
    over: str
    points: str  # kernel, step


class _Job(NamedTuple):
    """view: slim, one job is read at a time. at: role -> what the job has of the parameter; "": nothing.
    launches: of all that was found, though not all of it is shown."""

    view: JobView
    at: dict[str, str]
    found: list[Found]
    launches: Launches
    notes: list[str]


def time_roofline(store: Store, asked: Asked) -> TimeRoofline:
    """The answer to GetTimeRoofline. Raises UnknownJob, UnknownRank, BadRequest.

    A point is a kind of kernel by the ranks of one role on one node, in a step (the mean of its steps), or
    the mean step of a rank. Of several jobs joined over a parameter, kernels go by their names without
    shapes, and of those of one name the one that took most time stands for it.
    """
    points = asked.points or "kernel"
    if points not in POINTS:
        raise BadRequest(f"points {points!r}: ask for {' or '.join(POINTS)}")
    check(asked.subject.steps)
    names = _names(store, asked)
    if asked.over:
        check_parameter(asked.over, [store.tags(name) for name in names])
    jobs = [_job(store, name, asked, points) for name in names]
    if asked.over:
        jobs = [_joined(job) for job in jobs]
    panels, notes = _panels(jobs, points)
    shared = [note for job in jobs for note in job.notes]
    said = pooled_notes(dict.fromkeys([*shared, *notes]))
    return TimeRoofline(about([job.view for job in jobs], asked.experiment), panels, said, asked.over)


def _names(store: Store, asked: Asked) -> list[str]:
    """The jobs asked for, each once."""
    one = asked.subject.job
    if one and not asked.experiment and not asked.jobs:
        return [one]
    names = jobs_of(store, asked.experiment, (*asked.jobs, *filter(None, [one])))
    if len(names) > MOST_JOBS:
        raise BadRequest(f"{len(names)} jobs in one picture; at most {MOST_JOBS}: name some of them")
    return names


def _job(store: Store, name: str, asked: Asked, points: str) -> _Job:
    # How many examples a step has is known from the steps, the rest of a parameter from the ranks.
    whole = points == "step" or asked.over == "batch"
    view = store.view(name, OF_REPORT if whole else OF_KERNELS)
    if view is None:
        raise unknown_job(name, store.jobs())
    subject = asked.subject._replace(job=name)
    ranks = evidence(view, subject) if whole else {}
    notes = late_notes(view, USED)
    if points == "kernel":
        totals = kernel_totals(store, view, subject.steps, chosen(view, subject.ranks))
        found = kernels(view, totals)
        if totals.outside:
            notes.append(
                f"job {name}: {totals.outside:,} kernels lie in no step, or in one not watched in full"
            )
    else:
        found = steps(view, ranks)
    if not found:
        what = "kernels were recorded" if points == "kernel" else "step of a rank has FLOPs"
        notes.append(f"job {name}: no {what}; {ADVICE}")
    at = {}
    for role in dict.fromkeys(f.role for f in found) if asked.over else ():
        at[role], why = parameter(view, ranks, role, asked.over)
        notes += [f"job {name}, {role}: on no sweep line: {why}"] if why else []
        notes += [f"job {name}: {note}" for note in tag_against_count(view, ranks, role, asked.over)]
    return _Job(slim(view), at, found, launches_of(found), notes)


def _joined(job: _Job) -> _Job:
    """Points by name without shapes, of each the one that took most time; what is no point stays as it is."""
    best: dict[tuple[object, ...], Found] = {}
    for one in job.found:
        key = (one.place, one.precision, one.role, one.name, None if one.is_drawable else one.label)
        if key not in best or one.seconds > best[key].seconds:
            best[key] = one
    others = len(job.found) - len(best)
    notes = []
    if others:
        more = "of kernels that differ in their shapes alone, the one that took most time is shown"
        left = "1 is left out" if others == 1 else f"{others} are left out"
        notes.append(f"job {job.view.job}: {more}; {left}")
    return job._replace(found=[f._replace(label=f.name) for f in best.values()], notes=[*job.notes, *notes])


# -- panels -------------------------------------------------------------------------------------------------


def _panels(jobs: Sequence[_Job], points: str) -> tuple[list[TimePanel], list[str]]:
    """One per host, device and precision; that in which most time was spent first."""
    grouped: dict[tuple[str, str | None, str], list[Drawn]] = {}
    notes: list[str] = []
    for job in jobs:
        known = [f for f in job.found if f.flops]
        main = _precision_of(known)
        for one in job.found:
            place = one.place
            # Kernels without FLOPs belong to no precision: they go with what is most of the device's time.
            precision = one.precision if one.flops else main.get((place.host, place.device), one.precision)
            key = place.host, place.device, precision
            grouped.setdefault(key, []).append(Drawn(one, job.view.job, job.at.get(one.role, "")))
    found = []
    views = {job.view.job: job.view for job in jobs}
    order = {text: n for n, same in enumerate(in_order(_said(grouped.values()))) for text in same}
    for (host, device, precision), drawn in grouped.items():
        drawn.sort(key=lambda d: order.get(d.at, len(order)))
        view = views[drawn[-1].job]
        if device is None:
            notes.append(drawn[0].found.place.note)
            continue
        peaks = limits(view, host, device, precision)
        names = list(dict.fromkeys(d.job for d in drawn))
        others = (limits(views[name], host, device, precision) for name in names)
        if any((other.compute, other.slopes) != (peaks.compute, peaks.slopes) for other in others):
            notes.append(f"ceilings of {host} changed between these jobs: those of {view.job} are drawn")
        started = {
            (job.view.job, role): count
            for job in jobs
            for (*at, role), count in job.launches.items()
            if job.view.job in names and at == [host, device]
        }
        made, said = panel(peaks, drawn, points, started)
        found += [made] if made is not None else []
        notes += said
    return sorted(found, key=lambda p: -sum(point.time.value or 0.0 for point in p.points)), notes


def _said(groups: Iterable[Sequence[Drawn]]) -> list[str]:
    return [d.at for drawn in groups for d in drawn if d.at]


def _precision_of(found: Sequence[Found]) -> dict[tuple[str, str | None], str]:
    """host, device -> precision in which most time was spent on FLOPs."""
    spent: dict[tuple[str, str | None], dict[str, float]] = {}
    for one in found:
        by = spent.setdefault((one.place.host, one.place.device), {})
        by[one.precision] = by.get(one.precision, 0.0) + one.seconds
    return {key: max(by, key=lambda precision: by[precision]) for key, by in spent.items()}
