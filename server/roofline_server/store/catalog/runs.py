"""The runs of all jobs: gives each process of a job to one of them, for good (run_choice.py).

Agents know the name of a job only. It is decided here, when a process is first reported, and kept in the
catalog, so that what a process reports later, or again after a crash of the server, is of the same run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...records import RECORDED, Incarnation, Lifetime, RankKey
from .catalog import Catalog
from .run_choice import Choice, Run, RunProcess, choose, job_and_number, nearest, run_name

ProcessId = tuple[str, int, int, int]  # job, node, pid, start
OFFSET_HOLDS_NS = 5_000_000_000  # of a node's clock: it drifts by less than a millisecond meanwhile


class Unclear(Exception):
    """Nodes have not reported far enough to tell of which run a process is."""


class ReportedRank(NamedTuple):
    """A rank in a batch. who: of it pid, start_ns, world and framework."""

    key: RankKey  # with the name of the job as the agent knows it
    who: Incarnation
    launch: str
    user: str = ""  # who submitted it; "": not known

    @property
    def is_process(self) -> bool:
        """Whether it is a process of this node: no file, and none that only another rank reported."""
        return self.who.pid > 0 and self.who.framework != RECORDED


class RankTable:
    """The ranks of a batch; the same object as long as an agent's ranks are the same."""

    def __init__(self, node: int, ranks: Sequence[ReportedRank]) -> None:
        self.node, self.ranks = node, ranks
        self.ids: list[ProcessId] = [(one.key.job, node, one.who.pid, one.who.start_ns) for one in self.ranks]


class _Process:
    """What is known of a process. Node times."""

    __slots__ = (
        "ended",
        "exited",
        "last_ns",
        "launch",
        "rank",
        "start_ns",
        "world",
    )  # of all jobs ever they stay

    def __init__(self, one: ReportedRank, start_ns: int, last_ns: int) -> None:
        self.rank = (one.key.role, one.key.index)
        self.world, self.launch = one.who.world, one.launch
        self.start_ns, self.last_ns = start_ns, last_ns
        self.exited = self.ended = False


class _KnownRun(Run):
    """A run whose processes come, live on and end."""

    def __init__(self, number: int, newest_report: Callable[[Iterable[int]], int | None]) -> None:
        super().__init__(number)
        self.processes: dict[ProcessId, _Process] = {}
        self.alive: Counter[int] = Counter()  # node -> how many of its processes are not known to have ended
        self.untimed: list[ProcessId] = []  # of nodes of whose clocks nothing is known yet
        self._newest_report = newest_report

    def add(self, process: RunProcess) -> None:
        super().add(process._replace(ended=True))  # `alive` has those that have not

    def newest_report_ns(self) -> int | None:
        return self._newest_report(self.alive)


