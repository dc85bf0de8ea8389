"""Calls that come at the same time are made together: a commit for all takes as long as a commit for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

MOST_FAILURES = 3  # in a row: then the whole group fails, as the cause is not a single call
A = TypeVar("A")
B = TypeVar("B")


class GroupedCalls(Generic[A, B]):
    """`await together(argument)`: while one group is being worked on in a thread, the next one gathers."""

    def __init__(self, call: Callable[[Sequence[A]], Sequence[B]]) -> None:
        """call: gives as many results as it gets arguments, or raises for all of them: then they are tried
        one by one, as one may be why."""
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
            results = await asyncio.to_thread(self._results, [argument for argument, _ in group])
            for (_, future), result in zip(group, results, strict=True):
                if future.done():  # whoever asked may have gone
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _results(self, arguments: Sequence[A]) -> Sequence[B | Exception]:
        try:
            return self._call(arguments)
        except Exception as error:
            if len(arguments) == 1:
                return [error]
        found: list[B | Exception] = []
        for argument in arguments:
            last = found[-MOST_FAILURES:]
            if len(last) == MOST_FAILURES and all(isinstance(one, Exception) for one in last):
                found.append(last[-1])
            else:
                found.extend(self._results([argument]))
        return found
