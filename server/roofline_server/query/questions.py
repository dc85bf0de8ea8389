"""Answers are computed in a few threads: once for equal questions, and not at all when nobody waits any more.

Python runs one thread at a time, and an answer about a large job takes hundreds of megabytes while it is
made: more threads would make all answers late and take that memory several times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from ..allocator import give_back

T = TypeVar("T")

THREADS = 4
LONG_S = 0.1  # what took so long has left much free memory behind; to give it back takes some 20 ms
FRESH_S = 1.0  # so old may be what an answer says when it is asked for: agents gather as long


class Questions:
    """Belongs to one event loop. Who stops waiting (is cancelled) takes his question with him, unless it is
    being computed: that cannot be stopped."""

    def __init__(self, threads: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._threads = ThreadPoolExecutor(threads or THREADS, thread_name_prefix="answer")
        self._now = now
        self._open: dict[Hashable, _Question] = {}

    async def answer(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """What `work` returns or raises. key: what tells the question from others; who asks one that waits
        already, that was begun a moment ago, or whose callers have all left, is given the answer to that."""
        question = self._open.get(key)
        if question is None or not question.may_be_joined(self._now()):
            question = self._open[key] = _Question(work, self._threads, self._now)
            question.answer.add_done_callback(partial(self._end, key, question))
        question.callers += 1
        try:
            await asyncio.wait([question.answer])
            return question.answer.result()
        finally:
            question.callers -= 1
            if not question.callers:
                question.leave()

    async def alone(self, work: Callable[..., T], *arguments: Any) -> T:
        """What `work` returns or raises, for this caller alone."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _end(self, key: Hashable, question: _Question, answer: asyncio.Future[Any]) -> None:
        if self._open.get(key) is question:
            del self._open[key]
        if answer.cancelled():
            return
        answer.exception()  # asyncio would log one that nobody has waited for
        if question.took_s > LONG_S:
            self._threads.submit(give_back)


class _Question:
    def __init__(
        self, work: Callable[[], Any], threads: ThreadPoolExecutor, now: Callable[[], float]
    ) -> None:
        self.callers, self.took_s = 0, 0.0
        self._work, self._now = work, now
        self._begun_s: float | None = None
        self._computed: Future[Any] = threads.submit(self._compute)
        self.answer = asyncio.wrap_future(self._computed)

    def _compute(self) -> Any:
        self._begun_s = self._now()
        try:
            return self._work()
        finally:
            self.took_s = self._now() - self._begun_s

    def may_be_joined(self, now_s: float) -> bool:
        """Whether its answer will do for who asks now."""
        if self._computed.cancelled():
            return False
        return self._begun_s is None or not self.callers or now_s - self._begun_s <= FRESH_S

    def leave(self) -> None:
        """Nobody waits for it now: if it was not begun it never is."""
        self._computed.cancel()
