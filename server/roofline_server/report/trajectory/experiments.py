"""Experiments: which jobs are meant, and what differs between them, a tag or a quantity every job has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...errors import BadRequest, UnknownJob, unknown_job
from ...model.evidence import RankEvidence
from ...model.trajectory import number_of
from ...model.wording import listed
from ...records import ABSENT
from ...store.catalog.tags import EXPERIMENT
from ...store.store import Store
from ...store.view import JobView
from ..ranks.members import host_of

MOST_JOBS = 256
MOST_NAMED = 4  # jobs in one note
THREADS = "setting.OMP_NUM_THREADS"
NOT_TRAINING = ("ps", "evaluator")
QUANTITIES = ("nodes", "ranks", "ps", "batch", "threads", "ranks_per_node")


class Parameter(NamedTuple):
    """The value of a parameter in a job, as it was said or counted; "": there is none, and `why` says why."""

    at: str
    why: str = ""


def jobs_of(store: Store, experiment: str, jobs: Sequence[str]) -> list[str]:
    """The jobs of an experiment, or those named, each once, in order of their ids. Raises UnknownJob,
    BadRequest."""
    if bool(experiment) == bool(jobs):
        raise BadRequest("of which jobs? name either an experiment, or the jobs")
    found = store.jobs_tagged(EXPERIMENT, experiment) if experiment else sorted(set(jobs))
    if not found:
        raise UnknownJob(
            f"no job is tagged experiment={experiment!r}; start its jobs with "
            f"`roofline-agent run --experiment {experiment}`, or name them one by one"
        )
    if unknown := sorted(set(found) - store.jobs()):
        raise unknown_job(unknown[0], store.jobs())
    if len(found) > MOST_JOBS:
        raise BadRequest(f"{len(found)} jobs in one answer; at most {MOST_JOBS}: name some of them")
    return found


def pooled(notes: Iterable[str]) -> list[str]:
    """Notes "job NAME: TEXT" of the same text as one, "jobs NAME, NAME: TEXT", at the place of the first."""
    whose: dict[tuple[bool, str], list[str]] = {}
    for note in notes:
        name, colon, text = note.removeprefix("job ").partition(": ")
        mine = note.startswith("job ") and bool(colon)
        whose.setdefault((mine, text if mine else note), []).append(name)
    return [_told(names, text) if mine else text for (mine, text), names in whose.items()]


def _told(names: Sequence[str], text: str) -> str:
    known = list(dict.fromkeys(names))
    if len(known) == 1:
        return f"job {known[0]}: {text}"
    return f"jobs {listed(known, MOST_NAMED)}: {text}"


def slim(view: JobView) -> JobView:
    """Without what no caption and no ceiling needs: many jobs are held at once."""
    steps = {name: table for name, table in view.steps.items() if name == "steps"}
    return view._replace(steps=steps, time_windows={}, parts=())


def check_parameter(over: str, tags: Collection[Mapping[str, str]]) -> None:
    """Raises BadRequest for what is neither a tag of any of these jobs nor a quantity that jobs have."""
    known = sorted({name for each in tags for name in each if name != EXPERIMENT})
    if over in QUANTITIES or any(over in each for each in tags):
        return
    said = f"their tags are {', '.join(known)}" if known else "they have no tags that differ"
    asked = f"{over!r} is no tag of these jobs" if over else "over what? say what the jobs differ in"
    raise BadRequest(f"{asked}; {said}; every job has {', '.join(QUANTITIES)}")


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
    """A note where a tag says another number than what can be counted of the same name."""
    if over not in view.tags:
        return []
    said, seen = view.tags[over], _counted(view, evidence, role, over).at
    if not seen or seen == said or number_of(said) == number_of(seen):
        return []
    of = " examples a step and rank" if over == "batch" else ""
    return [f"its tag says {over} {said}, counted are {seen}{of}: the tag holds"]


def _counted(view: JobView, evidence: Mapping[int, RankEvidence], role: str, over: str) -> Parameter:
    mine = [number for number, key in view.ranks.items() if key.role == role]
    if over == "nodes":
        return _count(len({host_of(view, number) for number in view.ranks} - {""}), "no agent saw its ranks")
    if over == "ranks":
        training = [key for key in view.ranks.values() if key.role not in NOT_TRAINING]
        return _count(len(training), "no rank of it trains")
    if over == "ps":
        return Parameter(str(sum(key.role == "ps" for key in view.ranks.values())))
    if over == "batch":
        return _batch(list(evidence.values()))
    if over == "threads":
        return _threads(view, mine)
    if over == "ranks_per_node":
        hosts = [host for number in mine if (host := host_of(view, number))]
        return _count(max(map(hosts.count, hosts), default=0), "no agent saw its ranks")
    return Parameter("", f"it has no tag {over!r}")


def _count(number: int, why: str) -> Parameter:
    return Parameter(str(number)) if number else Parameter("", why)


def _batch(ranks: Sequence[RankEvidence]) -> Parameter:
    said = [r.steps.examples[r.steps.examples != ABSENT] for r in ranks if not r.serving]
    every = np.concatenate(said) if said else np.zeros(0, np.int64)
    if not len(every):
        return Parameter("", "nobody said how many examples its steps have")
    return Parameter(f"{float(np.median(every)):g}")


def _threads(view: JobView, mine: Sequence[int]) -> Parameter:
    everyone = {number: facts.get(THREADS, "") for number, facts in view.facts.items()}
    said = {text for number, text in everyone.items() if number in mine and text} or set(
        filter(None, everyone.values())
    )
    if not said:
        return Parameter("", "its ranks were started without OMP_NUM_THREADS")
    if len(said) > 1:
        return Parameter("", f"its ranks have different OMP_NUM_THREADS: {', '.join(sorted(said))}")
    return Parameter(said.pop())
