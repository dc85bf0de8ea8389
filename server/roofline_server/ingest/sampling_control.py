"""Looks at the load once a second, and has connected agents sample as often, and record kernels of as many
steps, as the server can take."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from roofline.v1 import ingest_pb2 as pb

from .commands import Agents, Link
from .every_second import every_second
from .hysteresis import LoadLevel
from .sampling_level import FACTORS, ServerLoad, interval_ns, next_level

log = logging.getLogger(__name__)

MOST_AT_ONCE = 200  # agents that are asked at one look: each answers with a Hello
REASON = "the server was busy"


class SamplingControl:
    """Runs in the server's event loop. An agent is asked only if it says which interval is its own."""

    def __init__(
        self, agents: Agents, load: Callable[[float], ServerLoad], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """load: the load now, given by how many seconds the event loop was late."""
        self.sampling = LoadLevel()
        self.changes = 0  # of the level
        self._agents, self._load, self._clock = agents, load, clock
        self._asked: WeakKeyDictionary[Link, tuple[int, int]] = WeakKeyDictionary()

    async def run(self) -> None:
        await every_second(self.look, self._clock)

    def look(self, lag_s: float) -> None:
        """Take the load into account, and ask the agents that do not sample as they should."""
        load, before = self._load(lag_s), self.sampling.level
        self.sampling = next_level(self.sampling, load, self._clock())
        if self.sampling.level != before:
            self.changes += 1
            self._log_level(load)
        left = MOST_AT_ONCE
        for link in self._agents.links():
            if left and self._ask(link):
                left -= 1

    def _log_level(self, load: ServerLoad) -> None:
        if not self.sampling.level:
            log.info("the server is calm again: agents sample as often as before")
            return
        log.warning(
            "agents sample %d times less often, and record kernels in as many times fewer steps "
            "(queue %.0f %%, unsealed %.0f %%, event loop %.1f s late)",
            FACTORS[self.sampling.level],
            100 * load.queue,
            100 * load.unsealed,
            load.lag_s,
        )

    def _ask(self, link: Link) -> bool:
        own_ns: int = link.hello.own_interval_ns
        if own_ns <= 0:
            return False
        wanted_ns, fewer = interval_ns(own_ns, self.sampling.level), FACTORS[self.sampling.level]
        if self._asked.get(link, (link.hello.interval_ns, 1)) == (wanted_ns, fewer):
            return False
        self._asked[link] = wanted_ns, fewer
        asked_ns = 0 if wanted_ns == own_ns else wanted_ns
        reason = REASON if asked_ns or fewer > 1 else ""
        link.command(set_interval=pb.SetInterval(interval_ns=asked_ns, reason=reason, kernels=fewer))
        return True
