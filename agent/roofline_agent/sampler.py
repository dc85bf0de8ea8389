"""Asks every source that works for its rows; a source that fails costs its own samples only."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from .records import Event, EventKind, Rank, SampleBlock, Source, SourceStatus

log = logging.getLogger(__name__)


class Sampler:
    """The sources of one agent and what became of them."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.statuses: list[SourceStatus] = []
        self._sources: list[Source] = []
        self._failures: dict[str, int] = {}
        for name, source in sources.items():
            status = _probe(name, source)
            self.statuses.append(status)
            if status.works:
                self._sources.append(source)

    def sample(self, ranks: Sequence[Rank]) -> tuple[list[SampleBlock], list[Event]]:
        """One round over all sources: rows, and an event for each source that failed for the first time."""
        blocks, events = [], []
        for source in self._sources:
            try:
                rows = source.sample(ranks)
            except Exception as error:
                events.extend(self._failed(source.name, error))
                continue
            if rows:
                blocks.append(SampleBlock(source.counter_set, rows))
        return blocks, events

    def _failed(self, name: str, error: Exception) -> list[Event]:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if count > 1:
            return []
        log.warning("source %s failed: %s (logged once; others go on)", name, error)
        now = time.monotonic_ns()
        return [Event(EventKind.SOURCE_FAILED, now, now, None, 1, f"{name}: {error}")]

    def close(self) -> None:
        for source in self._sources:
            try:
                source.close()
            except Exception as error:
                log.warning("source %s did not close: %s", source.name, error)


def _probe(name: str, source: Source) -> SourceStatus:
    try:
        return source.probe()
    except Exception as error:
        return SourceStatus(name, False, f"its own check failed: {error}")
