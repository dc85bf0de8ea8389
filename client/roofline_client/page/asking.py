"""Asks the server for the page's visitors, each with what he brought; gRPC waits in threads."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from roofline.joining import Access

from ..api import Client
from ..connection import NO_ACCESS
from ..errors import ClientError

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

    async def ask(self, access: Access | None, question: Callable[[Client], T]) -> T:
        """The answer. Raises ClientError; Busy where too many wait."""
        if self._waiting >= MOST_WAITING:
            raise Busy("the page is asked too much at once: try again in a moment")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, question, self._client(access or self._own))
        finally:
            self._waiting -= 1

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

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()
