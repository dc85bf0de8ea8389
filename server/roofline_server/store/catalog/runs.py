"""The runs of all jobs: gives each process of a job to one of them, for good (run_choice.py).

Agents know the name of a job only. It is decided here, when a process is first reported, and kept in the
catalog, so that what a process reports later, or again after a crash of the server, is of the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...records import RECORDED, Incarnation, Lifetime, RankKey
from .catalog import Catalog
from .run_choice import Choice, Run, RunProcess, choose, job_and_number, nearest, run_name

ProcessId = tuple[str, int, int, int]  # job, node, pid, start


class Unclear(Exception):
    """Nodes have not reported far enough to tell of which run a process is."""


class ReportedRank(NamedTuple):
    """A rank in a batch. who: of it pid, start_ns, world and framework."""

    key: RankKey  # with the name of the job as the agent knows it
    who: Incarnation
    launch: str

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

    def __init__(self, one: ReportedRank, start_ns: int, last_ns: int) -> None:
        self.rank = (one.key.role, one.key.index)
        self.world, self.launch = one.who.world, one.launch
        self.start_ns, self.last_ns = start_ns, last_ns
        self.exited = self.ended = False


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
        # job -> number of the run -> its processes
        self._runs: dict[str, dict[int, dict[ProcessId, _Process]]] = {}
        self._number: dict[ProcessId, int] = {}
        self._tables: dict[int, RankTable] = {}  # node -> the newest
        self._alive: dict[int, set[ProcessId]] = {}  # node -> its processes in that table
        self._through: dict[int, int] = {}  # node -> node time it has reported up to
        self._load(ranks)

    def _load(self, ranks: Mapping[RankKey, int]) -> None:
        key_of = {rank: key for key, rank in ranks.items()}
        for key in ranks:
            job, number = job_and_number(key.job)
            self._runs.setdefault(job, {}).setdefault(number, {})
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
            self._runs.setdefault(one[0], {}).setdefault(number, {})
            self._number.setdefault(one, number)

    def _remember(self, one: ProcessId, number: int, rank: ReportedRank, lifetime: Lifetime) -> None:
        self._number[one] = number
        if rank.who.framework == RECORDED:
            self._runs.setdefault(one[0], {}).setdefault(number, {})
            return
        # Where its start is counted otherwise than a node's time is, it started when it was seen first.
        start_ns = min(rank.who.start_ns, lifetime.first_ns)
        process = _Process(rank, start_ns, lifetime.last_ns)
        process.exited = process.ended = lifetime.exited
        self._runs.setdefault(one[0], {}).setdefault(number, {})[one] = process
        if not lifetime.exited:
            self._alive.setdefault(one[1], set()).add(one)

    # -- what agents report --------------------------------------------------------------------------------

    def take(self, table: RankTable, end_ns: int, exits: Collection[int], patient: bool = False) -> None:
        """Take the ranks of the next batch of a node, which ends at end_ns of its time.

        exits: which of the ranks have ended. patient: raises Unclear where a later report of another node
        may decide; nothing of the batch has been taken then but what ended.
        """
        with self._lock:
            gone = {table.ids[at] for at in exits}
            known = self._tables.get(table.node) is table and not gone
            if not known:
                self._note_ended(table, gone)
            self._through[table.node] = max(end_ns, self._through.get(table.node, 0))
            if not known:
                self._choose(table, end_ns, gone, patient)
                self._tables[table.node] = table

    def names_of(self, table: RankTable, begin_ns: int, end_ns: int) -> list[str]:
        """The names of the runs of the ranks of a batch that was taken."""
        with self._lock:
            extent = begin_ns, end_ns
            return [
                run_name(one.key.job, self._run_of(table, at, extent)) for at, one in enumerate(table.ranks)
            ]

    def _note_ended(self, table: RankTable, gone: set[ProcessId]) -> None:
        """Processes that a node does not report any more have ended, as those have that it reports to."""
        alive = self._alive.setdefault(table.node, set())
        through = self._through.get(table.node, 0)
        here = set(table.ids)
        for one in alive - here | gone & self._number.keys():
            process = self._process(one)
            if process is not None and not process.ended:
                process.last_ns, process.ended = max(process.last_ns, through), True
            if process is not None and one in gone:
                process.exited = True
        alive.intersection_update(here - gone)
        for one in here - gone - alive:
            process = self._process(one)
            if process is not None and not process.exited:  # an agent that missed it sees it again
                process.ended = False
                alive.add(one)

    def _process(self, one: ProcessId) -> _Process | None:
        return self._runs.get(one[0], {}).get(self._number.get(one, 0), {}).get(one)

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
                self._runs.setdefault(id[0], {}).setdefault(number, {})[id] = process
                if not process.ended:
                    self._alive[table.node].add(id)
        finally:
            self._catalog.add_run_processes(chosen)

    def _choice(self, node: int, process: _Process, job: str, patient: bool) -> int:
        """The number of the run of a new process. Raises Unclear."""
        runs, timed = self.runs_of(job), self._on_clock(node, process, {})
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
            newest = max(runs, key=_newness, default=Run(1, ())).number
            number = max(beside, default=newest)
        number = number or 1
        self._runs.setdefault(one.key.job, {}).setdefault(number, {})
        return number

    # -- questions -----------------------------------------------------------------------------------------

    def names(self, job: str) -> list[str]:
        """The names of the runs of a job, the newest first; none where the job is not known."""
        with self._lock:
            runs = self.runs_of(job)
        return [run_name(job, run.number) for run in sorted(runs, key=_newness, reverse=True)]

    def runs_of(self, job: str) -> list[Run]:
        """The runs of a job, on the server's clock."""
        offsets: dict[int, int | None] = {}
        found = []
        for number, processes in self._runs.get(job, {}).items():
            timed = (self._on_clock(one[1], process, offsets) for one, process in processes.items())
            found.append(Run(number, [process for process in timed if process is not None]))
        return found

    def _on_clock(self, node: int, process: _Process, offsets: dict[int, int | None]) -> RunProcess | None:
        """None: nothing is known of the node's clock. offsets: of the clocks of nodes, as they are asked
        for."""
        if node not in offsets:
            through = self._through.get(node, 0)
            server_ns = self._moment(node, through)
            offsets[node] = None if server_ns is None else server_ns - through
        offset = offsets[node]
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


def asked_as(name: str, names: Iterable[str]) -> str:
    """How to ask for a run, so that no other of these is meant: the first of several is "42/1"."""
    job, number = job_and_number(name)
    several = any(other != name and job_and_number(other)[0] == job for other in names)
    return f"{job}/{number}" if several else name
