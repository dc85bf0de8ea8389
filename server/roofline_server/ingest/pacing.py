"""Looks once a second at what batches take of the server's time, and has acks say how long agents shall
gather."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from .committer import Committer
from .holding import BatchLoad, Holding, next_holding

log = logging.getLogger(__name__)

LOOK_S = 1.0


class Pacing:
    """Runs in the server's event loop."""

    def __init__(
        self,
        committer: Committer,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """cpu: CPU time of the event loop's thread, s."""
        self.holding = Holding()
        self._committer, self._clock, self._cpu = committer, clock, cpu
        self._batches, self._cpu_s = 0, 0.0  # at the last look

    async def run(self) -> None:
        self._taken()
        while True:
            began = self._clock()
            await asyncio.sleep(LOOK_S)
            self.look(max(0.0, self._clock() - began - LOOK_S))

    def look(self, lag_s: float) -> None:
        """Take the load into account; from now on acks say what follows."""
        before, streams = self.holding, sum(self._committer.counts.streams.values())
        batches, cpu_s = self._taken()
        self.holding = next_holding(before, BatchLoad(streams, batches, cpu_s, lag_s), self._clock())
        if self.holding.level != before.level:
            self._committer.hold_s = self.holding.seconds
            self._say(streams, lag_s)

    def _taken(self) -> tuple[int, float]:
        """Batches since the last call, and CPU time of the threads that take them."""
        counts = self._committer.counts
        batches, cpu_s = counts.batches, self._cpu() + counts.commit_cpu_s
        found = batches - self._batches, cpu_s - self._cpu_s
        self._batches, self._cpu_s = batches, cpu_s
        return found

    def _say(self, streams: int, lag_s: float) -> None:
        if not self.holding.level:
            log.info("agents are asked no more to gather longer than they like")
            return
        log.info(
            "agents are asked to gather for %g s before they send (%d streams, %.2f ms of CPU time a batch, "
            "event loop %.1f s late)",
            self.holding.seconds,
            streams,
            1e3 * self.holding.cost_s,
            lag_s,
        )
