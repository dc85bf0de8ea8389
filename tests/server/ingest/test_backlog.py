"""Batches in any order: what is acknowledged, and what waits for those that are missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb

from ..builders import rank, training
from ..services import PATIENCE_S, Served, run

SENT = training([rank()])


def test_each_batch_is_acknowledged_to_agents_that_understand_it(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent(exact_acks=True, lineage="x") as agent:
            assert agent.all("welcome")[0].exact_acks
            order = [3, 1, 2, 3]
            for number in order:
                await agent.send(SENT[number - 1])
            await agent.until(lambda: sum(len(ack.kept) for ack in agent.all("ack")) == len(order))
            assert [number for ack in agent.all("ack") for number in ack.kept] == order
            assert agent.acked == 0
        async with server.agent() as older:
            assert not older.all("welcome")[0].exact_acks

    run(work, tmp_path)


def test_step_deltas_wait_for_a_backlog_while_its_agent_is_there(tmp_path: Path) -> None:
    async def work(server: Served) -> None:
        async with server.agent(exact_acks=True, lineage="x") as agent:
            missing = pb.Backlog(begin_ns=SENT[2].begin_ns, end_ns=SENT[5].begin_ns)
            await agent.write(pb.AgentMessage(backlog=missing))
            await agent.send(*SENT[:2], *SENT[5:])
            await agent.until(lambda: sum(len(ack.kept) for ack in agent.all("ack")) == 2 + len(SENT[5:]))
            reported = server.store._tail.now().reported
            assert list(reported.values()) == [SENT[2].begin_ns]
            await agent.send(SENT[2])
            await agent.until(lambda: agent.all("ack")[-1].kept == [SENT[2].sequence])
            assert list(server.store._tail.now().reported.values()) == [SENT[2].end_ns]

        async def over() -> None:
            while list(server.store._tail.now().reported.values()) != [SENT[-1].end_ns]:
                await asyncio.sleep(0.005)

        await asyncio.wait_for(over(), PATIENCE_S)

    run(work, tmp_path)


@pytest.mark.parametrize("extent", [(-(2**63), 2**63 - 1), (5, 4), (1, 2**63 - 1)])
def test_backlog_that_cannot_be_holds_up_nothing(tmp_path: Path, extent: tuple[int, int]) -> None:
    async def work(server: Served) -> None:
        async with server.agent(exact_acks=True, lineage="x") as agent:
            await agent.write(pb.AgentMessage(backlog=pb.Backlog(begin_ns=extent[0], end_ns=extent[1])))
            await agent.send(*SENT)
            await agent.until(lambda: sum(len(ack.kept) for ack in agent.all("ack")) == len(SENT))
            assert list(server.store._tail.now().reported.values()) == [SENT[-1].end_ns]

    run(work, tmp_path)
