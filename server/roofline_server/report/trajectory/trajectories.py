"""Roles over the jobs of an experiment (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Trajectory
from roofline.answers.values import Provenance, Scope, Value, value

from ...errors import UnknownRank
from ...model.evidence import RankEvidence
from ...model.points import Level, Named, flops_spread, intensity_spread, levels, point
from ...model.roofline import MINIMUM, Limits, title
from ...model.summary import has_flops, placed, summarize
from ...model.times import runs, union_seconds
from ...model.trajectory import Reading, comparable, in_order, level_of, path
from ...model.verdicts import ONE_STEP, incomplete, sentence
from ...store.catalog.tags import EXPERIMENT
from ...store.store import Store
from ...store.view import JobView
from ..about import about
from ..ceilings.roofs import of_ranks
from ..evidence.gathering import gather
from ..evidence.ranks import NEEDED
from ..job.notes import tag_notes
from ..questions import ALL_STEPS, Steps
from ..ranks.members import is_running, role_order
from .experiments import QUANTITIES, check_parameter, jobs_of, parameter, slim, tag_against_count
from .experiments import pooled as pooled_notes
from .roofs import drawn

EVALUATOR = "evaluator"


class Asked(NamedTuple):
    """All jobs of an experiment, or those named; over: a tag, or a quantity every job has."""

    experiment: str
    jobs: tuple[str, ...]
    over: str
    roles: tuple[str, ...] = ()
    steps: Steps = ALL_STEPS


class _Job(NamedTuple):
    """What is kept of a job once its tables have been read. readings: of each role that has a place on its
    path; places: (host, device) where these computed."""

    view: JobView
    readings: dict[str, Reading]
    places: set[tuple[str, str]]
    notes: list[str]


def trajectory(store: Store, asked: Asked) -> Trajectory:
    """The answer to GetTrajectory. Raises UnknownJob, BadRequest."""
    names = jobs_of(store, asked.experiment, asked.jobs)
    tags = {name: store.tags(name) for name in names}
    check_parameter(asked.over, list(tags.values()))
    _check_roles(asked.roles, {k.role for name in names for k in store.ranks_of(name).values()})
    jobs = [job for name in names if (job := _job(store, name, asked)) is not None]
    roles = sorted({role for job in jobs for role in job.readings}, key=role_order)
    readings = {role: [j.readings[role] for j in jobs if role in j.readings] for role in roles}
    notes = [note for job in jobs for note in job.notes] + _mixed_notes(asked.over, tags)
    notes += [note for role in roles for note in _comparison_notes(role, readings[role])]
    paths = [path(role, asked.over, readings[role]) for role in roles]
    pooled = {tuple(stop.jobs): stop.at for found in paths for stop in found.stops if len(stop.jobs) > 1}
    notes += [n for some, at in pooled.items() for n in _pooled_notes(asked.over, at, some, tags)]
    notes += [n for role in roles for n in _unlike(role, asked.over, readings[role])]
    precisions = {stop.point.precision for found in paths for stop in found.stops}
    below, differ = drawn(((job.view, job.places) for job in jobs), precisions)
    captions = about([job.view for job in jobs], asked.experiment)
    return Trajectory(captions, asked.over, paths, below, pooled_notes([*notes, *differ]))


def _check_roles(asked: Sequence[str], known: set[str]) -> None:
    if unknown := [role for role in asked if role not in known]:
        raise UnknownRank(f"no rank of these jobs is a {unknown[0]!r}; roles are {', '.join(sorted(known))}")


def _job(store: Store, name: str, asked: Asked) -> _Job | None:
    view = store.view(name, NEEDED)
    if view is None:
        return None
    evidence, mode = gather(view, asked.steps)
    throughput = _throughput([r for r in evidence.values() if r.role != EVALUATOR], mode)
    notes = [*view.machine_notes, *(n for n in tag_notes(view) if n.startswith(f"tag {asked.over} "))]
    notes += ["it still runs: its numbers will change"] * is_running(view, store.now_ns())
    readings: dict[str, Reading] = {}
    places: set[tuple[str, str]] = set()
    for role in asked.roles or sorted({key.role for key in view.ranks.values()}, key=role_order):
        mine = {number: rank for number, rank in evidence.items() if rank.role == role}
        limits = of_ranks(view, mine)
        at, why = parameter(view, evidence, role, asked.over) if mine else ("", f"it has no {role}")
        reading = _reading(name, at, list(mine.values()), limits, throughput) if at else None
        if reading is not None and not reading.points and reading.throughput.value is None:
            why = "neither steps nor FLOPs of it are known"
        if why or reading is None:
            notes.append(f"left out for {role}: {why}")
            continue
        notes += tag_against_count(view, evidence, role, asked.over)
        readings[role] = reading
        places |= {(limit.host, limit.device) for limit in limits}
    return _Job(slim(view), readings, places, [f"job {name}: {note}" for note in dict.fromkeys(notes)])


# -- a role in a job ----------------------------------------------------------------------------------------


def _reading(
    job: str, at: str, ranks: Sequence[RankEvidence], limits: Sequence[Limits], throughput: Value
) -> Reading:
    values = summarize(ranks, limits, Scope.ROLE).values
    at_level, _, reached = placed(ranks, values)
    device = limits[0].device if limits else ""
    who = Named(ranks[0].role, "role", ranks[0].role, "", limits[0].host if limits else "")
    time = _time(ranks)

    def made(level: Level) -> RoofPoint:
        spreads = intensity_spread(ranks, level.steps, level.flops), flops_spread(ranks)
        joule = values["flops_per_joule"]
        lacks = incomplete(ranks, values, level.name)
        found = point(
            who, level, reached, limits, time, incomplete=lacks, spreads=spreads, flops_per_joule=joule
        )
        return found._replace(words=_words(found, limits, ranks, values))

    known = levels(ranks, values, device) if reached.value else []
    without = made(Level(MINIMUM, values["intensity.minimum"]))
    points = {level.name: made(level) for level in comparable(known, at_level)}
    return Reading(job, at, points, without, throughput, values["step_time_median"])


def _words(
    found: RoofPoint, limits: Sequence[Limits], ranks: Sequence[RankEvidence], values: Mapping[str, Value]
) -> str:
    headroom, intensity = found.headroom.value, found.intensity.value
    if headroom is None or intensity is None:
        return found.words
    sharing = -(-(sum(has_flops(ranks)) or len(ranks)) // len(limits))
    return sentence(headroom, intensity, found.level, limits[0], ranks, values, sharing)


def _time(ranks: Sequence[RankEvidence]) -> Value:
    """How long any of them was in a step."""
    seconds = union_seconds([stretch for r in ranks for stretch in runs(r.steps)])
    missing = "no step marks were received"
    return value(seconds or None, "s", Provenance.MEASURED, Scope.ROLE, missing=missing)


def _throughput(ranks: Sequence[RankEvidence], mode: str) -> Value:
    """Of the whole job: examples/s; steps/s where nobody says how many examples a step has."""
    known = summarize(ranks, [], Scope.ROLE).values["examples_per_second"]
    working = [r.steps for r in ranks if not r.serving and len(r.steps.step)]
    if known.value is not None or not working:
        return known
    # In synchronous training all ranks do the same step together.
    counts = [len(steps.step) for steps in working]
    done = max(counts) if mode == "synchronous" else sum(counts)
    seconds = union_seconds([stretch for steps in working for stretch in runs(steps)])
    return value(done / seconds if seconds else None, "steps/s", Provenance.MEASURED, Scope.ROLE)


# -- what compares ------------------------------------------------------------------------------------------


def _mixed_notes(over: str, tags: Mapping[str, Mapping[str, str]]) -> list[str]:
    without = [name for name, said in tags.items() if over not in said]
    if over not in QUANTITIES or not 0 < len(without) < len(tags):
        return []
    return [f"{over} is a tag of some jobs and counted of the others: {', '.join(without)}"]


def _pooled_notes(
    over: str, at: str, jobs: Sequence[str], tags: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Jobs of one stop of which something else was said too that differs: their median is mixed."""
    differ = []
    for name in sorted({name for job in jobs for name in tags[job]} - {over, EXPERIMENT}):
        said = {tags[job].get(name, "none") for job in jobs}
        differ += [f"{name} ({', '.join(text for same in in_order(said) for text in same)})"] * (
            len(said) > 1
        )
    if not differ:
        return []
    what = f"{over} {at}: {', '.join(jobs)} are pooled, which differ in {', '.join(differ)}"
    return [f"{what}: name jobs that are alike"]


