"""How each rank of a job ended, and the state of the job, from what agents reported."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.report import RankExit
from roofline.texts import utc

from ...clock import NodeClock
from ...model.exits import (
    ENDED,
    EXITED,
    FAILED,
    FINISHED,
    RUNNING,
    SILENT,
    TERMINATED,
    UNHARMED,
    RankEnd,
    job_state,
)
from ...records import RECORDED, Incarnation, Lifetime
from ...sentences import exits as texts
from ...store.catalog.clocks import moment
from ...store.view import JobView, once
from .members import RUNNING_NS, in_order, name_of, on_clock

LAUNCHER_EXIT = "launcher.exit"  # tag: how the launcher ended that a wrapper stood around
TAG = "tag."  # how the names of facts begin that are tags
SLURM = "slurm."  # how the tags that Slurm gives begin: a step's ranks may have others than another's
OF_RUNS = (SLURM, "launcher.")  # how tags begin that tell of a run, and not of what was run
SLURM_STATE, SLURM_EXIT = "slurm.state", "slurm.exit"  # tags, once Slurm has ended the job


def rank_ends(view: JobView, now_ns: int) -> list[RankEnd]:
    """How the newest process of each rank that was one ended; in the order of roles.

    A rank of which one process runs is running, whatever became of the others.
    """
    lives = _lives(view)
    return [
        _end_of(view, *_newest(lives[number]), now_ns)
        for number in in_order(view, lives.keys() & view.ranks.keys())
    ]


def first_failure(view: JobView) -> RankEnd | None:
    """The first process that failed and was started again; those that a launcher only terminated do not
    count."""
    found: list[RankEnd] = []
    for number, lives in _lives(view).items():
        if len(lives) < 2 or number not in view.ranks:
            continue
        newest = _newest(lives)
        begun_ns = on_clock(view, newest.who)[0]
        found += [
            _end_of(view, *one, one.last_ns)
            for one in lives
            if one is not newest and one.life.exited and one.last_ns <= begun_ns
        ]
    failed = [end for end in found if end.failed and end.status not in TERMINATED]
    return min(failed, key=lambda end: end.time_ns, default=None)


class _Life(NamedTuple):
    """A process of a rank, and when it was seen last; server time."""

    last_ns: int
    who: Incarnation
    life: Lifetime


@once
def _lives(view: JobView) -> dict[int, list[_Life]]:
    """By rank; recorded ones are not watched."""
    found: dict[int, list[_Life]] = {}
    for who, life in view.process_lifetimes.items():
        if who.pid and who.framework != RECORDED:
            found.setdefault(who.rank, []).append(_Life(on_clock(view, who)[1], who, life))
    return found


def _newest(lives: Sequence[_Life]) -> _Life:
    return max(lives, key=lambda one: (not one.life.exited, one.last_ns, one.who))


def _end_of(view: JobView, last_ns: int, who: Incarnation, life: Lifetime, now_ns: int) -> RankEnd:
    name, ending = name_of(view, who.rank), life.ending
    if life.exited:
        time_ns = _exit_time(view.clocks, who, life, last_ns)
        return RankEnd(name, EXITED, ending.status, ending.step, time_ns)
    state = RUNNING if now_ns - last_ns < RUNNING_NS else SILENT
    return RankEnd(name, state, None, ending.step, last_ns)


def _exit_time(clocks: Mapping[int, NodeClock], who: Incarnation, life: Lifetime, last_ns: int) -> int:
    time_ns = life.ending.time_ns
    return last_ns if time_ns is None else moment(clocks[who.node], time_ns)


def rank_exits(view: JobView, ends: Iterable[RankEnd]) -> list[RankExit]:
    """How each rank ended, as records of an answer. ends: see `rank_ends`."""
    launched = _exit_of_launcher(view) is not None
    return [
        RankExit(end.rank, end.state, end.status, end.last_step, end.time_ns, _words(end, launched))
        for end in ends
    ]


def exit_codes(exits: Iterable[RankExit]) -> dict[str, str]:
    """ "3", "SIGKILL": by rank, of those of which it is known."""
    return {one.rank: _signal(-one.status) or str(one.status) for one in exits if one.status is not None}


class JobEnd(NamedTuple):
    """words: "running", "finished (exit 0)", "failed: worker:1 exited with 3 after step 20"."""

    words: str
    has_failed: bool = False


def state_of(view: JobView, ends: Sequence[RankEnd]) -> JobEnd:
    """ends: see `rank_ends`. Where no rank is known to have failed, what Slurm says of the job counts."""
    if not ends:
        return JobEnd(texts.RECORDED)
    state, first, others = job_state(ends)
    by_slurm = view.tags.get(SLURM_STATE, "")
    if by_slurm and state not in (RUNNING, FAILED):
        has_failed = by_slurm not in UNHARMED
        return JobEnd(texts.by_slurm(by_slurm, view.tags.get(SLURM_EXIT, ""), has_failed), has_failed)
    status = _exit_of_launcher(view)
    if state == ENDED and status is not None:
        if not status:
            return JobEnd(texts.LAUNCHER_FINISHED)
        return JobEnd(texts.launcher_failed(_exited(status, None)), has_failed=True)
    if state in (RUNNING, FINISHED, FAILED):
        words = _of_these(state, first, others)
        before = first_failure(view)
        words = texts.started_again(words, before.rank, _words(before)) if before else words
        return JobEnd(words, state == FAILED)
    return JobEnd(_words(first) if first else texts.NOTHING_KNOWN)


def _exit_of_launcher(view: JobView) -> int | None:
    """How what started the ranks ended: the command of a wrapper, or a rank as long as it had no children.
    Of several the first that failed; those that were only terminated do not count if another did well."""
    told = [facts[TAG + LAUNCHER_EXIT] for facts in view.facts.values() if TAG + LAUNCHER_EXIT in facts]
    told = told or [view.tags.get(LAUNCHER_EXIT, "")]
    known = [int(text) for text in told if text.removeprefix("-").isdecimal()]
    if not known:
        known = [life.ending.status for life in view.starters if life.ending.status is not None]
    if 0 in known:
        known = [status for status in known if status not in TERMINATED]
    return next((status for status in known if status), known[0] if known else None)


def _of_these(state: str, first: RankEnd | None, others: int) -> str:
    """Of a job that is RUNNING, FINISHED or FAILED, by the newest process of each rank."""
    if state == FINISHED:
        return texts.finished(others)
    if first is None:
        return texts.RUNNING
    words = texts.failed if state == FAILED else texts.running_without
    return words(first.rank, _words(first), others)


def _words(end: RankEnd, launched: bool = False) -> str:
    """ "exited with 3 after step 20", "killed by SIGKILL". launched: it is known how its launcher ended."""
    if end.state == RUNNING:
        return texts.RUNNING
    if end.status is not None:
        return _exited(end.status, end.last_step)
    if end.state == SILENT:
        return texts.silent(utc(end.time_ns), end.last_step)
    return texts.ended(end.last_step, launched)


def _exited(status: int, last_step: int | None) -> str:
    return texts.exited(status, _signal(-status), last_step)


def _signal(number: int) -> str:
    """Its name; "" for what is none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}" if number > 0 else ""
