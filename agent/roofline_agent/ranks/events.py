"""Events of ranks that start and end, and what is known of them as soon as they are found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ..records import Batch, Call, Event, EventKind, Mark, Rank, Sample, Span, StepRows
from . import slurm
from .discovery import Discovery
from .settings import NOT_THIS_RANK, RankFacts, fact_of, facts_of_claims

log = logging.getLogger(__name__)


class RankEvents:
    def __init__(self, discovery: Discovery, unseen: Mapping[str, Callable[[str, int], str]]) -> None:
        """unseen: for each source that cannot see every process, a function of /proc and a pid that says why
        not; "": it can."""
        self._discovery = discovery
        self._unseen = unseen
        self._facts = RankFacts()
        self._claims: dict[str, str] = {}  # that were reported
        self._some_started = False

    def of_changes(self, started: Sequence[Rank], gone: Sequence[Rank], now: int) -> list[Event]:
        """Events of the ranks that have started or ended since the last time."""
        events = []
        for rank in started:
            log.info("found %s of job %s (pid %d, %s)", rank.key, rank.job, rank.pid, rank.framework)
            events.append(Event(EventKind.RANK_STARTED, now, now, rank))
            if other := self._discovery.job_of_other(rank):
                events.append(fact_of(rank, f"job.refused={other}", now))
        events += facts_of_claims(self._discovery.claims(), self._claims, now)
        for rank in gone:
            log.info("%s of job %s has ended (pid %d)", rank.key, rank.job, rank.pid)
            events.append(Event(EventKind.RANK_EXITED, now, now, rank))
        if started:
            self._some_started = True
            found = [(rank, self._discovery.environment(rank)) for rank in started]
            events += self._facts.of_started(found, list(self._discovery.ranks.values()), now)
        return events + self._of_unseen(started, now)

    def _of_unseen(self, started: Sequence[Rank], now: int) -> list[Event]:
        proc = str(self._discovery.proc)
        reasons = (
            (rank, source, why_unseen(proc, rank.pid))
            for source, why_unseen in self._unseen.items()
            for rank in started
        )
        return [fact_of(rank, f"source.{source}={why}", now) for rank, source, why in reasons if why]

    def at_close(self, ended: Iterable[slurm.End], now: int) -> list[Event]:
        """What a batch tells as well: of jobs that Slurm has ended, and of processes that turned out to be
        other ranks, in the batch with the first marks of these."""
        left = [fact_of(rank, NOT_THIS_RANK, now) for rank in self._discovery.take_left()]
        return self._facts.of_ended(ended, now) + left

    def of_moved(self, batch: Batch, now: int) -> list[Event]:
        """Ends of ranks that processes were for so short a time that they never were reported as started, but
        of which this batch has something: the server would wait for their end."""
        moved = dict.fromkeys(self._discovery.take_moved_early())
        if not moved:
            return []
        rows: Iterator[Sample | Mark | Call | Event | Span | StepRows] = chain(
            *batch.samples.values(), batch.marks, batch.calls, batch.events, batch.spans, batch.steps
        )
        named = {row.rank for row in rows}
        return [Event(EventKind.RANK_EXITED, now, now, rank) for rank in moved if rank in named]

    def take_started(self) -> bool:
        """Whether a rank has started since the last time."""
        some, self._some_started = self._some_started, False
        return some
