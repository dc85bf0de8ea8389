"""GetMachines over real gRPC: who is connected, what held before, who is not known."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from roofline.v1 import ingest_pb2, machine_pb2
from roofline.v1 import models_pb2 as pb

from ..services import Served, refusal, serving


def machine(value: float, **more: object) -> machine_pb2.Machine:
    ceiling = machine_pb2.Ceiling(
        name="peak.f32.512",
        kind="compute",
        precision="f32",
        width=512,
        value=value,
        unit="FLOP/s",
        time_ns=7,
        provenance=1,
    )
    return machine_pb2.Machine(host="node1", cpus=4, memory_bytes=1 << 34, ceilings=[ceiling], **more)


async def ask(server: Served, **request: object) -> list[pb.MachineVersion]:
    return list((await server.query.GetMachines(pb.GetMachinesRequest(**request))).machines)


def test_versions_of_a_connected_agent(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            async with server.agent(machine=machine(1e12)) as agent:
                (first,) = await ask(server)
                assert (first.machine, first.version, first.connected) == (machine(1e12), 1, True)
                assert (first.agent, first.until_ns, first.since_ns > 0) == ("agent-a", 0, True)
                greeting = ingest_pb2.Hello(protocol=1, agent="agent-a", boot="boot", machine=machine(2e12))
                await agent.write(ingest_pb2.AgentMessage(hello=greeting))
                while (await ask(server))[0].version != 2:
                    await asyncio.sleep(0.01)
                new, old = await ask(server, host="node1", history=True)
                assert [m.machine.ceilings[0].value for m in (new, old)] == [2e12, 1e12]
                assert (new.connected, old.connected, old.until_ns) == (True, False, new.since_ns)
            while (await ask(server))[0].connected:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(work(), 60))


def test_unknown_host_is_not_found_with_a_hint(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            call = server.query.GetMachines(pb.GetMachinesRequest(host="nodeX"))
            code, says = await refusal(call)
            assert (code, "'nodeX'" in says, "known are" in says) == (grpc.StatusCode.NOT_FOUND, True, False)
            async with server.agent(machine=machine(1e12)):
                code, says = await refusal(server.query.GetMachines(pb.GetMachinesRequest(host="nodeX")))
                assert (code, "known are node1" in says) == (grpc.StatusCode.NOT_FOUND, True)

    asyncio.run(asyncio.wait_for(work(), 60))
