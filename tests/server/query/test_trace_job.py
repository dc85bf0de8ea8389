"""TraceJob over real gRPC, the agent played: who is asked, what is passed on, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2
from roofline_server.query.trace_job import running_ranks

from ..builders import BEGIN, END, MS, UNIX, Node, S, batch, marks, open_store, rank
from ..services import Agent, Served, serving

RANKS = [rank("42", pid=100), rank("42", index=1, pid=101)]


class Cluster:
    def __init__(self, served: Served, agent: Agent) -> None:
        self.served, self.agent = served, agent

    def ask(self, **request: Any) -> Any:
        return self.served.query.TraceJob(models_pb2.TraceJobRequest(**{"job": "42", "steps": 3, **request}))

    async def commands(self, count: int) -> list[Any]:
        def found() -> Any:
            mine = [c for c in self.agent.all("command") if c.WhichOneof("kind") == "trace_steps"]
            return mine if len(mine) == count else None

        return list(await self.agent.until(found))

    async def answer(self, command: Any, **fields: Any) -> None:
        await self.agent.write(pb.AgentMessage(result=pb.CommandResult(id=command.id, **fields)))


def run(
    folder: Path,
    scenario: Callable[[Cluster], Awaitable[None]],
    since_s: int = 1,
    ranks: list[Any] = RANKS,
) -> None:
    async def all_of_it() -> None:
        async with serving(folder) as served, served.agent("agent-a") as agent:
            now_ns = served.store.now_ns() - UNIX - since_s * S
            node = Node("agent-a")
            node.greet(served.store)
            node.put(served.store, batch(1, now_ns - S, now_ns, ranks=ranks))
            await scenario(Cluster(served, agent))

    asyncio.run(all_of_it())


def test_how_long_steps_last_is_known_of_each_rank_or_of_the_others(tmp_path: Path) -> None:
    node, store = Node("a"), open_store(tmp_path)
    node.greet(store)
    ranks = [rank(index=i, pid=100 + i) for i in range(3)]
    said = [
        (r, kind, k, 1, 100 * S + (k * 2 + at) * (r + 1) * MS)
        for r in (0, 1)
        for k in range(9)
        for at, kind in enumerate((BEGIN, END))
    ]
    node.put(store, batch(1, 100 * S, 101 * S, ranks=ranks, marks=marks(said)))
    view = store.view("job")
    assert view is not None
    found = running_ranks(view, UNIX + 101 * S)
    assert [one.step_us for one in found] == [1000, 2000, 1500]


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async for _ in call:
            pass
    return error.value.code(), error.value.details()


async def all_of(call: Any) -> list[Any]:
    return [event async for event in call]


def test_each_rank_is_asked_by_its_process_and_what_becomes_of_it_is_passed_on(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        reading = asyncio.create_task(all_of(cluster.ask()))
        first, second = await cluster.commands(2)
        assert [
            (c.trace_steps.pid, c.trace_steps.start_ns, c.trace_steps.steps) for c in (first, second)
        ] == [
            (100, 5, 3),
            (101, 5, 3),
        ]
        await cluster.answer(first, progress="reading: steps 5-7")
        await cluster.answer(second, reason="it was not started by `roofline-agent run -- CMD`")
        await cluster.answer(first, done=True, progress="recorded: steps 5-7, 10 operators")
        progress, other, recorded = await reading
        assert progress.progress == "worker:0: reading: steps 5-7"
        assert (other.result.rank, other.result.recorded) == ("worker:1", False)
        assert recorded.result == models_pb2.RankTrace(
            rank="worker:0", recorded=True, text="recorded: steps 5-7, 10 operators"
        )

    run(tmp_path, scenario)


def test_ranks_that_are_not_named_are_left_alone(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        reading = asyncio.create_task(all_of(cluster.ask(ranks=["worker:1"])))
        (command,) = await cluster.commands(1)
        assert command.trace_steps.pid == 101
        await cluster.answer(command, done=False, reason="this agent does not know the command")
        (event,) = await reading
        assert "too old" in event.result.text

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        ({"job": "7"}, grpc.StatusCode.NOT_FOUND, "no job '7'"),
        ({"ranks": ["ps:0"]}, grpc.StatusCode.NOT_FOUND, "these do: worker:0, worker:1"),
        ({"steps": 21}, grpc.StatusCode.INVALID_ARGUMENT, "must be 1 to 20"),
        ({"steps": 0}, grpc.StatusCode.INVALID_ARGUMENT, "must be 1 to 20"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, request_: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    async def scenario(cluster: Cluster) -> None:
        found, why = await refused(cluster.ask(**request_))
        assert found == code and text in why
        assert not cluster.agent.all("command")

    run(tmp_path, scenario)


def test_job_that_is_over_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        code, why = await refused(cluster.ask())
        assert code == grpc.StatusCode.FAILED_PRECONDITION and "--trace" in why

    run(tmp_path, scenario, since_s=60)


def test_of_many_ranks_the_first_are_named_and_a_long_name_is_cut(tmp_path: Path) -> None:
    ranks = [rank("42", index=i, pid=100 + i) for i in range(2000)]

    async def scenario(cluster: Cluster) -> None:
        code, why = await refused(cluster.ask(ranks=[f"ps:{i:04}" for i in range(2000)]))
        assert (code, why) == (
            grpc.StatusCode.NOT_FOUND,
            "job 42 has no rank ps:0000, ps:0001, ps:0002, ps:0003 and 1996 more that runs; these do: "
            "worker:0, worker:1, worker:2, worker:3 and 1996 more",
        )
        # A longer text than gRPC carries ends all calls of the connection.
        code, why = await refused(cluster.ask(job="\u8f6d" * 20_000))
        assert code == grpc.StatusCode.NOT_FOUND
        assert why.startswith("this server has no job '\u8f6d") and why.endswith("\u8f6d...")

    run(tmp_path, scenario, ranks=ranks)
