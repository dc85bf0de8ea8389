"""Which run of a job a process belongs to. No I/O.

A name of a job is used again: by a restart after the end, by a script that trains twice, by somebody else.
Each time is a *run* of its own, "42", "42/2", "42/3". A process belongs to the run that was alive when it
started; a run ends when all its processes have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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


class Run:
    """One run of a job, as a whole: thousands of processes ask for theirs at once, so what they ask is kept
    instead of being looked for in all that it has. Server times, ns."""

    def __init__(self, number: int, processes: Iterable[RunProcess] = ()) -> None:
        self.number = number  # from 1, in the order in which they became known
        self.begin_ns = 0  # when its first process started; 0: only others spoke for its ranks
        self.last_ns = 0  # until when one of them is known to have lived
        self.launches: set[str] = set()
        self._ranks: set[tuple[str, int]] = set()
        self._worlds: dict[str, set[int]] = {}
        self._not_ended: list[RunProcess] = []
        for process in processes:
            self.add(process)

    def add(self, process: RunProcess) -> None:
        """One more; its last_ns may grow (`lives`)."""
        self.begin_ns = min(self.begin_ns, process.start_ns) if self._ranks else process.start_ns
        self.lives(process.last_ns)
        self._ranks.add(process.rank)
        if process.world:
            self._worlds.setdefault(process.rank[0], set()).add(process.world)
        if process.launch:
            self.launches.add(process.launch)
        if not process.ended:
            self._not_ended.append(process)

    def lives(self, until_ns: int) -> None:
        """Some process of it is known to have lived so long."""
        self.last_ns = max(self.last_ns, until_ns)

    def newest_report_ns(self) -> int | None:
        """Until when one that is not known to have ended is known to have lived; None: all have ended."""
        return max((process.last_ns for process in self._not_ended), default=None)

    def lived_at(self, moment_ns: int) -> bool:
        return self.begin_ns <= moment_ns <= self.last_ns

    def has_room(self, new: RunProcess) -> bool:
        """Whether it lacks this rank, and is as large as the rank says."""
        worlds = self._worlds.get(new.rank[0], set())
        return new.rank not in self._ranks and (not new.world or worlds <= {new.world})


class Choice(NamedTuple):
    """number None: a new run. sure: no later report of a node can change it."""

    number: int | None
    sure: bool = True


def choose(new: RunProcess, runs: Iterable[Run]) -> Choice:
    """The run of a process that has just become known."""
    newest_first = sorted(runs, key=lambda run: (run.begin_ns, run.number), reverse=True)
    if new.launch:
        for run in newest_first:
            if new.launch in run.launches:
                return Choice(run.number)
    begun = [run for run in newest_first if run.begin_ns <= new.start_ns]
    for run in begun:
        if run.lived_at(new.start_ns):
            return Choice(run.number)
    if begun and _is_of_launch(begun[0], new):
        return Choice(begun[0].number)
    later = newest_first[: len(newest_first) - len(begun)]
    if later and _began_early(later[-1], new):
        return Choice(later[-1].number)
    # Of these nobody knows: their nodes have not reported as far as to the start of the new one.
    silent_ns = {}
    for run in begun:
        reported_ns = run.newest_report_ns()
        silent_ns[run.number] = LATE_NS if reported_ns is None else new.start_ns - reported_ns
    number = min(silent_ns, key=lambda number: silent_ns[number], default=None)
    if number is None or silent_ns[number] >= LATE_NS:
        return Choice(None)
    return Choice(number if silent_ns[number] <= SILENT_NS else None, sure=False)


def _is_of_launch(run: Run, new: RunProcess) -> bool:
    """Whether a process began with the others of a run, though these have ended since."""
    return new.start_ns - run.begin_ns <= LAUNCH_NS and run.has_room(new)


def _began_early(run: Run, new: RunProcess) -> bool:
    """Whether a process that began before a run is one of it: it lived when the others followed, or may
    have, or it began with them and had ended when it became known."""
    if new.last_ns >= run.begin_ns:
        return True
    early_ns = run.begin_ns - new.start_ns
    return early_ns <= (LAUNCH_NS if new.ended else EARLY_NS) and run.has_room(new)


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
