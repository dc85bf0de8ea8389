"""Complexity and time of kernels or steps in one plane (Wang et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.answers.time_roofline import TimePanel, TimeRoofline

from ...errors import BadRequest, unknown_job
from ...model.roofline.trajectory import in_order
from ...sentences import time_rooflines as texts
from ...sentences.breakdowns import kernels_of_sample
from ...store.store import Needed, Store
from ...store.view import JobView
from ..about import about
from ..ceilings.limits import on_device
from ..ceilings.nodes import late_notes
from ..evidence.gathering import check
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.steady import left_out_notes
from ..evidence.subjects import evidence
from ..kernels.totals import NEEDED as OF_KERNELS
from ..kernels.totals import kernel_totals
from ..questions import Subject
from ..ranks.members import chosen
from ..trajectory.experiments import JobNote, check_parameter, jobs_of, parameter, slim, tag_against_count
from ..trajectory.experiments import pooled as pooled_notes
from .panels import Drawn, Launches, launches_of, panel
from .works import PointWork, kernels, steps

POINTS: dict[str, Needed] = {"kernel": OF_KERNELS, "step": OF_REPORT}
USED = ("compute", "memory", "overhead")  # kinds of ceilings
MOST_JOBS = 64


class TimeRooflineQuery(NamedTuple):
    """One job (subject.job), or several: all of an experiment or those named, joined over a parameter."""

    subject: Subject
    experiment: str
    jobs: tuple[str, ...]
    over: str
    points: str  # kernel, step


class _WorkOfJob(NamedTuple):
    """view: slim, one job is read at a time. at: role -> what the job has of the parameter; "": nothing.
    launches: of all that was found, though not all of it is shown."""

    view: JobView
    at: dict[str, str]
    found: list[PointWork]
    launches: Launches
    notes: list[JobNote]


def time_roofline(store: Store, asked: TimeRooflineQuery) -> TimeRoofline:
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
    shared += [JobNote(note) for note in notes]
    captions = about([job.view for job in jobs], asked.experiment)
    return TimeRoofline(captions, panels, pooled_notes(shared), asked.over)


def _names(store: Store, asked: TimeRooflineQuery) -> list[str]:
    """The jobs asked for, each once."""
    one = asked.subject.job
    if one and not asked.experiment and not asked.jobs:
        return [store.asked_as(store.run_called(one) or one)]
    names = jobs_of(store, asked.experiment, (*asked.jobs, *filter(None, [one])))
    if len(names) > MOST_JOBS:
        raise BadRequest(f"{len(names)} jobs in one picture; at most {MOST_JOBS}: name some of them")
    return names


def _job(store: Store, name: str, asked: TimeRooflineQuery, points: str) -> _WorkOfJob:
    # How many examples a step has is known from the steps, the rest of a parameter from the ranks.
    whole = points == "step" or asked.over == "batch"
    view = store.view(name, OF_REPORT if whole else OF_KERNELS)
    if view is None:
        raise unknown_job(name, store.newest_jobs())
    subject = asked.subject._replace(job=name)
    ranks = evidence(view, subject) if whole else {}
    notes = [JobNote(note) for note in late_notes(view, USED)]
    if points == "kernel":
        totals = kernel_totals(store, view, subject.steps, chosen(view, subject.ranks))
        found = kernels(view, totals)
        if totals.of_sample:
            notes.append(JobNote(kernels_of_sample(totals.of_sample), name))
        if totals.outside:
            notes.append(JobNote(texts.kernels_outside(totals.outside), name))
    else:
        found = steps(view, ranks)
    notes += [JobNote(note, name) for note in left_out_notes(view, subject.steps)]
    if not found:
        notes.append(JobNote(texts.NO_KERNELS if points == "kernel" else texts.NO_STEPS, name))
    at = {}
    for role in dict.fromkeys(f.role for f in found) if asked.over else ():
        at[role], why = parameter(view, ranks, role, asked.over)
        if why:
            notes.append(JobNote(texts.on_no_line(why), texts.role_of(name, role)))
        notes += [JobNote(note, name) for note in tag_against_count(view, ranks, role, asked.over)]
    return _WorkOfJob(slim(view), at, found, launches_of(found), notes)


def _joined(job: _WorkOfJob) -> _WorkOfJob:
    """Points by name without shapes, of each the one that took most time; what is no point stays as it is."""
    best: dict[tuple[object, ...], PointWork] = {}
    for one in job.found:
        key = (one.place, one.precision, one.role, one.name, None if one.is_drawable else one.label)
        if key not in best or one.seconds > best[key].seconds:
            best[key] = one
    notes = job.notes
    others = len(job.found) - len(best)
    if others:
        notes = [*notes, JobNote(texts.other_shapes(others), job.view.job)]
    return job._replace(found=[f._replace(label=f.name) for f in best.values()], notes=notes)


# -- panels -------------------------------------------------------------------------------------------------


def _panels(jobs: Sequence[_WorkOfJob], points: str) -> tuple[list[TimePanel], list[str]]:
    """One per host, device and precision; that in which most time was spent first."""
    grouped = _grouped(jobs)
    notes: list[str] = []
    values = [d.at for drawn in grouped.values() for d in drawn if d.at]
    order = {text: n for n, same in enumerate(in_order(values)) for text in same}
    by_name = {job.view.job: job for job in jobs}
    found = []
    for (host, device, precision), drawn in grouped.items():
        drawn.sort(key=lambda d: order.get(d.at, len(order)))
        if device is None:
            notes.append(drawn[0].found.place.note)
            continue
        names = list(dict.fromkeys(d.job for d in drawn))
        view = by_name[drawn[-1].job].view
        # Of several jobs the ceilings of the last count; where those of another differ a note says so.
        limits = on_device(view, host, device, precision)
        others = (on_device(by_name[name].view, host, device, precision) for name in names)
        if any((other.compute, other.slopes) != (limits.compute, limits.slopes) for other in others):
            notes.append(texts.ceilings_changed(host, view.job))
        made, more = panel(limits, drawn, points, _launches_on(host, device, [by_name[n] for n in names]))
        if made is not None:
            found.append(made)
        notes += more
    return sorted(found, key=lambda p: -sum(point.time.value or 0.0 for point in p.points)), notes


def _launches_on(host: str, device: str, jobs: Sequence[_WorkOfJob]) -> dict[tuple[str, str], float]:
    """By job and role."""
    return {
        (job.view.job, role): count
        for job in jobs
        for (at_host, at_device, role), count in job.launches.items()
        if (at_host, at_device) == (host, device)
    }


def _grouped(jobs: Sequence[_WorkOfJob]) -> dict[tuple[str, str | None, str], list[Drawn]]:
    """By host, device and precision."""
    grouped: dict[tuple[str, str | None, str], list[Drawn]] = {}
    for job in jobs:
        # Kernels without FLOPs belong to no precision: they go with what is most of the device's time.
        spent: dict[tuple[str, str | None], dict[str, float]] = {}
        for one in job.found:
            if one.flops:
                seconds = spent.setdefault((one.place.host, one.place.device), {})
                seconds[one.precision] = seconds.get(one.precision, 0.0) + one.seconds
        main = {where: max(seconds, key=seconds.__getitem__) for where, seconds in spent.items()}
        for one in job.found:
            host, device = one.place.host, one.place.device
            precision = one.precision if one.flops else main.get((host, device), one.precision)
            drawn = Drawn(one, job.view.job, job.at.get(one.role, ""))
            grouped.setdefault((host, device, precision), []).append(drawn)
    return grouped
