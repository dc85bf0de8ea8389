"""Acks of many streams, and of a few next to some that send as much as they can."""

from __future__ import annotations

import asyncio
import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import grpc

from .lean_streams import Acked, stream_openly
from .server import METRICS, Stream
from .site import REPOSITORY, SECOND, Node, Result, node, sample_batch

STREAMS, SECONDS, START_S = 2000, 60, 10  # sealings are among them
BACK_SECONDS, BACK_S = 10, 5.0
CALM, CALM_SECONDS, CALM_START_S = 20, 20, 3
GREEDY, GREEDY_ROWS, GREEDY_WINDOW = 2, 12_000, 8  # batches of 3 MB


class Delay(NamedTuple):
    """Of acks, s."""

    median: float
    p95: float


def delay_of(seconds: Iterable[Sequence[Acked]]) -> Delay:
    return _delay([one.seconds for one in itertools.chain.from_iterable(seconds)])


def age_of(seconds: Iterable[Sequence[Acked]]) -> Delay:
    """Of the oldest that a batch can hold, when it is durable."""
    return _delay([one.age_s for one in itertools.chain.from_iterable(seconds)])


def _delay(unsorted: list[float]) -> Delay:
    every = sorted(unsorted)
    return Delay(*(every[int(share * (len(every) - 1))] for share in (0.5, 0.95)))


def many_streams() -> Result:
    """Agents in open loop, samples of 8 ranks a second each, on the machine of the server."""
    _allow_connections()
    with node() as here, here.server() as server:
        before, begin, mine = sum(server.cpu_times()[:2]), time.monotonic(), time.process_time()
        found = asyncio.run(stream_openly(here.address, STREAMS, SECONDS, METRICS))
        seconds = time.monotonic() - begin
        used = sum(server.cpu_times()[:2]) - before
        senders, memory = (time.process_time() - mine) / seconds, server.memory_info().rss / 2**20
    start, later = delay_of(found.acked[:START_S]), delay_of(found.acked[START_S:])
    acked, age = sum(map(len, found.acked)), age_of(found.acked[START_S:])
    measured = (
        f"{STREAMS:,}: {acked:,} of {found.sent:,} batches acknowledged, p95 after {later.p95:.2f} s, "
        f"in the first {START_S} s {start.p95:.2f} s"
    )
    noted = (
        f"median {later.median:.3f} s, first {start.median:.3f} s; durable after {age.p95:.1f} s (p95 of the "
        f"oldest in a batch, median {age.median:.1f} s), gathering included; all welcome "
        f"{found.welcomed_s:.1f} s after the first came; server {used / seconds:.2f} of a core, "
        f"{1e3 * used / acked:.2f} ms a batch, {memory:.0f} MB; senders {senders:.2f} of a core"
    )
    met = found.is_complete and max(start.p95, later.p95) < 0.5
    return Result("streams on one server", "2,000, p95 0.5 s", measured, met, noted)


def back_at_once() -> Result:
    """The same agents, which a server has had before, connect to the next one all at once."""
    _allow_connections()
    with node() as here:
        with here.server():
            first = asyncio.run(stream_openly(here.address, STREAMS, BACK_SECONDS, METRICS))
            assert first.is_complete, first.failed[:3]
        with here.server():
            found = asyncio.run(
                stream_openly(
                    here.address, STREAMS, BACK_SECONDS, METRICS, connecting_s=0.0, after=100 * BACK_SECONDS
                )
            )
    delay = delay_of(found.acked)
    measured = f"all welcome after {found.welcomed_s:.1f} s, {len(found.failed)} cancelled"
    noted = (
        f"{sum(map(len, found.acked)):,} of {found.sent:,} batches of the next {BACK_SECONDS} s acked, "
        f"median {delay.median:.3f} s, p95 {delay.p95:.2f} s"
    )
    met = found.is_complete and found.welcomed_s < BACK_S
    return Result(f"{STREAMS:,} agents back at once", f"{BACK_S:.0f} s", measured, met, noted)


def _allow_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def beside_greedy() -> Result:
    """Streams with a small batch a second, alone and next to those that send large ones without a pause."""
    with node() as here, here.server():
        alone = _calm(here, 0)
        command = (sys.executable, "-m", __name__, here.address)
        greedy = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        try:
            assert greedy.stdout is not None
            greedy.stdout.readline()  # its first batch is kept
            beside = _calm(here, CALM)
        finally:
            greedy.terminate()
            taken, _ = greedy.communicate()
    ratios = [late / early for late, early in zip(beside, alone, strict=True)]
    measured = f"median {ratios[0]:.1f} times, p95 {ratios[1]:.1f} times what it is alone"
    noted = (
        f"median {1e3 * beside.median:.0f} ms, p95 {1e3 * beside.p95:.0f} ms; alone {1e3 * alone.median:.0f} "
        f"and {1e3 * alone.p95:.0f} ms; {len(taken.split())} batches of 3 MB taken meanwhile"
    )
    what = f"acks of {CALM} streams beside {GREEDY} greedy ones"
    return Result(what, "twice", measured, max(ratios) <= 2, noted)


def _calm(here: Node, first: int) -> Delay:
    found = asyncio.run(stream_openly(here.address, CALM, CALM_SECONDS, METRICS, first))
    assert found.is_complete, found.failed
    return delay_of(found.acked[CALM_START_S:])


async def _send_without_pause(address: str) -> None:
    """Prints a line for each batch that is acknowledged, until the process is ended."""
    async with grpc.aio.insecure_channel(address) as channel:
        streams = [Stream(channel, f"greedy-{number}") for number in range(GREEDY)]
        await asyncio.gather(*map(_feed, streams))


async def _feed(stream: Stream) -> None:
    message = sample_batch(1, GREEDY_ROWS, METRICS, SECOND)
    batch, printed = message.batch, 0
    for sequence in itertools.count(1):
        batch.sequence, batch.begin_ns, batch.end_ns = sequence, sequence * SECOND, (sequence + 1) * SECOND
        await stream.wait_for(sequence - GREEDY_WINDOW)
        while printed < stream.acked:
            printed += 1
            print(printed, flush=True)
        stream.send(sequence, message.SerializeToString())


if __name__ == "__main__":
    asyncio.run(_send_without_pause(sys.argv[1]))
