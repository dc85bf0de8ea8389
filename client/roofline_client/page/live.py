"""What many look at is asked for once: a feed asks while somebody watches, and gives all of them the newest.

Who reads slowly misses what came between and harms nobody. A question that takes long is asked less often,
and all of them together take no more of the server's time than it grants.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..api import Client

log = logging.getLogger(__name__)

EVERY_S, MOST_S = 1.0, 300.0  # so often at most, unless said otherwise, and at least
SHARE = 0.1  # of the server's time, where it grants none itself
NEWER = 0.3  # how much the last question counts in what one takes, where it took less than before
STILL_S = 15.0  # so often it is looked whether what was over still is
# Where the server can tell cheaply whether there is anything new: how often to look, and after how long to
# ask anyway, because a job is also over when nothing more comes.
NEWS_S, WITHOUT_NEWS_S = 0.2, 5.0
KEPT = 16  # subjects that nobody watches, for who comes back

Newest = Callable[[], Awaitable[int]]  # another number whenever there is something new; 0: that is not known
# What to show, and whether it may still change.
Shown = tuple[str, bool]


class Found(NamedTuple):
    """What is shown, whether it may still change, how much CPU time the server took for it, and which share
    of a core it grants to all that is asked again and again; None: it did not say."""

    shown: str
    may_change: bool
    spent_s: float
    share: float | None = None


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


class Pace:
    """How often each of several things is asked for, so that all of them together take a share of the time.

    The period of each grows by the root of what it takes: of all periods that take the same share, these add
    up to least (the derivative of T + m c / T is 0 where T is the root of m c).
    """

    def __init__(self) -> None:
        self._share = SHARE
        self._taken: dict[
            Hashable, float
        ] = {}  # s: of the last question, or more where the ones before took more
        self._still: set[Hashable] = set()  # what does not change any more

    def took(self, who: Hashable, found: Found) -> None:
        """Somebody has asked."""
        if found.share:
            self._share = found.share
        if not found.may_change:
            self.leave(who)
            self._still.add(who)
            return
        self._still.discard(who)
        before = self._taken.get(who, found.spent_s)
        self._taken[who] = max(found.spent_s, before + NEWER * (found.spent_s - before))

    def leave(self, who: Hashable) -> None:
        """Somebody asks no more."""
        self._taken.pop(who, None)
        self._still.discard(who)

    def period_s(self, who: Hashable) -> float:
        """From one question to the next, as it is now."""
        if who in self._still:
            return STILL_S
        period = (
            math.sqrt(self._taken.get(who, 0.0)) * sum(map(math.sqrt, self._taken.values())) / self._share
        )
        return min(MOST_S, period)


class Feed:
    """One subject; a task asks for it as long as there are watchers."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[Found]],
        pace: Pace,
        least_s: float | None = None,
        newest: Newest | None = None,
    ) -> None:
        """least_s: asked for no more often, however little it takes; None: as everything. newest: None
        where nothing tells whether there is anything new."""
        self._ask, self._pace, self._least_s, self._news = ask, pace, least_s, newest
        self._seen = 0  # of `newest`, before it was asked last
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
                self._pace.leave(self)

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    async def _run(self) -> None:
        # Who comes back soon, as after a reload, sees what was found last, and nothing is asked again.
        await asyncio.sleep(self._due - time.monotonic())
        while True:
            begin = time.monotonic()
            try:
                found = await self._ask()
                self._show(found.shown)
                self._pace.took(self, found)
            except Exception:
                log.exception("the page asked in vain; it tries again")
            # What the server grants, and what else is asked for, may change meanwhile.
            while (rest := begin + self._period_s() - time.monotonic()) > 0:
                self._due = time.monotonic() + rest
                await asyncio.sleep(min(rest, EVERY_S))
            if self._news is not None:
                await self._wait_for_news(self._news, begin + WITHOUT_NEWS_S)

    async def _wait_for_news(self, newest: Newest, until: float) -> None:
        while time.monotonic() < until:
            seen, self._seen = self._seen, await newest()
            if self._seen != seen or not self._seen:
                return
            await asyncio.sleep(NEWS_S)

    def _period_s(self) -> float:
        return max(EVERY_S if self._least_s is None else self._least_s, self._pace.period_s(self))

    def _show(self, shown: str) -> None:
        if shown == self._newest:
            return
        self._newest = shown
        for queue in self._watchers:
            with suppress(asyncio.QueueEmpty):
                queue.get_nowait()
            queue.put_nowait(shown)


async def merged(feeds: Mapping[str, Feed]) -> AsyncGenerator[tuple[str, str], None]:
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


class Feeds:
    """By subject."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._feeds: dict[Hashable, Feed] = {}

    def feed(
        self,
        subject: Hashable,
        ask: Callable[[], Awaitable[Found]],
        least_s: float | None = None,
        newest: Newest | None = None,
    ) -> Feed:
        """The one of this subject; ask: how, if it is new; least_s, newest: see `Feed`."""
        found = self._feeds.pop(subject, None) or Feed(ask, self._pace, least_s, newest)
        idle = [one for one, feed in self._feeds.items() if not feed.is_watched]
        for one in idle[: max(0, len(idle) - KEPT)]:
            del self._feeds[one]
        self._feeds[subject] = found
        return found

    def forget(self, part: Hashable) -> None:
        """Forget the feeds whose subject has this part."""
        for subject in [one for one in self._feeds if isinstance(one, tuple) and part in one]:
            del self._feeds[subject]
