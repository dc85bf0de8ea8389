"""What the models' answers cost at the server, of a job whose every kernel is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import grpc
from roofline.v1 import ingest_pb2 as pb

from .server import SECOND, WINDOW, Stream
from .site import Node, Result, ints, node, ranks

RANKS, STEPS, CALLS = 16, 4_000, 40  # 2.56 M calls
KINDS = 12
A_SECOND = 10  # steps
JOB = "kernels"


def answers() -> Result:
    """Rooflines by rank and by kernel, breakdown and time-based roofline of 2.56 M kernel calls."""
    with node() as here, here.server():
        asyncio.run(_job(here))
        time.sleep(40)  # a sealing stores the step deltas, as it does in any job of this length
        spent = _served(here)
        bare = _numpy_alone()
    slowest = max(spent.values())
    measured = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    calls = RANKS * STEPS * CALLS
    what = f"models of {calls / 1e6:.2f} M kernel calls, served"
    beside = f"sorting as many numbers with numpy alone takes {bare:.2f} s"
    return Result(what, "1 s each", f"{measured} s", slowest <= 1.0, beside)


async def _job(here: Node) -> None:
    async with grpc.aio.insecure_channel(here.address) as channel:
        stream = Stream(channel, "node")
        last = STEPS // A_SECOND
        for sequence in range(1, last + 1):
            await stream.wait_for(sequence - WINDOW)
            stream.send(sequence, _second(sequence).SerializeToString())
        begin = (last + 60) * SECOND  # long after the job: nothing of it is still to come
        idle = pb.AgentMessage(batch=pb.Batch(sequence=last + 1, begin_ns=begin, end_ns=begin + SECOND))
        await stream.wait_for(last)
        stream.send(last + 1, idle.SerializeToString())
        await stream.wait_for(last + 1)
        await stream.close()


def _second(sequence: int) -> pb.AgentMessage:
    """Some steps of every rank, and in each step every call."""
    begin, step_ns = sequence * SECOND, SECOND // A_SECOND
    batch = pb.Batch(sequence=sequence, begin_ns=begin, end_ns=begin + SECOND, ranks=ranks(JOB, 0, RANKS))
    batch.kernels.extend(_kinds())
    steps = [(rank, k) for rank in range(RANKS) for k in range(A_SECOND)]
    borders = [(rank, k, end) for rank, k in steps for end in (0, 1)]
    batch.marks.CopyFrom(
        pb.Marks(
            rank=ints(rank for rank, _, _ in borders),
            sender=ints(rank for rank, _, _ in borders),
            kind=ints(1 + end for _, _, end in borders),
            step=ints((sequence - 1) * A_SECOND + k for _, k, _ in borders),
            examples=ints([32] * len(borders)),
            time_ns=ints(begin + k * step_ns + end * (step_ns - 1000) for _, k, end in borders),
            phase=ints([-1] * len(borders)),
            flags=ints([0] * len(borders)),
        )
    )
    apart = step_ns // (CALLS + 1)
    calls = [(rank, begin + k * step_ns + i * apart, i % KINDS) for rank, k in steps for i in range(CALLS)]
    batch.calls.CopyFrom(
        pb.Calls(
            rank=ints(rank for rank, _, _ in calls),
            kernel=ints(kind for _, _, kind in calls),
            start_ns=ints(start for _, start, _ in calls),
            duration_ns=ints(apart // 2 + 1000 * kind for _, _, kind in calls),
        )
    )
    for rank in range(RANKS):
        kind = pb.EVENT_KIND_KERNELS_COVERED
        batch.events.add(kind=kind, rank=rank, begin_ns=begin, end_ns=begin + SECOND)
    return pb.AgentMessage(batch=batch)


def _kinds() -> list[pb.Kernel]:
    return [
        pb.Kernel(
            library="onednn",
            operation="convolution" if kind % 2 else "matmul",
            variant="forward_training",
            precision="f32",
            implementation="jit:avx512_core",
            problem=f"shape{kind}",
            flops=10_000_000 * (kind + 1),
            bytes=1_000_000,
        )
        for kind in range(KINDS)
    ]


def _served(here: Node) -> dict[str, float]:
    from roofline_client import connect

    with connect(here.address) as client:
        questions: dict[str, Callable[[], Any]] = {
            "ranks": lambda: client.roofline(JOB),
            "kernels": lambda: client.roofline(JOB, points="kernel"),
            "breakdown": lambda: client.breakdown(JOB),
            "time": lambda: client.time_roofline(JOB),
        }
        assert len(client.roofline(JOB).points) == RANKS
        return {name: _median(question) for name, question in questions.items()}


def _median(question: Callable[[], Any]) -> float:
    spent = []
    for _ in range(3):
        begin = time.monotonic()
        question()
        spent.append(time.monotonic() - begin)
    return sorted(spent)[1]


def _numpy_alone() -> float:
    import numpy as np

    numbers = np.random.default_rng(1).integers(0, 2**62, RANKS * STEPS * CALLS)
    begin = time.monotonic()
    np.argsort(numbers)
    return time.monotonic() - begin