class Runs:
    """Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        ranks: Mapping[RankKey, int],
        moment: Callable[[int, int], int | None] = lambda node, node_ns: node_ns,
    ) -> None:
        """ranks: of the catalog. moment: server time of a node's time; None: its clock is not known."""
        self._catalog, self._moment = catalog, moment
        self._lock = threading.Lock()
        self._runs: dict[str, dict[int, _KnownRun]] = {}  # job -> number
        self._runs_on: dict[int, Counter[_KnownRun]] = {}  # node -> runs of its processes that have not ended
        self._offsets: dict[int, tuple[int, int]] = {}  # node -> its time, how far the server's was ahead
        self._number: dict[ProcessId, int] = {}
        self._chosen: dict[ProcessId, tuple[int, str]] = {}  # that the catalog does not have yet
        self._tables: dict[int, RankTable] = {}  # node -> the newest
        self._alive: dict[int, set[ProcessId]] = {}  # node -> its processes in that table
        self._through: dict[int, int] = {}  # node -> node time it has reported up to
        self._load(ranks)

    def _load(self, ranks: Mapping[RankKey, int]) -> None:
        key_of = {rank: key for key, rank in ranks.items()}
        for key in ranks:
            self._run(*job_and_number(key.job))
        launches = self._catalog.run_processes()
        for who, lifetime in self._catalog.process_lifetimes().items():
            key = key_of[who.rank]
            job, number = job_and_number(key.job)
            one = (job, who.node, who.pid, who.start_ns)
            if one in launches:
                job, number = one[0], launches[one][0]
            launch = launches[one][1] if one in launches else ""
            self._remember(one, number, ReportedRank(key, who, launch), lifetime)
            self._through[who.node] = max(lifetime.last_ns, self._through.get(who.node, 0))
        for one, (number, _) in launches.items():
            # Of a batch that is in the inbox still, or never came to be kept.
            self._run(one[0], number)
            self._number.setdefault(one, number)

    def _remember(self, one: ProcessId, number: int, rank: ReportedRank, lifetime: Lifetime) -> None:
        self._number[one] = number
        if rank.who.framework == RECORDED:
            self._run(one[0], number)
            return
        # Where its start is counted otherwise than a node's time is, it started when it was seen first.
        start_ns = min(rank.who.start_ns, lifetime.first_ns)
        process = _Process(rank, start_ns, lifetime.last_ns)
        process.exited = process.ended = lifetime.exited
        self._add(one, number, process)
        if not lifetime.exited:
            self._lives(one)

    def _run(self, job: str, number: int) -> _KnownRun:
        known = self._runs.setdefault(job, {})
        if number not in known:
            known[number] = _KnownRun(number, self._newest_report)
        return known[number]

    def _add(self, one: ProcessId, number: int, process: _Process) -> None:
        run = self._run(one[0], number)
        run.processes[one] = process
        run.untimed.append(one)

    def _lives(self, one: ProcessId) -> None:
        """A process that a run has is there."""
        alive, run = self._alive.setdefault(one[1], set()), self._run(one[0], self._number[one])
        if one not in alive:
            alive.add(one)
            run.alive[one[1]] += 1
            self._runs_on.setdefault(one[1], Counter())[run] += 1

    def _has_ended(self, one: ProcessId) -> None:
        """It is there no more."""
        node, alive = one[1], self._alive.get(one[1], set())
        if one in alive:
            alive.discard(one)
            run = self._run(one[0], self._number[one])
            run.alive -= Counter((node,))  # leaves out what is 0
            self._runs_on[node] -= Counter((run,))

    # -- what agents report --------------------------------------------------------------------------------

    def take(
        self,
        table: RankTable,
        begin_ns: int,
        end_ns: int,
        exits: Collection[int],
        patient: bool = False,
    ) -> None:
        """Take the ranks of a batch of a node, from begin_ns to end_ns of its time.

        Of one that comes after younger ones nothing follows for who is there now. exits: which of the ranks
        have ended. patient: raises Unclear where a later report of another node may decide; nothing of the
        batch has been taken then but what ended.
        """
        with self._lock:
            gone = {table.ids[at] for at in exits}
            if end_ns < self._through.get(table.node, 0):
                self._tables.pop(table.node, None)
                self._choose(table, end_ns, gone, patient)
                return
            known = self._tables.get(table.node) is table and not gone
            if not known:
                self._note_ended(table, begin_ns, gone)
            self._through[table.node] = max(end_ns, self._through.get(table.node, 0))
            self._live_on(table.node)
            if not known:
                self._choose(table, end_ns, gone, patient)
                self._tables[table.node] = table

    def _live_on(self, node: int) -> None:
        """Its processes are known to have lived until its newest report."""
        runs = self._runs_on.get(node)
        if runs and (offset := self._offset(node)) is not None:
            for run in runs:
                run.lives(self._through[node] + offset)

    def save(self) -> None:
        """Have the catalog keep which runs were chosen: to be called before a batch of theirs is kept. Until
        then their agents would send it again."""
        with self._lock:
            chosen, self._chosen = self._chosen, {}
        try:
            self._catalog.add_run_processes(chosen)
        except Exception:
            with self._lock:
                self._chosen = chosen | self._chosen
            raise

    def names_of(self, table: RankTable, begin_ns: int, end_ns: int) -> list[str]:
        """The names of the runs of the ranks of a batch that was taken."""
        with self._lock:
            extent = begin_ns, end_ns
            return [
                run_name(one.key.job, self._run_of(table, at, extent)) for at, one in enumerate(table.ranks)
            ]

    def _note_ended(self, table: RankTable, begin_ns: int, gone: set[ProcessId]) -> None:
        """Processes that a node does not report any more have ended, as those have that it reports to."""
        alive = self._alive.setdefault(table.node, set())
        through = self._through.get(table.node, 0)
        here = set(table.ids)
        for one in alive - here | gone & self._number.keys():
            process = self._process(one)
            if process is not None and not process.ended:
                # Whose end is reported was there until then, though earlier batches are still to come.
                last_ns = max(through, begin_ns) if one in gone else through
                process.last_ns, process.ended = max(process.last_ns, last_ns), True
            if process is not None and one in gone:
                process.exited = True
                if (offset := self._offset(table.node)) is not None:
                    self._run(one[0], self._number[one]).lives(process.last_ns + offset)
        for one in alive - (here - gone):
            self._has_ended(one)
        for one in here - gone - alive:
            process = self._process(one)
            if process is not None and not process.exited:  # an agent that missed it sees it again
                process.ended = False
                self._lives(one)

    def _process(self, one: ProcessId) -> _Process | None:
        run = self._runs.get(one[0], {}).get(self._number.get(one, 0))
        return run.processes.get(one) if run is not None else None

    def _choose(self, table: RankTable, end_ns: int, gone: set[ProcessId], patient: bool) -> None:
        """Give each process that is new to a run."""
        new = [
            (one, id)
            for one, id in zip(table.ranks, table.ids, strict=True)
            if one.is_process and self._process(id) is None
        ]
        chosen: dict[ProcessId, tuple[int, str]] = {}
        try:
            for one, id in sorted(new, key=lambda pair: pair[0].who.start_ns):
                start_ns = min(one.who.start_ns, end_ns)
                process = _Process(one, start_ns, start_ns if id in gone else end_ns)
                process.exited = process.ended = id in gone
                number = self._number.get(id)  # of a batch that was not kept: the agent sends it again
                if number is None:
                    number = self._choice(table.node, process, one.key.job, patient)
                    chosen[id] = number, one.launch
                self._number[id] = number
                self._add(id, number, process)
                if not process.ended:
                    self._lives(id)
        finally:
            self._chosen |= chosen

    def _choice(self, node: int, process: _Process, job: str, patient: bool) -> int:
        """The number of the run of a new process. Raises Unclear."""
        runs, timed = self.runs_of(job), self._on_clock(node, process)
        if timed is not None:
            choice = choose(timed, runs)
        else:
            newest = max(runs, key=_newness, default=None)
            choice = Choice(newest.number if newest else None, sure=newest is None)
        if not choice.sure and patient:
            raise Unclear
        return choice.number or 1 + max((run.number for run in runs), default=0)

    def _run_of(self, table: RankTable, at: int, extent: tuple[int, int]) -> int:
        """Of a rank in a batch. One that another speaks for is of that one's run, a file of the run that ran
        then."""
        one = table.ranks[at]
        if one.is_process:
            return self._number[table.ids[at]]
        runs = self.runs_of(one.key.job)
        if one.who.framework == RECORDED:
            moments = [self._moment(table.node, node_ns) or 0 for node_ns in extent]
            number = nearest(max(moments), runs)
        else:
            beside = [self._number[id] for id in table.ids if id[0] == one.key.job and id in self._number]
            newest = max(runs, key=_newness, default=Run(1)).number
            number = max(beside, default=newest)
        number = number or 1
        self._run(one.key.job, number)
        return number

    # -- questions -----------------------------------------------------------------------------------------

    def names(self, job: str) -> list[str]:
        """The names of the runs of a job, the newest first; none where the job is not known."""
        with self._lock:
            runs = self.runs_of(job)
        return [run_name(job, run.number) for run in sorted(runs, key=_newness, reverse=True)]

    def numbers(self, job: str) -> list[int]:
        """The numbers of the runs of a job."""
        with self._lock:
            return list(self._runs.get(job, ()))

    def runs_of(self, job: str) -> list[Run]:
        """The runs of a job, on the server's clock."""
        found: list[Run] = []
        for run in self._runs.get(job, {}).values():
            waiting, run.untimed = run.untimed, []
            for one in waiting:
                timed = self._on_clock(one[1], run.processes[one])
                if timed is None:
                    run.untimed.append(one)
                else:
                    run.add(timed)
            found.append(run)
        return found

    def _newest_report(self, nodes: Iterable[int]) -> int | None:
        """Until when one of these nodes has reported; None: of none is it known."""
        known = [(self._through.get(node, 0), self._offset(node)) for node in nodes]
        return max((through + offset for through, offset in known if offset is not None), default=None)

    def _offset(self, node: int) -> int | None:
        """By how much the server's time is ahead of a node's; None: nothing is known of its clock."""
        through, known = self._through.get(node, 0), self._offsets.get(node)
        if known is not None and through - known[0] < OFFSET_HOLDS_NS:
            return known[1]
        server_ns = self._moment(node, through)
        if server_ns is None:
            return None
        self._offsets[node] = through, server_ns - through
        return server_ns - through

    def _on_clock(self, node: int, process: _Process) -> RunProcess | None:
        """None: nothing is known of the node's clock."""
        offset = self._offset(node)
        if offset is None:
            return None
        last_ns = process.last_ns
        if not process.ended:
            last_ns = max(last_ns, self._through.get(node, 0))
        return RunProcess(
            process.rank,
            process.world,
            process.launch,
            process.start_ns + offset,
            last_ns + offset,
            process.ended,
        )


def _newness(run: Run) -> tuple[int, int]:
    return run.begin_ns, run.number
