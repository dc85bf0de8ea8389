"""Asks every source that works for its rows; a source that fails or hangs costs its own samples only.

Sources that read files share one thread and are read right behind one another, so their rows speak of one
moment; those that measure (a driver, a service) take turns in another. A source that does not answer in time
is dropped with its thread, and the rest of its lane goes on in a new one.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from .records import Event, EventKind, Rank, SampleBlock, Source, SourceStatus

log = logging.getLogger(__name__)

HANGS_NS = 4_000_000_000  # a source that takes longer is dropped; the server waits 5 s for late rows
PROBE_HANGS_S = 20.0  # perf tries its events one by one
FAILURES = 20  # in a row, and a source is dropped
PATIENCE_S = 1.0  # of `sample`, which waits for its rows


class _Answer(NamedTuple):
    """What became of asking one source: rows, a status, or an error."""

    source: Source
    block: SampleBlock | None = None
    status: SourceStatus | None = None
    error: Exception | None = None


class _Worker(threading.Thread):
    """Asks one source after another. Once given up it says no more, whenever it comes back."""

    def __init__(self, name: str, answer: Callable[[_Worker, _Answer], None]) -> None:
        super().__init__(name=f"sampler-{name}", daemon=True)
        self._rounds: queue.SimpleQueue[tuple[Sequence[Source], Callable[[Source], _Answer]] | None] = (
            queue.SimpleQueue()
        )
        self._answer = answer
        self.asking: tuple[Source, int] | None = None  # whom, since when (node time)
        self.idle = threading.Event()
        self.idle.set()

    def begin(self, sources: Sequence[Source], ask: Callable[[Source], _Answer]) -> None:
        self.idle.clear()
        self._rounds.put((sources, ask))

    def run(self) -> None:
        while (work := self._rounds.get()) is not None:
            sources, ask = work
            for source in sources:
                self.asking = (source, time.monotonic_ns())
                self._answer(self, _asked(source, ask))
            self.asking = None
            self.idle.set()

    def end(self) -> None:
        self._rounds.put(None)


def _asked(source: Source, ask: Callable[[Source], _Answer]) -> _Answer:
    try:
        return ask(source)
    except Exception as error:
        return _Answer(source, error=error)


class _Lane:
    """Sources that take turns, and the worker that asks them."""

    def __init__(
        self, measures: bool, sources: Iterable[Source], answer: Callable[[_Worker, _Answer], None]
    ) -> None:
        self.measures = measures
        self.sources = [source for source in sources if source.measures == measures]
        self._answer = answer
        self.worker = self._hire()

    def _hire(self) -> _Worker:
        worker = _Worker("measuring" if self.measures else "files", self._answer)
        worker.start()
        return worker

    def ask(self, ask: Callable[[Source], _Answer]) -> None:
        """Begin a round, unless the last one still goes on: a late round is skipped, not made up for."""
        if self.sources and self.worker.idle.is_set():
            self.worker.begin(self.sources.copy(), ask)

    def hanging(self, limit_ns: int) -> Source | None:
        """The source that has not answered for so long."""
        asking = self.worker.asking
        late = asking is not None and time.monotonic_ns() - asking[1] > limit_ns
        return asking[0] if late and asking else None

    def give_up(self, source: Source) -> None:
        """Leave the thread that waits for this source; the others get a new one with the next round."""
        self.sources.remove(source)
        self.worker.end()
        self.worker = self._hire()


class Sampler:
    """The sources of one agent and what became of them. Its methods are called from one thread."""

    def __init__(self, sources: Mapping[str, Source], hangs_ns: int = HANGS_NS) -> None:
        """Probe all of them; one whose check fails or hangs is off."""
        self._hangs_ns = hangs_ns
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._statuses: dict[str, SourceStatus] = {}
        self._failures: dict[str, int] = {}  # in a row
        self._reported: set[str] = set()
        self._failing: list[Source] = []  # dropped, but they can be closed
        self._blocks: list[SampleBlock] = []
        self._events: list[Event] = []
        self.changed = False  # a status is not what it was at the start
        every = dict(sources)
        self._lanes = [_Lane(measures, every.values(), self._take_in) for measures in (False, True)]
        self._probe(every)

    @property
    def statuses(self) -> list[SourceStatus]:
        return list(self._statuses.values())

    def _take_in(self, worker: _Worker, answer: _Answer) -> None:
        # In the worker's thread. What a thread that was given up says comes too late to be of use.
        if any(lane.worker is worker for lane in self._lanes):
            self._answers.put(answer)

    def _probe(self, sources: Mapping[str, Source]) -> None:
        for lane in self._lanes:
            lane.ask(lambda source: _Answer(source, status=source.probe()))
        self._settle(PROBE_HANGS_S * len(sources), int(PROBE_HANGS_S * 1e9))
        found = self._statuses
        for name, source in sources.items():
            status = found.get(name) or SourceStatus(name, False, "its own check did not end")
            self._statuses[name] = status._replace(fills=source.fills)
        self._statuses = {name: self._statuses[name] for name in sources}
        for lane in self._lanes:
            lane.sources = [s for s in lane.sources if self._statuses[s.name].works]
            if not lane.sources:
                lane.worker.end()
        self._events, self.changed = [], False

    def ask(self, ranks: Sequence[Rank]) -> None:
        """Begin one round over all sources; its rows are there with a later `take`."""
        self._drop_hanging(self._hangs_ns)

        def rows(source: Source) -> _Answer:
            found = source.sample(ranks)
            return _Answer(source, SampleBlock(source.counter_set, found))

        for lane in self._lanes:
            lane.ask(rows)

    def take(self, wait_s: float = 0.0) -> tuple[list[SampleBlock], list[Event]]:
        """The rows that have come since the last call, and an event for each source that failed anew.

        wait_s: how long a round under way is waited for at most.
        """
        self._settle(wait_s, self._hangs_ns)
        blocks, self._blocks = self._blocks, []
        events, self._events = self._events, []
        return blocks, events

    def sample(self, ranks: Sequence[Rank]) -> tuple[list[SampleBlock], list[Event]]:
        """One round, waited for as long as the sources answer."""
        self._settle(PATIENCE_S, self._hangs_ns)
        self.ask(ranks)
        return self.take(PATIENCE_S)

    def _settle(self, seconds: float, hangs_ns: int) -> None:
        """Wait until all lanes are idle, at most so long; who hangs is dropped."""
        until = time.monotonic() + seconds
        for lane in self._lanes:
            while not lane.worker.idle.wait(min(0.2, max(0.0, until - time.monotonic()))):
                self._drop_hanging(hangs_ns)
                if time.monotonic() >= until:
                    break
        self._sort_answers()

    def _drop_hanging(self, limit_ns: int) -> None:
        for lane in self._lanes:
            source = lane.hanging(limit_ns)
            if source is not None:
                lane.give_up(source)
                self._drop(source, f"it did not answer for {limit_ns / 1e9:.3g} s and was dropped")

    def _sort_answers(self) -> None:
        while not self._answers.empty():
            answer = self._answers.get()
            name = answer.source.name
            if answer.error is not None:
                self._failed(answer.source, answer.error)
            elif answer.status is not None:
                self._statuses[name] = answer.status
            else:
                self._failures[name] = 0
                if answer.block and answer.block.rows:
                    self._blocks.append(answer.block)

    def _failed(self, source: Source, error: Exception) -> None:
        name = source.name
        if name not in self._statuses:
            self._statuses[name] = SourceStatus(name, False, f"its own check failed: {error}")
            return
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if name not in self._reported:
            self._reported.add(name)
            log.warning("source %s failed: %s (logged once; others go on)", name, error)
            self._say(f"{name}: {error}")
        if count >= FAILURES:
            for lane in self._lanes:
                lane.sources = [s for s in lane.sources if s is not source]
            self._failing.append(source)
            self._drop(source, f"it failed {count} times in a row and was dropped: {error}")

    def _drop(self, source: Source, reason: str) -> None:
        log.warning("source %s is off from now on: %s", source.name, reason)
        advice = "look at the agent's log, then restart the agent"
        self._statuses[source.name] = SourceStatus(source.name, False, reason, advice, source.fills)
        self.changed = True
        self._say(f"{source.name}: {reason}")

    def _say(self, text: str) -> None:
        now = time.monotonic_ns()
        self._events.append(Event(EventKind.SOURCE_FAILED, now, now, None, 1, text))

    def close(self) -> None:
        """Let all sources close; one that hangs is left behind."""
        for lane in self._lanes:
            lane.sources += [s for s in self._failing if s.measures == lane.measures]
            lane.ask(_closed)
        self._settle(PATIENCE_S, self._hangs_ns)
        for lane in self._lanes:
            lane.worker.end()


def _closed(source: Source) -> _Answer:
    try:
        source.close()
    except Exception as error:
        log.warning("source %s did not close: %s", source.name, error)
    return _Answer(source)
