"""Batches that waited in the spool of an agent while its node was rebooted."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import ClockSample, NodeKey
from roofline_server.store.catalog import name_ids

from ..builders import UNIX, S, machine, rank, training
from ..services import Served, serving

SENT = training([rank()], batches=3, batch_ns=5 * S)
FIRST_NS = SENT[0].begin_ns
BEGAN_NS = UNIX - 5000 * S  # server time, the boot before
AGENT, LINEAGE = "agent-a", "0" * 32


async def send(server: Served, boot: str) -> None:
    """Batches of a former process, by an agent on a node that was started at UNIX."""
    greeting = {"boot": "now", "node_ns": time.time_ns() - UNIX, "lineage": "1" * 32, "protocol": 2}
    async with server.agent(AGENT, **greeting) as agent:
        for one in SENT:
            await agent.write(pb.AgentMessage(batch=one, lineage=LINEAGE, boot=boot))
        await agent.until(lambda: agent.acked >= len(SENT) or agent.all("rejection"))
        assert not agent.all("rejection")


def first_step_ns(server: Served) -> int:
    view = server.store.view("job")
    assert view
    return int(view.steps["steps"]["begin_ns"].min())


@pytest.mark.parametrize("sealed", [False, True])
def test_batches_of_a_former_boot_are_on_its_clock(tmp_path: Path, sealed: bool) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            node = server.store.hello(NodeKey(AGENT, "before"), machine())
            for node_ns in range(0, 100 * S, 10 * S):
                server.store.add_clock_sample(node, ClockSample(node_ns, BEGAN_NS, 100_000))
            await send(server, "before")
            if sealed:
                await asyncio.to_thread(server.store.seal)
            assert first_step_ns(server) == pytest.approx(BEGAN_NS + FIRST_NS, abs=S // 100)
            view = server.store.view("job")
            assert view and {who.node for who in view.process_lifetimes} == {node}

    asyncio.run(asyncio.wait_for(work(), 60))


def test_former_boot_that_no_server_knew_was_over_when_this_one_began(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            await send(server, "before")
            last_ns = SENT[-1].end_ns
            assert first_step_ns(server) <= UNIX + S // 100 - (last_ns - FIRST_NS)
            view = server.store.view("job")
            assert view
            (node,) = {who.node for who in view.process_lifetimes}
            assert not view.clocks[node].is_measured  # so reports say that its error is unknown

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize("boot", ["", "now"])
def test_batches_of_this_boot_are_on_the_clock_of_the_stream(tmp_path: Path, boot: str) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            await send(server, boot)
            nodes = server.store.name_ids.nodes()
            view = server.store.view("job")
            assert view and {who.node for who in view.process_lifetimes} == {nodes[NodeKey(AGENT, "now")]}

    asyncio.run(asyncio.wait_for(work(), 60))


def test_node_that_boots_without_end_is_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(name_ids.MAX_BROUGHT, "boots", 2)

    async def work() -> None:
        async with serving(tmp_path) as server:
            for boot in ("1", "2", "1"):
                async with server.agent(AGENT, boot=boot):
                    pass
            with pytest.raises(grpc.aio.AioRpcError, match="booted more than 2 times within a day"):
                async with server.agent(AGENT, boot="3") as agent:
                    await agent.until(lambda: False)
            for name, boot in ((AGENT, "2"), ("other", "3")):
                async with server.agent(name, boot=boot):
                    pass

    asyncio.run(asyncio.wait_for(work(), 60))


def test_boots_without_end_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server, server.agent(AGENT, boot="now") as agent:
            for number in range(80):
                one = pb.Batch(sequence=number + 1, begin_ns=S, end_ns=2 * S)
                await agent.write(pb.AgentMessage(batch=one, boot=f"boot{number}"))
            await agent.until(lambda: len(agent.all("rejection")) >= 16)
            assert len(server.store.name_ids.nodes()) == 65

    asyncio.run(asyncio.wait_for(work(), 60))
