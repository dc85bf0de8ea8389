"""Which run of a job a process belongs to. No I/O.

A name of a job is used again: by a restart after the end, by a script that trains twice, by somebody else.
Each time is a *run* of its own, "42", "42/2", "42/3". A process belongs to the run that was alive when it
started; a run ends when all its processes have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Ranks of one launch begin within this time, so one that comes when the others have already failed is still
# of their run; so is one that is first known to have lived a little earlier than what is known of a run.
LAUNCH_NS = 10_000_000_000
EARLY_NS = 60_000_000_000
# A process whose node has not reported for longer does not keep a run alive; but as the node may still catch
# up, it is worth to wait for it.
SILENT_NS = 15_000_000_000
LATE_NS = 600_000_000_000
_NUMBERED = re.compile(r"(.+)/([1-9][0-9]{0,8})", re.DOTALL)


class RunProcess(NamedTuple):
    """A process of a run. Server times, ns. last_ns: until when it is known to have lived."""

    rank: tuple[str, int]  # role and index
    world: int  # ranks of its role as its environment said; 0: unknown
    launch: str  # what starts it again should it fail; "": nothing does
    start_ns: int
    last_ns: int
    ended: bool  # it did not live for longer; else its node has not reported since


class Run(NamedTuple):
    """One run of a job."""

    number: int  # from 1, in the order in which they became known
    processes: Sequence[RunProcess]

    @property
    def begin_ns(self) -> int:
        """When its first process started; 0: only others spoke for its ranks."""
        return min((process.start_ns for process in self.processes), default=0)


class Choice(NamedTuple):
    """number None: a new run. sure: no later report of a node can change it."""

    number: int | None
    sure: bool = True


def choose(new: RunProcess, runs: Iterable[Run]) -> Choice:
    """The run of a process that has just become known."""
    newest_first = sorted(runs, key=lambda run: (run.begin_ns, run.number), reverse=True)
    if new.launch:
        for run in newest_first:
            if any(process.launch == new.launch for process in run.processes):
                return Choice(run.number)
    begun = [run for run in newest_first if run.begin_ns <= new.start_ns]
    for run in begun:
        if any(process.start_ns <= new.start_ns <= process.last_ns for process in run.processes):
            return Choice(run.number)
    if begun and _is_of_launch(begun[0], new):
        return Choice(begun[0].number)
    later = newest_first[: len(newest_first) - len(begun)]
    if later and _began_early(later[-1], new):
        return Choice(later[-1].number)
    # Of these nobody knows: their nodes have not reported as far as to the start of the new one.
    silent_ns = {
        run.number: min(
            (new.start_ns - process.last_ns for process in run.processes if not process.ended),
            default=LATE_NS,
        )
        for run in begun
    }
    number = min(silent_ns, key=lambda number: silent_ns[number], default=None)
    if number is None or silent_ns[number] >= LATE_NS:
        return Choice(None)
    return Choice(number if silent_ns[number] <= SILENT_NS else None, sure=False)


def _is_of_launch(run: Run, new: RunProcess) -> bool:
    """Whether a process began with the others of a run, though these have ended since."""
    return new.start_ns - run.begin_ns <= LAUNCH_NS and _has_room(run, new)


def _began_early(run: Run, new: RunProcess) -> bool:
    """Whether a process that began before a run is one of it: it lived when the others followed, or may
    have, or it began with them and had ended when it became known."""
    if new.last_ns >= run.begin_ns:
        return True
    early_ns = run.begin_ns - new.start_ns
    return early_ns <= (LAUNCH_NS if new.ended else EARLY_NS) and _has_room(run, new)


def _has_room(run: Run, new: RunProcess) -> bool:
    """Whether a run lacks this rank, and is as large as the rank says."""
    same_role = [process for process in run.processes if process.rank[0] == new.rank[0]]
    if any(process.rank == new.rank for process in same_role):
        return False
    return all(not new.world or not process.world or process.world == new.world for process in same_role)


def nearest(end_ns: int, runs: Iterable[Run]) -> int | None:
    """The run that a recorded file belongs to: the last that had begun by the end of the file."""
    ordered = sorted(runs, key=lambda run: (run.begin_ns, run.number))
    begun = [run for run in ordered if run.begin_ns <= end_ns]
    return (begun or ordered)[-1].number if ordered else None


# -- names -------------------------------------------------------------------------------------------------


def run_name(job: str, number: int) -> str:
    """The name that a run is kept under: "42", "42/2". The first of a job that is called so, "x/2", is
    "x/2/1"."""
    return job if number == 1 and not _NUMBERED.fullmatch(job) else f"{job}/{number}"


def job_and_number(name: str) -> tuple[str, int]:
    """What `run_name` was made of; of names of older stores too."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 1)
