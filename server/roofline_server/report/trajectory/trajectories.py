"""Roles over the jobs of an experiment (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Path, Stop, Trajectory
from roofline.answers.values import Provenance, Scope, Value, value

from ...errors import UnknownRank
from ...model.evidence import RankEvidence
from ...model.roofline.point_gaps import incomplete, one_step_only
from ...model.roofline.point_limits import sentence
from ...model.roofline.points import Level, Named, flops_spread, intensity_spread, levels, point
from ...model.roofline.roofs import MINIMUM, Limits
from ...model.roofline.summary import has_flops, placed, summarize
from ...model.roofline.trajectory import (
    SAME,
    STEPS,
    Reading,
    comparable,
    failed_beside_others,
    in_order,
    level_of,
    path,
)
from ...model.times import union_seconds
from ...sentences import reasons
from ...sentences import trajectories as texts
from ...store.catalog.tags import EXPERIMENT
from ...store.store import Store
from ...store.view import JobView
from ..about import about
from ..ceilings.limits import of_ranks
from ..ceilings.nodes import machine_notes
from ..evidence.gathering import gather
from ..evidence.ranks import NEEDED
from ..job.notes import tag_notes
from ..questions import STEADY_STEPS, Steps
from ..ranks.exits import OF_RUNS, rank_ends, state_of
from ..ranks.members import is_running, role_order
from .experiments import (
    QUANTITIES,
    JobNote,
    check_parameter,
    jobs_of,
    parameter,
    slim,
    tag_against_count,
)
from .experiments import pooled as pooled_notes
from .roofs import drawn

EVALUATOR = "evaluator"
Tags = Mapping[str, Mapping[str, str]]  # by job


class TrajectoryQuery(NamedTuple):
    """All jobs of an experiment, or those named; over: a tag, or a quantity every job has."""

    experiment: str
    jobs: tuple[str, ...]
    over: str
    roles: tuple[str, ...] = ()
    steps: Steps = STEADY_STEPS


class _JobOnPath(NamedTuple):
    """What is kept of a job once its tables have been read. readings: of each role that has a place on its
    path; places: (host, device) where these computed."""

    view: JobView
    readings: dict[str, Reading]
    places: set[tuple[str, str]]
    notes: list[JobNote]


def trajectory(store: Store, asked: TrajectoryQuery) -> Trajectory:
    """The answer to GetTrajectory. Raises UnknownJob, UnknownRank, BadRequest."""
    names = jobs_of(store, asked.experiment, asked.jobs)
    tags = {name: store.tags(name) for name in names}
    check_parameter(asked.over, list(tags.values()))
    known = {key.role for name in names for key in store.ranks_of(name).values()}
    for role in asked.roles:
        if role not in known:
            raise UnknownRank(f"no rank of these jobs is a {role!r}; roles are {', '.join(sorted(known))}")

    jobs = [job for job in (_job(store, name, asked) for name in names) if job is not None]
    readings: dict[str, list[Reading]] = {}  # by role
    for job in jobs:
        for role, reading in job.readings.items():
            readings.setdefault(role, []).append(reading)
    every = {role: readings[role] for role in sorted(readings, key=role_order)}
    without = {role: failed_beside_others(mine) for role, mine in every.items()}
    readings = {role: [r for r in mine if r.job not in without[role]] for role, mine in every.items()}
    paths = [path(role, asked.over, mine) for role, mine in readings.items()]
    precisions = {stop.point.precision for found in paths for stop in found.stops}
    compared = {r.job for mine in readings.values() for r in mine}
    on_paths = [job for job in jobs if any(r.job in compared for r in job.readings.values())]
    below, other_roofs = drawn(((job.view, job.places) for job in on_paths), precisions)

    notes = [note for job in jobs for note in job.notes]
    for role, mine in every.items():
        notes += _notes_on_failures(asked.over, mine, without[role])
    if asked.steps == STEADY_STEPS:
        notes.append(JobNote(texts.STEADY_STEPS))
    notes += [JobNote(text) for text in _notes_on_paths(asked.over, tags, readings, paths)]
    captions = about([job.view for job in jobs], asked.experiment)
    return Trajectory(captions, asked.over, paths, below, pooled_notes([*notes, *other_roofs]))


def _job(store: Store, name: str, asked: TrajectoryQuery) -> _JobOnPath | None:
    # Long, but one loop: each role is left out, with a note, at the first thing that it does not have.
    view = store.view(name, NEEDED)
    if view is None:
        return None
    gathered = gather(view, asked.steps)
    evidence = gathered.evidence
    throughput = _job_throughput([r for r in evidence.values() if r.role != EVALUATOR], gathered.mode)
    notes = [*machine_notes(view), *(note for tag, note in tag_notes(view) if tag == asked.over)]
    now_ns = store.now_ns()
    if is_running(view, now_ns):
        notes.append(texts.STILL_RUNS)
    end = state_of(view, rank_ends(view, now_ns))
    steps = max((len(r.steps.step) for r in evidence.values() if r.role != EVALUATOR), default=0)
    readings: dict[str, Reading] = {}
    places: set[tuple[str, str]] = set()
    for role in asked.roles or sorted({key.role for key in view.ranks.values()}, key=role_order):
        mine = {number: rank for number, rank in evidence.items() if rank.role == role}
        if not mine:
            notes.append(texts.left_out(role, texts.no_role(role)))
            continue
        at, why = parameter(view, evidence, role, asked.over)
        if why or not at:
            notes.append(texts.left_out(role, why))
            continue
        limits = of_ranks(view, mine)
        reading = _reading(name, at, list(mine.values()), limits, throughput)
        if not reading.points and reading.throughput.value is None:
            notes.append(texts.left_out(role, texts.NOTHING_KNOWN))
            continue
        notes += tag_against_count(view, evidence, role, asked.over)
        readings[role] = reading._replace(
            failure=end.words if end.has_failed else "",
            steps=steps,
            sizes={name: parameter(view, evidence, role, name).at for name in QUANTITIES},
        )
        places |= {(limit.host, limit.device) for limit in limits}
    return _JobOnPath(slim(view), readings, places, [JobNote(note, name) for note in notes])


# -- a role in a job ----------------------------------------------------------------------------------------


def _reading(
    job: str, at: str, ranks: Sequence[RankEvidence], limits: Sequence[Limits], throughput: Value
) -> Reading:
    values = summarize(ranks, limits, Scope.ROLE).values
    at_level, _, reached = placed(ranks, values)
    first = limits[0] if limits else None
    who = Named(ranks[0].role, "role", ranks[0].role, "", first.host if first else "")
    # How long any of them was in a step.
    seconds = union_seconds([r.steps.runs for r in ranks])
    missing = reasons.NO_STEP_MARKS
    time = value(seconds or None, "s", Provenance.MEASURED, Scope.ROLE, missing=missing)

    def made(level: Level) -> RoofPoint:
        found = point(
            who,
            level,
            reached,
            limits,
            time,
            incomplete=incomplete(ranks, values, level.name),
            spreads=(intensity_spread(ranks, level.steps, level.flops), flops_spread(ranks)),
            flops_per_joule=values["flops_per_joule"],
        )
        headroom, intensity = found.headroom.value, found.intensity.value
        if headroom is None or intensity is None:
            return found
        sharing = -(-(sum(has_flops(ranks)) or len(ranks)) // len(limits))  # rounded up
        words = sentence(headroom, intensity, found.level, limits[0], ranks, values, sharing)
        return found._replace(words=words)

    known = levels(ranks, values, first.device if first else "") if reached.value else []
    return Reading(
        job,
        at,
        points={level.name: made(level) for level in comparable(known, at_level)},
        without=made(Level(MINIMUM, values["intensity.minimum"])),
        throughput=throughput,
        step_time=values["step_time_median"],
        single_step=bool(one_step_only(ranks)),
    )


def _job_throughput(ranks: Sequence[RankEvidence], mode: str) -> Value:
    """Of the whole job: examples/s; steps/s where nobody reports how many examples a step has."""
    known = summarize(ranks, [], Scope.ROLE).values["examples_per_second"]
    working = [r.steps for r in ranks if not r.serving and len(r.steps.step)]
    if known.value is not None or not working:
        return known
    # In synchronous training all ranks do the same step together.
    counts = [len(steps.step) for steps in working]
    done = max(counts) if mode == "synchronous" else sum(counts)
    seconds = union_seconds([steps.runs for steps in working])
    return value(done / seconds if seconds else None, STEPS, Provenance.MEASURED, Scope.ROLE)


# -- what compares ------------------------------------------------------------------------------------------


def _notes_on_failures(over: str, readings: Sequence[Reading], without: Set[str]) -> list[JobNote]:
    """readings: of a role; without: jobs that are left out of its stops."""
    notes = []
    for r in readings:
        if r.job in without:
            notes.append(JobNote(texts.failed_beside_others(r.failure, over, r.at), r.job))
        elif r.failure:
            notes.append(JobNote(texts.failed(r.failure, r.steps), r.job))
    return notes


def _notes_on_paths(
    over: str, tags: Tags, readings: Mapping[str, Sequence[Reading]], paths: Sequence[Path]
) -> list[str]:
    """What speaks against comparing the stops of these paths. readings: by role."""
    notes = []
    untagged = [name for name, mine in tags.items() if over not in mine]
    if over in QUANTITIES and 0 < len(untagged) < len(tags):
        notes.append(texts.tag_of_some(over, untagged))
    for role, mine in readings.items():
        notes += _mixed_points(role, mine)
    noted: set[tuple[str, ...]] = set()  # the jobs of a stop of several roles once
    for found in paths:
        sizes = {r.job: r.sizes for r in readings[found.role]}
        for stop in found.stops:
            if len(stop.jobs) > 1 and tuple(stop.jobs) not in noted:
                noted.add(tuple(stop.jobs))
                notes += _pooled_notes(over, stop, tags, sizes)
    for role, mine in readings.items():
        notes += _mixed_stops(role, over, mine)
    return notes


def _pooled_notes(over: str, stop: Stop, tags: Tags, sizes: Tags) -> list[str]:
    """Jobs of one stop of which another tag or size differs too: their median is mixed."""
    differ = []
    tagged = {name for job in stop.jobs for name in tags[job]}
    for name in sorted({*tagged, *QUANTITIES} - {over, EXPERIMENT}):
        if name.startswith(OF_RUNS):
            continue  # each job has a number of its own
        missing = "none" if name in tagged else ""  # what was not counted may be the same
        values = {tags[job].get(name) or sizes[job].get(name) or missing for job in stop.jobs} - {""}
        if len(values) > 1 and not (name == "batch" and name not in tagged and _are_alike(values)):
            differ.append(texts.differing_tag(name, [text for same in in_order(values) for text in same]))
    return [texts.pooled(over, stop.at, stop.jobs, differ)] if differ else []


def _are_alike(counted: Iterable[str]) -> bool:
    """Whether these batches are nearly one: those of tokens vary from run to run."""
    numbers = list(map(float, counted))
    return max(numbers) - min(numbers) <= SAME * max(numbers)


def _mixed_points(role: str, readings: Sequence[Reading]) -> list[str]:
    """Where the points of a path differ in the level of their bytes, or in how they were counted."""
    notes = []
    if level_of(readings) == MINIMUM and any(set(r.points) - {MINIMUM} for r in readings):
        notes.append(texts.over_tensor_bytes(role))
    by_origin: dict[str, dict[str, None]] = {}
    for reading in readings:
        for one in reading.points.values():
            by_origin.setdefault(one.flops_per_second.provenance.value, {})[reading.job] = None
    if len(by_origin) > 1:
        notes.append(texts.mixed_origins(role, [(origin, list(jobs)) for origin, jobs in by_origin.items()]))
    return notes


def _mixed_stops(role: str, over: str, readings: Sequence[Reading]) -> list[str]:
    """Stops of which jobs are pooled that cannot be: of other precisions, or of a single step."""
    notes = []
    # One pass over the stops: both notes are on the same readings.
    for same in in_order(r.at for r in readings):
        mine = [r for r in readings if r.at in same and r.points]
        if len(mine) < 2:
            continue
        precisions = [(r.job, next(iter(r.points.values())).precision) for r in mine]
        if len({precision for _, precision in precisions}) > 1:
            notes.append(texts.mixed_precisions(role, over, same[0], precisions))
        once = [r.job for r in mine if r.single_step]
        if once:
            notes.append(texts.single_steps(role, over, same[0], once))
    return notes
