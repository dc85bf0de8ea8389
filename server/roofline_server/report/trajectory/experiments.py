"""Experiments: which jobs are meant, and what differs between them, a tag or a quantity every job has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import BadRequest, UnknownJob, unknown_job
from ...model.evidence import RankEvidence
from ...model.roofline.trajectory import number_of
from ...records import ABSENT
from ...sentences import trajectories as texts
from ...sentences.reasons import NO_EXAMPLES
from ...store.catalog.tags import EXPERIMENT
from ...store.store import Store
from ...store.view import JobView
from ..ranks.members import host_of, roles_aside

MOST_JOBS = 256
THREADS = "setting.OMP_NUM_THREADS"
QUANTITIES = ("nodes", "ranks", "ps", "batch", "threads", "ranks_per_node")


class Parameter(NamedTuple):
    """The value of a parameter in a job, as it was tagged or counted; "": there is none, because of `why`."""

    at: str
    why: str = ""


class JobNote(NamedTuple):
    """A note. of: the job, or a role of a job, that it is of; "": of none."""

    text: str
    of: str = ""


def jobs_of(store: Store, experiment: str, jobs: Sequence[str]) -> list[str]:
    """The jobs of an experiment, or those named, each once, in order of their ids, by the names by which one
    asks for them. Raises UnknownJob, BadRequest."""
    if bool(experiment) == bool(jobs):
        raise BadRequest("of which jobs? name either an experiment, or the jobs")
    if experiment:
        found = store.jobs_tagged(EXPERIMENT, experiment)
    else:
        found = sorted({store.run_called(job) or job for job in jobs})
    if not found:
        raise UnknownJob(
            f"no job is tagged experiment={experiment!r}; start its jobs with "
            f"`roofline-agent run --experiment {experiment}`, or name them one by one"
        )
    if unknown := sorted(set(found) - store.jobs()):
        raise unknown_job(unknown[0], store.newest_jobs())
    if len(found) > MOST_JOBS:
        raise BadRequest(f"{len(found)} jobs in one answer; at most {MOST_JOBS}: name some of them")
    return list(map(store.asked_as, found))


def pooled(notes: Iterable[JobNote]) -> list[str]:
    """Notes of the same text of several jobs as one, at the place of the first."""
    jobs_with: dict[tuple[str, bool], dict[str, None]] = {}
    for note in notes:
        jobs_with.setdefault((note.text, bool(note.of)), {})[note.of] = None
    return [
        texts.of_jobs(list(names), text) if of_job else text for (text, of_job), names in jobs_with.items()
    ]


def slim(view: JobView) -> JobView:
    """Without what no caption and no ceiling needs: many jobs are held at once."""
    steps = {name: table for name, table in view.steps.items() if name == "steps"}
    return view._replace(steps=steps, time_windows={}, parts=())


def check_parameter(over: str, tags: Collection[Mapping[str, str]]) -> None:
    """Raises BadRequest for what is neither a tag of any of these jobs nor a quantity that jobs have."""
    known = sorted({name for each in tags for name in each if name != EXPERIMENT})
    if over in QUANTITIES or any(over in each for each in tags):
        return
    tagged = f"their tags are {', '.join(known)}" if known else "they have no tags that differ"
    asked = f"{over!r} is no tag of these jobs" if over else "over what? give what the jobs differ in"
    raise BadRequest(f"{asked}; {tagged}; every job has {', '.join(QUANTITIES)}")


def parameter(view: JobView, evidence: Mapping[int, RankEvidence], role: str, over: str) -> Parameter:
    """What a job, or a role of it, has of the parameter; a tag of the name goes before what can be counted.

    nodes: hosts with ranks of the job; ranks: those that train; ps: parameter servers; batch: median examples
    of a step and rank; threads: OMP_NUM_THREADS of the role's ranks, else of all; ranks_per_node: of the
    role, on the node that has most.
    """
    if over in view.tags:
        return Parameter(view.tags[over])
    return _counted(view, evidence, role, over)


def tag_against_count(view: JobView, evidence: Mapping[int, RankEvidence], role: str, over: str) -> list[str]:
    """A note where a tag holds another number than what can be counted of the same name."""
    if over not in view.tags:
        return []
    tag, counted = view.tags[over], _counted(view, evidence, role, over).at
    if not counted or counted == tag or number_of(tag) == number_of(counted):
        return []
    return [texts.tag_against_count(over, tag, counted)]


def _counted(view: JobView, evidence: Mapping[int, RankEvidence], role: str, over: str) -> Parameter:
    # One case for each of QUANTITIES: a table of functions would only hide how short they are.
    mine = [number for number, key in view.ranks.items() if key.role == role]
    if over == "nodes":
        return _count(len({host_of(view, number) for number in view.ranks} - {""}), texts.NO_HOSTS)
    if over == "ranks":
        aside = roles_aside({key.role for key in view.ranks.values()})
        training = [key for key in view.ranks.values() if key.role not in aside]
        return _count(len(training), texts.NOBODY_TRAINS)
    if over == "ps":
        return Parameter(str(sum(key.role == "ps" for key in view.ranks.values())))
    if over == "batch":
        return _batch(list(evidence.values()))
    if over == "threads":
        return _threads(view, mine)
    if over == "ranks_per_node":
        hosts = [host for host in (host_of(view, number) for number in mine) if host]
        return _count(max(Counter(hosts).values(), default=0), texts.NO_HOSTS)
    return Parameter("", texts.no_tag(over))


def _count(number: int, why: str) -> Parameter:
    return Parameter(str(number)) if number else Parameter("", why)


def _batch(ranks: Sequence[RankEvidence]) -> Parameter:
    known = [r.steps.examples[r.steps.examples != ABSENT] for r in ranks if not r.serving]
    every = np.concatenate(known) if known else np.zeros(0, np.int64)
    if not len(every):
        return Parameter("", NO_EXAMPLES)
    middle = float(np.median(every))
    return Parameter(str(int(middle) if middle.is_integer() else middle))


def _threads(view: JobView, mine: Sequence[int]) -> Parameter:
    """Of the role's ranks, else of all."""
    settings = {number: facts.get(THREADS, "") for number, facts in view.facts.items()}
    found = {settings[number] for number in mine if settings.get(number)}
    if not found:
        found = {text for text in settings.values() if text}
    if not found:
        return Parameter("", texts.NO_THREADS)
    if len(found) > 1:
        return Parameter("", texts.different_threads(sorted(found)))
    return Parameter(found.pop())