def _comparison_notes(role: str, readings: Sequence[Reading]) -> list[str]:
    """Where the points of a path are not of one making."""
    notes = []
    level = level_of(readings)
    if level == MINIMUM and any(set(r.points) - {MINIMUM} for r in readings):
        notes.append(
            f"{role}: main memory's traffic was not counted in every job, or as fewer cache misses than its "
            "tensors have bytes: intensity is over tensor bytes"
        )
    origins = {p.flops_per_second.provenance for r in readings for p in r.points.values()}
    if len(origins) > 1:
        notes.append(f"{role}: FLOPs are counted by hardware in some jobs and follow from shapes in others")
    return notes


def _unlike(role: str, over: str, readings: Sequence[Reading]) -> list[str]:
    """Stops of which jobs are pooled that cannot be: of other precisions, or of a single step."""
    notes = []
    for same in in_order(r.at for r in readings):
        mine = [(r.job, p) for r in readings if r.at in same for p in list(r.points.values())[:1]]
        if len(mine) < 2:
            continue
        if len({p.precision for _, p in mine}) > 1:
            each = ", ".join(f"{job} {title(p.precision)}" for job, p in mine)
            notes.append(f"{role} at {over} {same[0]}: jobs of different precisions are pooled: {each}")
        if once := [job for job, p in mine if ONE_STEP in p.incomplete]:
            notes.append(f"{role} at {over} {same[0]}: of {', '.join(once)} {ONE_STEP} is pooled with others")
    return notes
