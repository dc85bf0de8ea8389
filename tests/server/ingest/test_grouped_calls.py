"""Calls that come together are made together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from roofline_server.ingest.grouped_calls import GroupedCalls


def test_those_that_come_meanwhile_are_one_group() -> None:
    groups: list[list[int]] = []
    go_on = threading.Event()

    def double(numbers: Sequence[int]) -> list[int]:
        groups.append(list(numbers))
        assert go_on.wait(10)
        return [2 * number for number in numbers]

    async def scenario() -> list[int]:
        together = GroupedCalls(double)
        first = asyncio.create_task(together(1))
        while not groups:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(together(number)) for number in range(2, 100)]
        await asyncio.sleep(0)
        go_on.set()
        return [await one for one in (first, *others)]

    assert asyncio.run(scenario()) == [2 * number for number in range(1, 100)]
    assert groups == [[1], list(range(2, 100))]


def test_error_is_of_its_group_alone_and_who_has_gone_harms_nobody() -> None:
    calls = 0

    def fails_once(numbers: Sequence[int]) -> Sequence[int]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("the disk is full")
        return numbers

    async def scenario() -> None:
        together = GroupedCalls(fails_once)
        with pytest.raises(OSError, match="full"):
            await together(1)
        gone = asyncio.create_task(together(2))
        stays = asyncio.create_task(together(3))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == 3

    asyncio.run(scenario())


def test_one_of_a_group_that_fails_costs_the_others_nothing() -> None:
    def halve(numbers: Sequence[int]) -> list[int]:
        if any(number % 2 for number in numbers):
            raise ValueError("odd")
        return [number // 2 for number in numbers]

    async def scenario() -> list[int | BaseException]:
        together = GroupedCalls(halve)
        return await asyncio.gather(*(together(number) for number in (2, 3, 4, 6)), return_exceptions=True)

    first, failed, *others = asyncio.run(scenario())
    assert (first, others) == (1, [2, 3])
    assert isinstance(failed, ValueError)


def test_group_of_which_all_fail_is_given_up_soon() -> None:
    calls: list[int] = []

    def fail(numbers: Sequence[int]) -> list[int]:
        calls.append(len(numbers))
        raise OSError("no room")

    async def scenario() -> list[int | BaseException]:
        together = GroupedCalls(fail)
        return await asyncio.gather(*(together(number) for number in range(1000)), return_exceptions=True)

    assert all(isinstance(one, OSError) for one in asyncio.run(scenario()))
    assert calls == [1000, 1, 1, 1]
