from __future__ import annotations

import asyncio

from pytest import approx
from roofline_server.ingest.fair_queue import FairQueue
from roofline_server.ingest.large_batches import LATELY_S, LONGEST_S, SHARE, LargeBatches


def test_large_batches_of_a_stream_take_their_share_of_the_time_beside_small_ones() -> None:
    large = LargeBatches[str]()
    large.committed({"calm"}, False, 9.0, 9.5)
    large.committed({"greedy"}, True, 9.5, 9.51)
    pause = 0.01 / SHARE - 0.01
    assert large.rests("greedy", 9.51) and large.rests("greedy", 9.51 + 0.99 * pause)
    assert not large.rests("greedy", 9.51 + 1.01 * pause)
    assert not large.rests("calm", 9.51)
    assert large.wait_s(9.6) == approx(9.51 + pause - 9.6)
    assert large.wait_s(9.51 + pause) == 0


def test_nobody_rests_where_nobody_sends_small_batches() -> None:
    large = LargeBatches[str]()
    large.committed({"greedy"}, True, 9.0, 9.5)
    assert not large.rests("greedy", 9.5) and large.wait_s(9.5) == 0
    large.committed({"calm"}, False, 9.5, 9.6)
    assert large.rests("greedy", 9.6)
    assert not large.rests("greedy", 9.6 + LATELY_S)


def test_disk_that_hung_costs_nobody_a_long_rest() -> None:
    large = LargeBatches[str]()
    large.committed({"calm"}, False, 9.0, 9.5)
    large.committed({"greedy"}, True, 9.5, 9.9)
    assert large.wait_s(9.9) == LONGEST_S


def test_streams_of_one_group_share_its_time() -> None:
    alone, shared = LargeBatches[str](), LargeBatches[str]()
    for large in (alone, shared):
        large.committed({"calm"}, False, 9.0, 9.5)
    alone.committed({"a"}, True, 9.5, 9.51)
    shared.committed({"a", "b"}, True, 9.5, 9.51)
    assert shared.wait_s(9.51) == approx(alone.wait_s(9.51) / 2)


def test_who_waits_for_a_rest_is_woken_by_what_comes() -> None:
    async def scenario() -> list[str]:
        queue = FairQueue[str, str](lambda: 1 << 20)
        await queue.admit("greedy", 1)
        queue.put("greedy", "large", 1, 1)
        waiting = asyncio.create_task(queue.wait_for_more(60))
        await asyncio.sleep(0)
        await queue.admit("calm", 1)
        queue.put("calm", "small", 1, 1)
        await asyncio.wait_for(waiting, 10)
        await asyncio.wait_for(queue.wait(), 10)  # what rests is not forgotten
        return [one.item for one in queue.take(9, 9, 9, lambda stream: stream == "calm")]

    assert asyncio.run(scenario()) == ["small"]
