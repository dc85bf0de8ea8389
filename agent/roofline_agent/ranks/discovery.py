"""Finds the training ranks of this node in /proc, by the variables that their launchers set (identity.py).

A launcher (shell, mpirun, our own wrapper) or a child of a rank (a data-loader process) carries the same
variables and is not a rank: in each tree of processes with one identity, the topmost process that is not a
launcher counts. A child does not become a rank when the process above has ended before it, such as a data
loader of a killed rank, or a helper of Ray's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ..records import Rank
from . import pods
from .adopted import AdoptedIndices
from .candidate_reader import CandidateReader
from .candidates import (
    Candidate,
    idle_above,
    is_child,
    starters_among,
    starters_of_launched,
    tools_beside,
)
from .claims import Claimed
from .environments import Environments
from .identity import MAX_NAME, Identity, is_disabled, named_job
from .known_claims import KnownClaims
from .known_names import KnownNames
from .names import job_of
from .processes import Processes
from .scanned import ScannedProcesses

MAX_GONE = 256
MARKS = "marks"  # the framework of a process that is known to be a rank by its marks alone


class Discovery:
    """Keeps the list of ranks of one node up to date at the cost of listing /proc."""

    def __init__(
        self,
        proc: str = "/proc",
        default_job: str = "",
        socket: Path | None = None,
        adopted: Path | None = None,
    ) -> None:
        """socket: where this agent listens; ranks that have got another agent's socket are left to that.
        adopted: the file that keeps the indices of processes which marks alone made ranks."""
        self.processes = Processes(proc)
        self._adopted = AdoptedIndices(self.processes, adopted)
        self._default_job = default_job
        self._environments = Environments(self.processes)
        self._reader = CandidateReader(self.processes, self._environments, default_job, socket)
        self._names = KnownNames(self.processes, self._environments)
        self.new_names = self._names.new_names
        self._scanned = ScannedProcesses(self.processes)
        self._candidates: dict[int, Candidate] = {}
        self._claims = KnownClaims()
        self.rivals: dict[int, Claimed] = {}  # pid -> the rank that it and another process claim
        self._starters: set[int] = set()  # processes that are no ranks: they have started those that are
        self._training: set[int] = set()  # processes that have sent steps
        self._idle: set[int] = set()  # no ranks: they train nothing, and those do that they have started
        self._children: dict[int, Identity] = {}  # processes that are no ranks: a rank above gave them this
        self._left: list[Rank] = []  # what processes were taken for before it was known which rank they are
        self._moved_early: list[Rank] = []  # what those were that were moved before they were reported
        self._ticks = os.sysconf("SC_CLK_TCK")
        # Of ranks that have begun and ended since the last call of `changes`, and before it: their variables.
        self._begun_and_ended: dict[Rank, dict[str, str]] = {}
        self._brief: dict[Rank, dict[str, str]] = {}
        self._gone: dict[int, Rank] = {}  # the newest that have ended, by pid
        self._ranks: dict[int, Rank] = {}
        self._reported: dict[int, Rank] = {}

    @property
    def proc(self) -> Path:
        """Where processes are looked for."""
        return self.processes.root

    @property
    def ranks(self) -> dict[int, Rank]:
        """The ranks found by the last scan, by pid."""
        return self._ranks

    def scan(self) -> tuple[list[Rank], list[Rank]]:
        """Look again: (ranks that are new, ranks that have gone) since the last `changes`."""
        self._scanned.scan += 1
        self.scan_young()
        return self.changes()

    def changes(self) -> tuple[list[Rank], list[Rank]]:
        """Look only whether the known ranks live still: (ranks that are new, ranks that have gone) since the
        last call."""
        ended = [pid for pid, rank in self._ranks.items() if not self.is_alive(rank)]
        if ended:
            self._forget(ended)
            self._update()
        before, self._reported = self._reported, dict(self._ranks)
        brief, self._brief = list(self._begun_and_ended), self._begun_and_ended
        self._begun_and_ended = {}
        started = [rank for pid, rank in self._ranks.items() if before.get(pid) != rank]
        gone = [rank for pid, rank in before.items() if self._ranks.get(pid) != rank]
        return started + brief, gone + brief

    def scan_young(self) -> None:
        """Look at processes that are new, young, launchers or due again, and forget those that have gone."""
        # A zombie is no rank any more, and a pid used again is another process.
        for pid, candidate in list(self._candidates.items()):
            status = self.processes.status(pid)
            if status is None or status.start_ticks != candidate.start_ticks:
                self._forget([pid])
        new = self._new_pids()
        for pid in self._scanned.due(self._candidates):
            self._look(pid)
        for pid in self._scanned.young(new):
            self._look(pid)
        self._update()

    def _new_pids(self) -> set[int]:
        """Processes that were not there at the last listing; those that have gone are forgotten."""
        pids = self._scanned.listed()
        if pids is None:
            return set()
        self._forget((self._scanned.known() | self._candidates.keys()) - pids)
        return pids - self._scanned.known()

    def _forget(self, pids: Iterable[int]) -> None:
        for pid in pids:
            rank = self._ranks.get(pid)
            if rank is not None and self._reported.get(pid) != rank:
                self._begun_and_ended[rank] = self._names.known(pid).environ
            self._scanned.forget(pid)
            self._candidates.pop(pid, None)
            self._starters.discard(pid)
            self._training.discard(pid)
            self._idle.discard(pid)
            self._children.pop(pid, None)
            self._environments.forget(pid)
            self._reader.forget(pid)
            self._names.forget(pid)

    def look_at(self, pid: int) -> Rank | None:
        """The rank that process `pid` is or belongs to, looked up now; None if it is none."""
        known = self._ranks.get(pid)
        if known is not None and self.is_alive(known):
            return known
        if known is not None:
            self._forget([pid])
        ancestry = list(self.processes.ancestry(pid))
        for one in ancestry:
            self._look(one)
        self._update()
        return next((self._ranks[one] for one in ancestry if one in self._ranks), None)

    def ranks_below(self, pid: int) -> list[Rank]:
        """The ranks that process `pid` is or has started, by pid, looked up now."""
        if self.processes.status(pid) is not None:  # the scan forgets one that has gone
            self._look(pid)
        self.scan_young()
        below = [rank for rank in self._ranks.values() if pid in self.processes.ancestry(rank.pid)]
        return sorted(below, key=lambda rank: rank.pid)

    def environment(self, rank: Rank) -> dict[str, str]:
        """The variables a rank was started with; empty when it has gone or is not ours to read."""
        return self._brief.get(rank) or self._environments.variables(rank.pid)

    def ended(self, pid: int) -> Rank | None:
        """The rank that a process was that has ended lately."""
        return self._gone.get(pid)

    def is_alive(self, rank: Rank) -> bool:
        """Whether this incarnation of a rank still runs, looked up now."""
        status = self.processes.status(rank.pid)
        return status is not None and self._start_ns(status.start_ticks) == rank.start_ns

    def adopt(self, pid: int, uid: int) -> Rank | None:
        """Make a rank of a process that marks steps though no launcher's variable names it, or though it was
        taken for a child of one that has ended."""
        status = self.processes.status(pid)
        if status is None:
            return None
        if self._children.pop(pid, None) is not None:
            self._training.add(pid)
            self._update()
            return self._ranks.get(pid)
        environ = self._environments.variables(pid)
        if is_disabled(environ):
            return None
        # A batch script without srun: Slurm names the job, and no rank.
        job = named_job(environ, self._default_job) or job_of(self.processes, pid, of_session=False)
        role, index = pods.place_of(environ) or ("worker", None)
        if index is None:
            taken = {rank.index for rank in self._ranks.values() if (rank.job, rank.role) == (job, role)}
            index = self._adopted.index_of(pid, status.start_ticks, job, role, taken)
        identity = Identity(job, role, index, 0, MARKS, environ.get(pods.POD, "")[:MAX_NAME])
        found = Candidate(pid, status.parent, status.start_ticks, uid, False, identity, named=True)
        self._candidates[pid] = found
        self._scanned.settle(pid)
        self._update()
        return self._ranks.get(pid)

    def trains(self, pid: int) -> Rank | None:
        """The rank that a process is which sends steps: a program that has only started it, and sends none
        itself, is not."""
        if pid not in self._training:
            self._training.add(pid)
            self._claims.began(pid)
        self._idle.discard(pid)
        self._update()
        return self.look_at(pid)

    def is_training(self, rank: Rank) -> bool:
        """Whether this process has sent steps itself."""
        return rank.pid in self._training

    def is_idle(self, rank: Rank) -> bool:
        """Whether it turned out that this process has only started the one that trains."""
        return rank.pid in self._idle

    def started_with(self, pid: int, variables: Mapping[str, str]) -> None:
        """A process has reported variables over which it has written a title."""
        with contextlib.suppress(OSError):
            self._environments.suppose(pid, variables)

    def report(self, pid: int, variables: Mapping[str, str]) -> None:
        """A process has reported which rank it is, in variables that its environment does not show."""
        status = self.processes.status(pid)
        if status is not None:
            before = self._ranks.get(pid)
            self._reader.note_report(pid, status.start_ticks, variables)
            for one in self.processes.ancestry(pid):
                self._look(one)
            self._scanned.settle(pid)
            self._update()
            after = self._ranks.get(pid)
            if before is not None and after is not None and before[:3] != after[:3]:
                self._left.append(before)

    def as_now(self, rank: Rank) -> Rank:
        """The rank that this process is by now; of one that has gone what it was."""
        found = self._ranks.get(rank.pid)
        return found if found is not None and found.start_ns == rank.start_ns else rank

    def holds(self, claimed: Claimed, pid: int) -> None:
        """A process sends steps as this rank, which others claim too: if one has to be another rank, they."""
        self._claims.holds(claimed, pid)

    def distinguish(self, claimed: Claimed, holder: int) -> None:
        """Several processes that claim this rank train at the same time: none follows on another. One that
        has just ended does not train. holder: the pid of the one that stays this rank, if it lives."""
        self.holds(claimed, holder)
        rivals = [pid for pid, other in self.rivals.items() if other == claimed]
        self._forget([pid for pid in rivals if pid in self._ranks and not self.is_alive(self._ranks[pid])])
        self._claims.both_train(claimed)
        self._update()

    def take_left(self) -> list[Rank]:
        """What processes were taken for that have since the last call turned out to be another rank, or to be
        none but to have started ranks."""
        found, self._left = self._left, []
        return [rank for rank in found if self._ranks.get(rank.pid) != rank]

    def take_moved_early(self) -> list[Rank]:
        """What processes were that became another rank since the last call, if `changes` never had it."""
        found, self._moved_early = self._moved_early, []
        return [rank for rank in found if self._ranks.get(rank.pid) != rank]

    def claims(self) -> list[list[Rank]]:
        """The processes that say they are the same rank, for each such rank, the one that has it first."""
        found: dict[tuple[str, str, int], list[Rank]] = {}
        for pid, rank in self._ranks.items():
            found.setdefault(self._names.identity_of(self._candidates[pid])[:3], []).append(rank)
        moved = {one.pid for one in self._claims.moved}
        ordered = [
            sorted(ranks, key=lambda rank: (rank.pid in moved, rank.start_ns, rank.pid))
            for ranks in found.values()
        ]
        return [ranks for ranks in ordered if len({rank.index for rank in ranks}) > 1]

    def _start_ns(self, start_ticks: int) -> int:
        # Since boot, as the kernel has it: on another clock it would differ after an agent's restart.
        return start_ticks * 1_000_000_000 // self._ticks

    def _update(self) -> None:
        before = self._ranks
        new = set(starters_among(self._candidates)) - self._starters
        self._starters |= new
        idle, below = self._find_idle()
        new |= idle - self._idle
        self._idle |= idle
        self._left += [before[pid] for pid in new if pid in before]
        named = [one._replace(identity=self._names.identity_of(one)) for one in list(self._choose(below))]
        found = self._names.keep_users_apart(named)
        moves = self._claims.update([one.claim for one in found], self._scanned.scan)
        self.rivals = self._claims.rivals
        self._left += [before[pid] for pid in moves.back if pid in before]
        apart = [before[pid] for pid in moves.apart if pid in before]
        self._moved_early += [rank for rank in apart if self._reported.get(rank.pid) != rank]
        self._ranks = self._names.without_floods({one.pid: self._rank_of(one) for one in found})
        for pid, rank in before.items():
            if pid not in self._ranks:
                self._gone[pid] = rank
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]

    def _rank_of(self, one: Candidate) -> Rank:
        identity, names = one.identity, self._names.known(one.pid)
        return Rank(
            job=identity.job,
            role=identity.role,
            index=self._claims.moved.get(one.claim, identity.index),
            pid=one.pid,
            start_ns=self._start_ns(one.start_ticks),
            name=identity.name,
            world=identity.world,
            framework=identity.framework,
            uid=one.uid,
            launch=names.launch,
            user=names.user,
        )

    def job_of_other(self, rank: Rank) -> str:
        """The job of another user that a rank says it is of; "": it is of its own."""
        return self._names.job_of_other(rank.pid)

    def _find_idle(self) -> tuple[set[int], set[int]]:
        """Processes that train nothing next to those that do, and of these those that are children."""
        idle, below = set(starters_of_launched(self._candidates)) - self._training, set()
        idle.update(tools_beside(self._candidates, self._training))
        for pid in self._training & self._candidates.keys():
            above = idle_above(self._candidates[pid], self._candidates, self._training)
            if above and not self._candidates[pid].launcher:
                idle.update(above)
                below.add(pid)
        return idle, below

    def _choose(self, below: Collection[int]) -> Iterator[Candidate]:
        """The ranks among the candidates: no launchers, no children of a rank with the same identity, none
        that have started ranks. below: ranks though they are children."""
        for pid, candidate in self._candidates.items():
            if pid in below:
                self._children.pop(pid, None)
                yield candidate
            elif is_child(candidate, self._candidates):
                self._children[pid] = candidate.identity
            elif candidate.launcher or pid in self._starters or pid in self._idle:
                continue
            elif self._children.get(pid) != candidate.identity or candidate.reported:
                yield candidate

    def _look(self, pid: int) -> None:
        """Look up again whether a process carries an identity."""
        candidate = self._reader.read(pid, self._candidates)
        if candidate is not None:
            self._candidates[pid] = candidate
        elif not self._is_adopted(pid):
            self._candidates.pop(pid, None)

    def _is_adopted(self, pid: int) -> bool:
        """Whether this very process was made a rank by its marks: its environment says nothing of it."""
        known, status = self._candidates.get(pid), self.processes.status(pid)
        if known is None or status is None or known.start_ticks != status.start_ticks:
            return False
        return known.identity.framework == MARKS
