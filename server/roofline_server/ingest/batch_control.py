"""Looks once a second at what batches take of the server's time: has acks say how long agents should gather,
and answers how much may be asked in addition."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from . import question_budget
from .batch_length import LENGTHS_S, BatchLoad, next_length
from .committer import Committer
from .every_second import every_second
from .hysteresis import LoadLevel

log = logging.getLogger(__name__)

LATELY = 15  # looks


class BatchControl:
    """Runs in the server's event loop."""

    def __init__(
        self,
        committer: Committer,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """cpu: CPU time of the event loop's thread, s."""
        self.length = LoadLevel()
        self._committer, self._clock, self._cpu = committer, clock, cpu
        self._looked_s, self._cpu_s = clock(), cpu()
        self._streams: deque[int] = deque([0], LATELY)
        self._shares: deque[float] = deque(maxlen=question_budget.LATELY)

    async def run(self) -> None:
        await every_second(self.look, self._clock)

    def look(self, lag_s: float) -> None:
        """Take the load into account; from now on acks and answers say what follows."""
        streams = sum(self._committer.counts.streams.values())
        newcomers = max(0, streams - min(self._streams))
        self._streams.append(streams)
        self._shares.append(self._share())
        self._committer.granted_share = question_budget.granted(list(self._shares))
        before, load = self.length, BatchLoad(streams, self._shares[-1], lag_s, newcomers)
        self.length = next_length(before, load, self._looked_s)
        if self.length.level != before.level:
            self._committer.hold_s = LENGTHS_S[self.length.level]
            self._log_length(load)

    def _share(self) -> float:
        """Of the time since the last call, that the threads took which take batches: of one core, as Python
        runs one of them at a time."""
        now_s, cpu_s = self._clock(), self._cpu() + self._committer.counts.commit_cpu_s
        seconds, used_s = now_s - self._looked_s, cpu_s - self._cpu_s
        self._looked_s, self._cpu_s = now_s, cpu_s
        return used_s / seconds if seconds > 0 else 0.0

    def _log_length(self, load: BatchLoad) -> None:
        if not self.length.level:
            log.info("agents are no longer asked to gather longer")
            return
        log.info(
            "agents are asked to gather for %g s before they send (%d streams, batches take %.0f %% of the "
            "time, event loop %.1f s late)",
            LENGTHS_S[self.length.level],
            load.streams,
            100 * load.share,
            load.lag_s,
        )
