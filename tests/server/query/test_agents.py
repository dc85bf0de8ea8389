from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import query_pb2

from ..builders import S, batch
from ..services import Served, serving


async def listed(server: Served) -> list[Any]:
    return list((await server.query.ListAgents(query_pb2.ListAgentsRequest())).agents)


def test_agents_are_listed_with_what_is_amiss(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            assert await listed(server) == []
            broken = {"name": "perf", "reason": "not allowed"}
            hello = {
                "version": "1.2",
                "interval_ns": S // 2,
                "sources": [broken, {"name": "tcp", "works": True}],
            }
            async with server.agent(**hello) as agent:
                (found,) = await listed(server)
                assert (found.host, found.connected, found.version, found.batches) == (
                    "node1",
                    True,
                    "1.2",
                    0,
                )
                assert not found.lag.HasField("value") and found.interval.value == 0.5
                assert [(one.name, one.reason) for one in found.sources] == [("perf", "not allowed")]
                lost = pb.Event(kind=pb.EVENT_KIND_LOST, rank=-1, begin_ns=10 * S, end_ns=11 * S, count=3)
                await agent.send(batch(events=[lost]))
                await agent.until(lambda: agent.all("ack"))
                (found,) = await listed(server)
                assert (found.batches, found.lost, found.refused) == (1, 3, 0)
                assert found.lag.HasField("value") and found.lag.value >= 0
                await agent.write(pb.AgentMessage(batch=pb.Batch(sequence=2**60)))
                await agent.until(lambda: agent.all("rejection"))
                (found,) = await listed(server)
                assert found.refused == 1
            while (found := (await listed(server))[0]).connected:
                await asyncio.sleep(0.01)
            assert found.host == "node1" and not found.lag.HasField("value") and found.lag.reason

    asyncio.run(asyncio.wait_for(work(), 30))
