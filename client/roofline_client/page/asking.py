"""Asks the server for the page's visitors, each with what he brought; gRPC waits in threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from roofline.joining import Access

from ..api import Client
from ..channel import NO_ACCESS
from ..errors import ClientError
from .documents import problem
from .live import Found, Turns

log = logging.getLogger(__name__)

T = TypeVar("T")
TIMEOUT_S = 30.0
THREADS = 8
MOST_CLIENTS = 64  # connections that are kept open
MOST_WAITING = 256  # questions


class Busy(ClientError):
    """Too many questions wait."""


class Asking:
    """Questions to one server."""

    def __init__(self, server: str, own: Access | None = None) -> None:
        """own: with what to ask for visitors without an access of theirs; None: with nothing, also where this
        user has joined the server since."""
        self._server, self._own = server, own or NO_ACCESS
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ask")
        self._waiting = 0
        self._clients: OrderedDict[Access, Client] = OrderedDict()

    async def ask(
        self,
        access: Access | None,
        question: Callable[[Client], T],
        turns: Turns | None = None,
        urgency: int = 0,
    ) -> T:
        """The answer; in turn with other questions. Raises ClientError; Busy where too many wait."""
        if self._waiting >= MOST_WAITING:
            raise Busy("the page is asked too much at once: try again in a moment")
        self._waiting += 1
        try:
            if turns is None:
                return await asyncio.wrap_future(self._begin(access, question))
            await turns.wait(urgency)
            try:
                asked = self._begin(access, question)
            except BaseException:
                turns.end()
                raise
            asked.add_done_callback(partial(_end, asyncio.get_running_loop(), turns))
            return await asyncio.wrap_future(asked)
        finally:
            self._waiting -= 1

    def again(
        self, access: Access | None, question: Callable[[Client], Found], turns: Turns | None, urgency: int
    ) -> Callable[[], Awaitable[Found]]:
        """Asks this whenever it is called. Where that fails, what is found says why, and when it was answered
        last: who watches may still see that answer."""
        answered_s: float | None = None

        async def ask() -> Found:
            nonlocal answered_s
            begin = time.monotonic()
            try:
                found = await self.ask(access, question, turns, urgency)
            except Exception as error:
                if not isinstance(error, ClientError):
                    log.exception("the page failed; it tries again")
                return Found(problem(error, answered_s), True, time.monotonic() - begin)
            answered_s = time.time()
            return found

        return ask

    def _begin(self, access: Access | None, question: Callable[[Client], T]) -> Future[T]:
        return self._threads.submit(question, self._client(access or self._own))

    async def works(self, access: Access | None) -> str:
        """Why nothing can be asked with this; "" where it can."""
        try:
            await self.ask(access, lambda client: client.jobs())
        except ClientError as error:
            return str(error)
        return ""

    def _client(self, access: Access) -> Client:
        client = self._clients.pop(access, None) or Client(self._server, TIMEOUT_S, access)
        self._clients[access] = client
        while len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)[1].close()
        return client

    def forget(self, access: Access) -> None:
        """Nobody asks with this any more. The connection ends with the last question that is under way."""
        self._clients.pop(access, None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()


def _end(loop: asyncio.AbstractEventLoop, turns: Turns, asked: Future[Any]) -> None:
    """In the question's thread."""
    with suppress(RuntimeError):  # the page has ended
        loop.call_soon_threadsafe(turns.end)
