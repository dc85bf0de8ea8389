"""Asks every source that works for its rows; a source that fails or hangs costs its own samples only.

Sources that read files share one thread and are read right after one another, so their rows describe the same
moment; those that measure (a driver, a service) take turns in another. A source that does not answer in time
is dropped with its thread, and the rest of its lane goes on in a new one. Those that are off, or were dropped
after failures, are checked again every few minutes: a service may start later than the agent, or be upgraded.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from .records import CounterSet, Event, EventKind, Rank, Sample, Samples, Source, SourceStatus

log = logging.getLogger(__name__)

HANGS_NS = 4_000_000_000  # a source that takes longer is dropped; the server waits 5 s for late rows
PROBE_HANGS_S = 20.0  # perf tries its events one by one
FAILURES = 20  # in a row, and a source is dropped
AGAIN_NS = 180_000_000_000  # between checks of sources that are off
RESTART = "look at the agent's log, then restart the agent"
PATIENCE_S = 1.0  # of `sample`, which waits for its rows


Caveats = Mapping[tuple[str, str], str]  # what speaks against a metric, by source and metric
NO_CAVEATS: Caveats = MappingProxyType({})


@functools.lru_cache(maxsize=64)  # asked for every row
def _estimated(counter_set: CounterSet, names: frozenset[str]) -> CounterSet:
    return counter_set.estimated(names)


class _Answer(NamedTuple):
    """What one source answered: rows, a status, or an error."""

    source: Source
    rows: Sequence[Sample] = ()
    status: SourceStatus | None = None
    error: Exception | None = None


_Question = Callable[[Source], _Answer]


def _check(source: Source) -> _Answer:
    return _Answer(source, status=source.probe())


class _Worker(threading.Thread):
    """Asks one source after another."""

    def __init__(self, name: str, receive: Callable[[_Worker, _Answer], None]) -> None:
        super().__init__(name=f"sampler-{name}", daemon=True)
        self._rounds: queue.SimpleQueue[tuple[Sequence[Source], _Question] | None] = queue.SimpleQueue()
        self._receive = receive
        self.asking: tuple[Source, int] | None = None  # whom, since when (node time)
        self.abandoned = False  # another asks its sources from now on
        self.idle = threading.Event()
        self.idle.set()

    def begin(self, sources: Sequence[Source], question: _Question) -> None:
        self.idle.clear()
        self._rounds.put((sources, question))

    def run(self) -> None:
        while (work := self._rounds.get()) is not None:
            sources, question = work
            for source in sources:
                if self.abandoned:
                    break
                self.asking = (source, time.monotonic_ns())
                try:
                    answer = question(source)
                except Exception as error:
                    answer = _Answer(source, error=error)
                self._receive(self, answer)
            self.asking = None
            self.idle.set()
        if self.abandoned:
            threading.Event().wait()  # for good: with this thread the programs end that it has started

    def end(self) -> None:
        self._rounds.put(None)


class _Lane:
    """Sources that take turns, and the worker that asks them."""

    def __init__(
        self, measures: bool, sources: Iterable[Source], receive: Callable[[_Worker, _Answer], None]
    ) -> None:
        self.measures = measures
        self.sources = [source for source in sources if source.measures == measures]
        self._receive = receive
        self._late: tuple[Source, int] | None = None  # what was asked too long ago at the last look
        self._start_worker()

    def _start_worker(self) -> None:
        self.worker = _Worker("measuring" if self.measures else "files", self._receive)
        self.worker.start()

    def ask(self, question: _Question) -> None:
        """Begin a round, unless the last one still goes on: a late round is skipped, not made up for."""
        if self.sources and self.worker.idle.is_set():
            self.worker.begin(self.sources.copy(), question)

    def hanging(self, limit_ns: int) -> Source | None:
        """The source that has not answered for so long, at two looks: where all of this process stood still
        (a signal, a frozen cgroup, a paused machine) the source answers between them."""
        asking, before = self.worker.asking, self._late
        self._late = asking if asking is not None and time.monotonic_ns() - asking[1] > limit_ns else None
        return asking[0] if asking is not None and self._late is asking is before else None

    def leave_out(self, source: Source) -> None:
        """Ask it no more, if it was still asked."""
        self.sources = [one for one in self.sources if one is not source]

    def put_back(self, source: Source) -> None:
        if not self.sources:  # nobody needed the worker
            self.worker.end()
            self._start_worker()
        self.sources = [*self.sources, source]

    def abandon(self, source: Source) -> None:
        """Leave the thread that waits for this source; the others get a new one with the next round."""
        self.leave_out(source)
        self.worker.abandoned = True
        self.worker.end()
        self._start_worker()


class Sampler:
    """The sources of one agent, their rows and their states. Its methods are called from one thread."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        hangs_ns: int = HANGS_NS,
        caveats: Caveats = NO_CAVEATS,
        once: Collection[str] = (),
        again_ns: int = AGAIN_NS,
    ) -> None:
        """Probe all of them; one whose check fails or hangs is off. caveats: see `mark`. once: sources that
        are not checked again, though they are off. again_ns: when others are."""
        self._hangs_ns = hangs_ns
        self._caveats = caveats
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._statuses: dict[str, SourceStatus] = {}
        self._failures: dict[str, int] = {}  # in a row
        self._reported: set[str] = set()
        self._dropped: list[Source] = []  # after failures; unlike those that hang they can be closed
        self._off: list[Source] = []  # to be checked again
        self._once, self._again_ns = once, again_ns
        self._next_check_ns = time.monotonic_ns() + again_ns
        self._checker: _Worker | None = None  # of those that are off
        self._rows: dict[CounterSet, list[Sample]] = {}
        self._events: list[Event] = []
        self._lanes = [_Lane(measures, sources.values(), self._receive) for measures in (False, True)]

        for lane in self._lanes:
            lane.ask(_check)
        self._wait(PROBE_HANGS_S * len(sources), int(PROBE_HANGS_S * 1e9))
        self._collect()
        answered = self._statuses
        self._statuses = {}
        for name, source in sources.items():
            status = answered.get(name) or SourceStatus(name, False, "its own check did not end")
            self._statuses[name] = status._replace(fills=source.fills)
            if name in answered and not status.works and name not in once:
                self._off.append(source)
        for lane in self._lanes:
            lane.sources = [source for source in lane.sources if self._statuses[source.name].works]
            if not lane.sources:
                lane.worker.end()
        # A source that cannot work here is no failure: its status says so.
        self._events = []
        self.changed = False  # whether a status is not what it was at the start

    @property
    def statuses(self) -> list[SourceStatus]:
        return [one._replace(caveat=self._caveat_of(one.name)) for one in self._statuses.values()]

    def _caveat_of(self, name: str) -> str:
        return "; ".join(why for (source, _), why in self._caveats.items() if source == name)

    def mark(self, caveats: Caveats) -> None:
        """From now on mark these metrics as estimated, and no others."""
        self._caveats, self.changed = caveats, True

    def ask(self, ranks: Sequence[Rank]) -> None:
        """Begin one round over all sources; its rows are there with a later `take`."""
        self._drop_hanging(self._hangs_ns)
        self._check_again()

        def rows_of(source: Source) -> _Answer:
            rows = source.sample(ranks)
            expected = len(source.counter_set.metrics)
            for row in rows:
                if len(row.values) != expected:  # it would cost the whole batch later on
                    raise ValueError(f"a row has {len(row.values)} values for {expected} metrics")
            return _Answer(source, rows)

        for lane in self._lanes:
            lane.ask(rows_of)

    def _check_again(self) -> None:
        """Check those that are off, if it is time, in a thread that ends with that."""
        now = time.monotonic_ns()
        if not self._off or now < self._next_check_ns:
            return
        self._next_check_ns = now + self._again_ns
        if self._checker is not None and self._checker.asking is not None:
            stuck, _ = self._checker.asking
            log.warning("source %s is not checked any more: its own check does not end", stuck.name)
            self._forget(stuck)
        checker = self._checker = _Worker("off", self._receive)
        checker.start()
        checker.begin(self._off.copy(), _check)
        checker.end()

    def _forget(self, source: Source) -> None:
        """Neither check nor close a source that hangs."""
        self._off = [one for one in self._off if one is not source]
        self._dropped = [one for one in self._dropped if one is not source]

    def wait(self, seconds: float) -> None:
        """Until the round under way has ended, at most so long."""
        self._wait(seconds, self._hangs_ns)

    def take(self) -> tuple[Samples, list[Event]]:
        """The rows since the last call, and an event for each source that has newly failed."""
        self._collect()
        rows, events = self._rows, self._events
        self._rows, self._events = {}, []
        return rows, events

    def sample(self, ranks: Sequence[Rank]) -> tuple[Samples, list[Event]]:
        """One round, waited for as long as the sources answer."""
        self.wait(PATIENCE_S)
        self.ask(ranks)
        self.wait(PATIENCE_S)
        return self.take()

    def close(self) -> None:
        """Let all sources close; one that hangs is left behind."""

        def closed(source: Source) -> _Answer:
            try:
                source.close()
            except Exception as error:
                log.warning("source %s did not close: %s", source.name, error)
            return _Answer(source)

        for lane in self._lanes:
            lane.sources += [source for source in self._dropped if source.measures == lane.measures]
            lane.ask(closed)
        self.wait(PATIENCE_S)
        for lane in self._lanes:
            lane.worker.end()

    def _receive(self, worker: _Worker, answer: _Answer) -> None:
        # In the worker's thread. The answer of a thread that was abandoned comes too late to be of use.
        if worker is self._checker or any(lane.worker is worker for lane in self._lanes):
            self._answers.put(answer)

    def _wait(self, seconds: float, hangs_ns: int) -> None:
        """Wait until all lanes are idle, at most so long; a source that hangs is dropped."""
        until = time.monotonic() + seconds
        for lane in self._lanes:
            while not lane.worker.idle.wait(min(0.2, max(0.0, until - time.monotonic()))):
                self._drop_hanging(hangs_ns)
                if time.monotonic() >= until:
                    break

    def _drop_hanging(self, limit_ns: int) -> None:
        for lane in self._lanes:
            source = lane.hanging(limit_ns)
            if source is not None:
                lane.abandon(source)
                self._forget(source)  # it may have been dropped after failures while it was asked once more
                self._drop(source, f"it did not answer for {limit_ns / 1e9:.3g} s and was dropped", RESTART)

    def _collect(self) -> None:
        """Sort the answers that have come into rows, statuses and failures."""
        while not self._answers.empty():
            source, rows, status, error = self._answers.get()
            if error is not None:
                self._count_failure(source, error)
            elif status is not None:
                self._take_status(source, status)
            else:
                self._failures[source.name] = 0
                if rows:
                    self._rows.setdefault(self._described(source), []).extend(rows)

    def _take_status(self, source: Source, status: SourceStatus) -> None:
        """Of the first check, or of one that was off; of two checks that overlap the first counts."""
        if source not in self._off:
            self._statuses.setdefault(source.name, status)
        elif status.works:
            log.info("source %s works now", source.name)
            self._forget(source)
            self._failures[source.name] = 0
            self._reported.discard(source.name)
            next(lane for lane in self._lanes if lane.measures == source.measures).put_back(source)
            self._statuses[source.name] = status._replace(fills=source.fills)
            self.changed = True

    def _described(self, source: Source) -> CounterSet:
        names = frozenset(metric for name, metric in self._caveats if name == source.name)
        return _estimated(source.counter_set, names) if names else source.counter_set

    def _count_failure(self, source: Source, error: Exception) -> None:
        name = source.name
        if source in self._off:  # checked again, or asked once more when it was dropped
            return
        if name not in self._statuses:
            self._statuses[name] = SourceStatus(name, False, f"its own check failed: {error}")
            return
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if name not in self._reported:
            self._reported.add(name)
            log.warning("source %s failed: %s (logged once; others go on)", name, error)
            self._report(f"{name}: {error}")
        if count >= FAILURES:
            for lane in self._lanes:
                lane.leave_out(source)
            self._dropped.append(source)
            advice = RESTART
            if name not in self._once:
                advice = f"look at the agent's log; it is tried again every {self._again_ns / 60e9:.3g} min"
                self._off.append(source)
                self._next_check_ns = time.monotonic_ns() + self._again_ns
            self._drop(source, f"it failed {count} times in a row and was dropped: {error}", advice)

    def _drop(self, source: Source, reason: str, advice: str) -> None:
        log.warning("source %s is off from now on: %s", source.name, reason)
        self._statuses[source.name] = SourceStatus(source.name, False, reason, advice, source.fills)
        self.changed = True
        self._report(f"{source.name}: {reason}")

    def _report(self, text: str) -> None:
        now = time.monotonic_ns()
        self._events.append(Event(EventKind.SOURCE_FAILED, now, now, None, 1, text))
