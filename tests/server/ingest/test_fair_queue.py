"""Streams take turns, whatever each of them has to send."""

from __future__ import annotations

import asyncio

from roofline_server.ingest.fair_queue import FairQueue


def filled(queue: FairQueue[str, int], **waiting: int) -> None:
    for stream, count in waiting.items():
        for item in range(count):
            queue.put(stream, item, 0, 10)


def test_streams_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 1000)
    filled(queue, greedy=6, calm=1, other=2)
    first = queue.take(4, 1000, 1000)
    assert [(one.stream, one.item) for one in first] == [
        ("greedy", 0),
        ("calm", 0),
        ("other", 0),
        ("greedy", 1),
    ]
    assert [(one.stream, one.item) for one in queue.take(2, 1000, 1000)] == [("other", 1), ("greedy", 2)]


def test_group_is_bounded_in_bytes_and_never_empty() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 1000)
    filled(queue, a=3, b=3)
    assert len(queue.take(100, 25, 1000)) == 3
    assert len(queue.take(100, 1, 1000)) == 1


def test_streams_that_may_not_keep_what_they_have() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 1000)
    filled(queue, greedy=2, calm=2)
    assert {one.stream for one in queue.take(100, 1000, 1000, lambda stream: stream == "calm")} == {"calm"}
    assert [one.stream for one in queue.take(100, 1000, 1000)] == ["greedy", "greedy"]


def test_large_batches_go_in_turn_with_all_that_are_small() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 10_000)
    for stream in ("greedy", "hungry"):
        for item in range(2):
            queue.put(stream, item, 0, 500)
    filled(queue, calm=2, other=1)
    groups = [[one.stream for one in queue.take(100, 1000, 100)]]
    filled(queue, late=1)
    groups += [[one.stream for one in queue.take(100, 1000, 100)] for _ in range(5)]
    assert groups == [["calm", "other", "calm"], ["greedy"], ["late"], ["hungry"], ["greedy"], ["hungry"]]


def test_large_batches_go_together_up_to_half_of_a_group() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 10_000)
    for stream in "abc":
        for item in range(2):
            queue.put(stream, item, 0, 200)
    groups = [[one.stream for one in queue.take(100, 1000, 100)] for _ in range(3)]
    assert groups == [["a", "b"], ["c", "a"], ["b", "c"]]


def test_stream_has_its_share_of_a_group_only() -> None:
    queue: FairQueue[str, int] = FairQueue(lambda: 10_000)
    filled(queue, greedy=9, calm=1)
    groups = [[one.stream for one in queue.take(100, 1000, 30)] for _ in range(2)]
    assert groups == [["greedy", "calm", "greedy", "greedy"], ["greedy"] * 3]


def test_stream_over_its_share_waits_and_others_do_not() -> None:
    async def work() -> None:
        queue: FairQueue[str, int] = FairQueue(lambda: 800)
        await queue.admit("greedy", 10)
        queue.put("greedy", 1, 10, 150)
        waits = asyncio.create_task(queue.admit("greedy", 10))
        await asyncio.wait_for(queue.admit("calm", 10), 5)
        queue.put("calm", 1, 10, 10)
        assert not waits.done()
        await queue.done(queue.take(1, 1000, 1000))
        await asyncio.wait_for(waits, 5)

    asyncio.run(work())


def test_full_queue_holds_all_until_some_is_durable() -> None:
    async def work() -> None:
        queue: FairQueue[str, int] = FairQueue(lambda: 100)
        filled(queue, a=4, b=4, c=4)
        waits = asyncio.create_task(queue.admit("d", 1))
        drained = asyncio.create_task(queue.drain())
        await asyncio.sleep(0)
        assert not waits.done()
        await queue.done(queue.take(100, 1000, 1000))
        await asyncio.wait_for(asyncio.gather(waits, drained), 5)

    asyncio.run(work())


def test_room_of_a_refused_batch_is_given_back() -> None:
    async def work() -> None:
        queue: FairQueue[str, int] = FairQueue(lambda: 8)
        for _ in range(5):
            await asyncio.wait_for(queue.admit("a", 100), 5)
            queue.release("a", 100)

    asyncio.run(work())
