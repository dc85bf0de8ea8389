"""Calls that come at the same time are made together: a commit for all takes as long as a commit for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class GroupedCalls(Generic[A, B]):
    """`await together(argument)`: while one group is being worked on in a thread, the next one gathers."""

    def __init__(self, call: Callable[[Sequence[A]], Sequence[B]]) -> None:
        """call: gives as many results as it gets arguments, or raises for all of them."""
        self._call = call
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, argument: A) -> B:
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((argument, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                results = await asyncio.to_thread(self._call, [argument for argument, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():  # whoever asked may have gone
                        future.set_exception(error)
                continue
            for (_, future), result in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(result)
