"""When agents are sent pings, which put their nodes on the server's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

# A few pings in a row: the fastest of them bounds the offset best. At first often, so that there is a clock
# at once and soon a baseline for its drift, then rarely: each wakes the agent.
PINGS, FIRST_ROUNDS, PING_S = 4, 2, 0.03
PING_AGAIN_S, PING_EVERY_S = 0.5, 10.0
# To all agents together: a ping takes the server as long as a batch, and must not delay acks. Where so many
# take turns that one waits for longer than between two rounds, a round has fewer: of 2,000 agents each has
# one every 32 s, in which a clock drifts by 0.5 ms at most from what is known of it.
MOST_PER_SECOND, CROWDED_PINGS = 125, 2


class Round(NamedTuple):
    """So many pings in a row, and the seconds until the next round."""

    pings: int
    pause_s: float


def rounds() -> Iterator[Round]:
    """The pings of a stream."""
    for _ in range(FIRST_ROUNDS - 1):
        yield Round(PINGS, PING_S)
    pause_s = PING_AGAIN_S
    while True:
        yield Round(PINGS, pause_s)
        pause_s = min(2 * pause_s, PING_EVERY_S)


class Turn(NamedTuple):
    """So many pings, so many seconds from now."""

    wait_s: float
    pings: int


class Turns:
    """Gives each stream its turn to send a round."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free_s = 0.0  # when all that have a turn have had it

    def take(self, pings: int) -> Turn:
        """The next turn, of so many pings or, where many wait, fewer."""
        now = self._clock()
        begin = max(now, self._free_s)
        if begin - now > PING_EVERY_S:
            pings = min(pings, CROWDED_PINGS)
        self._free_s = begin + pings / MOST_PER_SECOND
        return Turn(begin - now, pings)

    async def ping(self, send: Callable[[], object]) -> None:
        """Send pings of one stream until cancelled."""
        for some in rounds():
            turn = self.take(some.pings)
            await asyncio.sleep(turn.wait_s)
            for number in range(turn.pings):
                send()
                await asyncio.sleep(PING_S if number < turn.pings - 1 else some.pause_s)
