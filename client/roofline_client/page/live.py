"""What many look at is asked for once: a feed asks while somebody watches, and gives all of them the newest.

Who reads slowly misses what came between and harms nobody. A question that takes long is asked less often, so
that all pages together take a small part of the server's time.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..api import Client

log = logging.getLogger(__name__)

EVERY_S, SHARE = 1.0, 10.0  # so often; what takes over 0.2 s is asked for in a tenth of the time
MOST_S = 60.0  # also after a question that was given up
KEPT = 16  # subjects that nobody watches, for who comes back
STILL_S, STILL_SHARE = (
    15.0,
    100.0,
)  # of what does not change any more: so seldom, in so small a part of the time

# What to show, and whether it may still change.
Shown = tuple[str, bool]


class Found(NamedTuple):
    """What is shown, whether it may still change, and how long the server took for it."""

    shown: str
    may_change: bool
    spent_s: float


class Watch(Protocol):
    """Knows what to ask for, again and again."""

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""


class Turns:
    """Questions that are asked one after the other, the most urgent first.

    The server computes on one core: answers that are asked for at once come at once, and late. A question
    that nobody waits for any more keeps its turn until it is answered: however fast somebody picks, at most
    one is computed in vain.
    """

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    async def wait(self, urgency: int) -> None:
        """Until it is this one's turn, which lasts until `end`. urgency: 0 goes first."""
        if not self._taken:
            self._taken = True
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._waiting, (urgency, self._count, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.end()  # it had come meanwhile
            raise

    def end(self) -> None:
        """The turn goes to the next that waits."""
        while self._waiting:
            *_, mine = heapq.heappop(self._waiting)
            if not mine.done():
                mine.set_result(None)
                return
        self._taken = False


class Feed:
    """One subject; a task asks for it as long as there are watchers."""

    def __init__(self, ask: Callable[[], Awaitable[Found]]) -> None:
        self._ask = ask
        self._watchers: set[asyncio.Queue[str]] = set()
        self._newest, self._due = "", 0.0
        self._task: asyncio.Task[None] | None = None

    async def watch(self) -> AsyncGenerator[str, None]:
        """The newest, whenever it has changed."""
        queue: asyncio.Queue[str] = asyncio.Queue(1)
        self._watchers.add(queue)
        if self._newest:
            queue.put_nowait(self._newest)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.discard(queue)
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None  # who comes before it has ended needs another one

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    async def _run(self) -> None:
        # Who comes back soon, as after a reload, sees what was found last, and nothing is asked anew.
        await asyncio.sleep(self._due - time.monotonic())
        while True:
            pause = EVERY_S
            try:
                found = await self._ask()
                self._show(found.shown)
                pause = pause_s(found.spent_s, found.may_change)
            except Exception:
                log.exception("the page asked in vain; it tries again")
            self._due = time.monotonic() + pause
            await asyncio.sleep(pause)

    def _show(self, shown: str) -> None:
        if shown == self._newest:
            return
        self._newest = shown
        for queue in self._watchers:
            with suppress(asyncio.QueueEmpty):
                queue.get_nowait()
            queue.put_nowait(shown)


async def merged(feeds: Mapping[str, Feed]) -> AsyncIterator[tuple[str, str]]:
    """What any of them shows, as it comes, behind its name."""
    streams = {name: feed.watch() for name, feed in feeds.items()}
    next_of = {asyncio.ensure_future(anext(stream)): name for name, stream in streams.items()}
    try:
        while True:
            done, _ = await asyncio.wait(next_of, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                name = next_of.pop(one)
                yield name, one.result()
                next_of[asyncio.ensure_future(anext(streams[name]))] = name
    finally:
        for waiting in next_of:
            waiting.cancel()
        await asyncio.gather(*next_of, return_exceptions=True)
        for stream in streams.values():
            await stream.aclose()


def pause_s(spent_s: float, may_change: bool = True) -> float:
    """How long to wait before asking again, when the server took so long."""
    if not may_change:
        return max(STILL_S, STILL_SHARE * spent_s)
    return min(MOST_S, max(0.0, EVERY_S - spent_s, SHARE * spent_s - EVERY_S))


class Feeds:
    """By subject."""

    def __init__(self) -> None:
        self._feeds: dict[Hashable, Feed] = {}

    def feed(self, subject: Hashable, ask: Callable[[], Awaitable[Found]]) -> Feed:
        """The one of this subject; ask: how, if it is new."""
        found = self._feeds.pop(subject, None) or Feed(ask)
        idle = [one for one, feed in self._feeds.items() if not feed.is_watched]
        for one in idle[: max(0, len(idle) - KEPT)]:
            del self._feeds[one]
        self._feeds[subject] = found
        return found
