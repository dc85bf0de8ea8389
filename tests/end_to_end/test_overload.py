"""A real agent that is asked for less while the server is busy, and the report that says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import query_pb2, query_pb2_grpc
from roofline_agent.hooks import NOTES, kernel_switch
from roofline_server.grpc_server import grpc_server
from roofline_server.ingest.commands import Agents
from roofline_server.ingest.committer import Committer
from roofline_server.ingest.sampling_control import SamplingControl
from roofline_server.ingest.sampling_level import ServerLoad
from roofline_server.records import DecodedBatch
from roofline_server.store.intake.entries import Entry
from roofline_server.store.store import Store

from tests.fakes import ended
from tests.server.builders import open_store
from tests.server.services import Agent

from .conftest import TRAINING, Site

pytestmark = pytest.mark.slow

JOB = f"busy-{os.getpid()}"
OWN_NS = 500_000_000


class Server:
    """In this process, with a load that the test sets."""

    def __init__(self, store: Store) -> None:
        self.load, self.now_s = ServerLoad(), 0.0
        self.agents = Agents()
        self.control = SamplingControl(self.agents, lambda lag_s: self.load, lambda: self.now_s)
        self.committer = Committer(store)
        self.grpc = grpc_server(store, self.committer, agents=self.agents)

    def look(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.control.look(0.0)

    def interval_ns(self) -> int:
        """Of the agent, as it says itself; 0: none is connected."""
        links = self.agents.links()
        return int(links[0].hello.interval_ns) if links else 0


async def until(condition: Callable[[], Any]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), 60)


def test_agent_samples_less_often_while_the_server_is_busy(site: Site) -> None:
    async def work() -> list[str]:
        store = open_store(site.folder / "data")
        server = Server(store)
        assert server.grpc.add_insecure_port(site.address)
        await server.grpc.start()
        commits = asyncio.create_task(server.committer.run())
        try:
            await until(lambda: server.interval_ns() == OWN_NS)
            await until(lambda: JOB in store.jobs())
            server.load = ServerLoad(is_full=True)
            server.look(5)
            await until(lambda: server.interval_ns() == 2 * OWN_NS)
            server.look(15)
            await until(lambda: server.interval_ns() == 4 * OWN_NS)
            await until(lambda: any("sampled every 2 s" in note for note in notes(store)))
            server.load = ServerLoad()
            server.look(100)
            await until(lambda: server.interval_ns() == OWN_NS)
            async with grpc.aio.insecure_channel(site.address) as channel:
                asked = query_pb2.GetReportRequest(job=JOB)
                report = await query_pb2_grpc.QueryStub(channel).GetReport(asked)
            return list(report.notes)
        finally:
            await server.grpc.stop(0)
            commits.cancel()
            await asyncio.gather(commits, return_exceptions=True)
            store.close()

    rank = training(site)
    with ended(site.agent(OWN_NS / 1e9)), ended(rank):
        found = asyncio.run(work())
    (slow,) = (note for note in found if "sampled every 2 s" in note)
    assert slow.endswith(": the server was busy")
    assert any("sampled every 1 s from" in note for note in found)


def test_agent_gathers_longer_while_the_server_has_many_streams(site: Site) -> None:
    async def work() -> list[str]:
        store = open_store(site.folder / "data")
        server = Server(store)
        lengths_s = noted_lengths(store)
        assert server.grpc.add_insecure_port(site.address)
        await server.grpc.start()
        commits = asyncio.create_task(server.committer.run())
        try:
            await until(lambda: JOB in store.jobs())
            assert max(lengths_s) < 2
            server.committer.hold_s = 3.0
            await until(lambda: lengths_s[-1] > 2.8)
            await until(lambda: any("every 3 s" in note for note in notes(store)))
            server.committer.hold_s = 0.0
            held = len(lengths_s)
            await until(lambda: len(lengths_s) > held + 2)
            assert max(lengths_s[-2:]) < 2
            return notes(store)
        finally:
            await server.grpc.stop(0)
            commits.cancel()
            await asyncio.gather(commits, return_exceptions=True)
            store.close()

    with ended(site.agent(1.0)), ended(training(site)):
        found = asyncio.run(work())
    (held,) = (note for note in found if "sent its data only every 3 s from" in note)
    assert held.endswith(": the server was busy")


def noted_lengths(store: Store) -> list[float]:
    """How long each batch was that is committed from now on, s."""
    found: list[float] = []
    commit = store.commit

    def noting(batches: Sequence[tuple[Entry, DecodedBatch]]) -> list[Entry]:
        found.extend((decoded.end_ns - decoded.begin_ns) / 1e9 for _, decoded in batches)
        return commit(batches)

    store.commit = noting  # type: ignore[method-assign]
    return found


def training(site: Site) -> subprocess.Popen[bytes]:
    config = json.dumps({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 0}})
    environ = {"TF_CONFIG": config, "ROOFLINE_JOB": JOB}
    return site.start([sys.executable, TRAINING, 100_000, 0.05, 8], "rank.log", **environ)


def fewer_kernels(wrapper: subprocess.Popen[bytes]) -> int:
    """Of how many times fewer steps hooks of a wrapped rank read that kernels are wanted; 0: not said."""
    for child in Path(f"/proc/{wrapper.pid}/task/{wrapper.pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has ended
            environ = Path(f"/proc/{child}/environ").read_bytes().decode()
            variables = dict(one.split("=", 1) for one in environ.split("\0") if "=" in one)
            page = Path(variables.get(NOTES, "/nowhere")).read_bytes()
            return int(kernel_switch.OTHERS.unpack_from(page, kernel_switch.FEWER_AT)[0])
    return 0


def test_hooks_of_wrapped_ranks_sample_fewer_steps_while_the_server_is_busy(site: Site) -> None:
    async def work() -> None:
        store = open_store(site.folder / "data")
        server = Server(store)
        assert server.grpc.add_insecure_port(site.address)
        await server.grpc.start()
        try:
            await until(lambda: server.interval_ns() == OWN_NS)
            server.load = ServerLoad(is_full=True)
            server.look(20)
            await until(lambda: fewer_kernels(rank) == 4)
        finally:
            await server.grpc.stop(0)  # whoever asked can take it back no more
            store.close()
        await until(lambda: fewer_kernels(rank) == 1)

    with ended(site.agent(OWN_NS / 1e9)), ended(site.rank("worker", 0, 100_000, 0.05, 8)) as rank:
        asyncio.run(work())


def notes(store: Store) -> list[str]:
    from roofline_server.report.job.build import build

    view = store.view(JOB)
    return build(view).notes if view else []


def test_calm_server_lets_go_an_agent_that_another_slowed_down(site: Site) -> None:
    """The loop runs in a real server too, and says nothing to agents that sample as they like."""

    async def commands(name: str, now_ns: int) -> list[int]:
        async with grpc.aio.insecure_channel(site.address) as channel:
            hello = {"own_interval_ns": OWN_NS, "interval_ns": now_ns, "machine": {"host": name}}
            async with Agent(channel, name, **hello) as agent:
                other = Agent(channel, "other", **{**hello, "interval_ns": OWN_NS, "machine": {"host": "b"}})
                async with other:
                    await agent.until(lambda: agent.all("command"))
                    assert other.all("command") == []
                return [command.set_interval.interval_ns for command in agent.all("command")]

    site.server()
    assert asyncio.run(commands("slow", 4 * OWN_NS)) == [0]
