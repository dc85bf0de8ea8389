"""BenchNet over real gRPC, both agents played: who is asked what, what is passed on, who is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2, models_pb2
from roofline_server.ingest.commands import Agents, Busy, Link, alone
from roofline_server.query import bench_net

from ..builders import UNIX, Node, S, batch, rank
from ..services import PATIENCE_S, Agent, Served, serving

SERVING = pb.NetServing(addresses=["10.0.0.2", "fd00::2"], tcp_port=41, grpc_port=42)
CEILING = machine_pb2.Ceiling(name="net.tcp", kind="network", unit="byte/s", value=9.0, peer="b", time_ns=7)
OTHERS = [
    machine_pb2.Ceiling(name="net.tcp", kind="network", value=5.0, peer="c"),
    machine_pb2.Ceiling(name="dram.triad", kind="memory", level="dram", value=5.0),
]


class Nodes:
    """Agents on hosts a and b, and a client that asks."""

    def __init__(self, served: Served, a: Agent, b: Agent) -> None:
        self.served, self.a, self.b = served, a, b

    def ask(self, **request: Any) -> Any:
        return self.served.query.BenchNet(
            models_pb2.BenchNetRequest(**{"from_host": "a", "to_host": "b", **request})
        )

    async def command(self, agent: Agent, kind: str) -> Any:
        """The next command of a kind that the agent has not had."""

        def found() -> Any:
            return next((c for c in agent.all("command") if c.WhichOneof("kind") == kind), None)

        return await agent.until(found)

    async def answer(self, agent: Agent, command: Any, **fields: Any) -> None:
        await agent.write(pb.AgentMessage(result=pb.CommandResult(id=command.id, **fields)))

    async def serve(self) -> tuple[Any, Any]:
        """Both ends are at it: their commands."""
        serve = await self.command(self.b, "serve_net")
        await self.answer(self.b, serve, serving=SERVING)
        return serve, await self.command(self.a, "measure_net")


@contextlib.asynccontextmanager
async def nodes(folder: Path, **hello_of_b: Any) -> AsyncIterator[Nodes]:
    async with (
        serving(folder) as served,
        served.agent("agent-a", machine={"host": "a", "ceilings": OTHERS}) as a,
        served.agent("agent-b", **{"machine": {"host": "b"}, **hello_of_b}) as b,
    ):
        yield Nodes(served, a, b)


def run(folder: Path, scenario: Callable[[Nodes], Awaitable[None]], **hello_of_b: Any) -> None:
    async def all_of_it() -> None:
        async with nodes(folder, **hello_of_b) as made:
            await scenario(made)

    asyncio.run(all_of_it())


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async for _ in call:
            pass
    return error.value.code(), error.value.details()


def test_one_serves_the_other_measures_and_all_is_passed_on(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        call = made.ask(seconds=0.5, quick=True)
        reading = asyncio.create_task(_all(call))
        serve, measure = await made.serve()
        asked = measure.measure_net
        assert len(asked.key) >= 32 and asked.key == serve.serve_net.key
        assert (asked.host, list(asked.addresses)) == ("b", ["127.0.0.1"]), "where its stream comes from"
        for order in (asked, serve.serve_net):
            assert (order.from_agent, order.to_agent) == ("agent-a", "agent-b")
        assert (asked.tcp_port, asked.grpc_port, asked.seconds, asked.quick) == (41, 42, 0.5, True)
        await made.answer(made.a, measure, progress="1 of 2: tcp.latency")
        result = models_pb2.NetResult(name="tcp.latency", value=1e-5, unit="s")
        await made.answer(made.a, measure, net=result)
        # As an agent does it: the ceilings, then the end.
        made.a.hello.machine.ceilings.append(CEILING)
        await made.a.write(pb.AgentMessage(hello=made.a.hello))
        await made.answer(made.b, serve, done=True)
        await made.answer(made.a, measure, done=True, reason="x was not measured: y\nz")
        first, progress, measured, summary = await reading
        assert "41" in first.progress and progress.progress == "1 of 2: tcp.latency"
        assert measured.result == result
        assert list(summary.summary.ceilings) == [CEILING]
        assert list(summary.summary.notes) == ["x was not measured: y", "z"]

    run(tmp_path, scenario)


def test_address_that_somebody_names_must_be_one_of_the_receiver(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        call = made.ask(address="fd00::2")
        reading = asyncio.create_task(_all(call))
        _, measure = await made.serve()
        assert list(measure.measure_net.addresses) == ["fd00::2"]
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading

    run(tmp_path, scenario)


def test_stream_through_a_forwarder_names_the_addresses_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: Nodes) -> None:
        reading = asyncio.create_task(refused(made.ask()))
        _, measure = await made.serve()
        assert list(measure.measure_net.addresses) == ["203.0.113.5"]
        await made.answer(made.a, measure, reason="b cannot be reached")
        _, text = await reading
        assert "comes from 203.0.113.5, which is none of the addresses that its agent reports" in text
        assert "one that a reaches (--address 10.0.0.2)" in text

    monkeypatch.setattr(bench_net, "seen_from", lambda *_: "203.0.113.5")
    run(tmp_path, scenario)


def test_address_of_a_third_is_refused(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        reading = asyncio.create_task(refused(made.ask(address="10.0.0.3")))
        serve = await made.command(made.b, "serve_net")
        await made.answer(made.b, serve, serving=SERVING)
        code, text = await reading
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "no address '10.0.0.3'" in text and "10.0.0.2, fd00::2" in text
        await made.command(made.b, "stop_net")
        assert not any(c.WhichOneof("kind") == "measure_net" for c in made.a.all("command"))

    run(tmp_path, scenario)


async def _all(call: Any) -> list[Any]:
    return [event async for event in call]


def test_hosts_nobody_knows_and_hosts_that_left(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        code, text = await refused(made.ask(to_host="nowhere"))
        assert code == grpc.StatusCode.NOT_FOUND and "'nowhere'" in text and "a, b" in text
        async with made.served.agent("agent-c", machine={"host": "c"}):
            pass

        async def left() -> None:
            while "not connected" not in (await refused(made.ask(from_host="c")))[1]:
                await asyncio.sleep(0.01)

        # The server needs a moment to see that the stream has ended.
        await asyncio.wait_for(left(), PATIENCE_S)
        assert (await refused(made.ask(from_host="c")))[0] == grpc.StatusCode.FAILED_PRECONDITION

    run(tmp_path, scenario)


@pytest.mark.parametrize("seconds", [-1.0, 0.01, 11.0, float("nan"), float("inf")])
def test_times_that_cannot_be(tmp_path: Path, seconds: float) -> None:
    async def scenario(made: Nodes) -> None:
        code, text = await refused(made.ask(seconds=seconds))
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "0.1 to 10" in text
        assert not made.b.all("command")

    run(tmp_path, scenario)


@pytest.mark.parametrize("host", ["a", "b", "c"])
def test_a_running_job_is_left_alone_unless_forced(tmp_path: Path, host: str) -> None:
    async def scenario(made: Nodes) -> None:
        node = Node(f"other {host}", host=host)
        node.greet(made.served.store)
        now_ns = made.served.store.now_ns() - UNIX
        node.put(made.served.store, batch(1, now_ns - S, now_ns, ranks=[rank("42")]))
        if host != "c":
            code, text = await refused(made.ask())
            assert code == grpc.StatusCode.FAILED_PRECONDITION
            assert "job 42 runs on a or b" in text and "--force" in text
            assert not made.b.all("command")
        asking = asyncio.create_task(_all(made.ask(force=host != "c")))
        await made.command(made.b, "serve_net")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    run(tmp_path, scenario)


def test_an_old_agent_is_named(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        asking = asyncio.create_task(refused(made.ask()))
        serve = await made.command(made.b, "serve_net")
        await made.answer(made.b, serve, reason="this agent does not know the command")
        code, text = await asking
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "on b (version 0.0.9) is too old" in text and "update" in text

    run(tmp_path, scenario, version="0.0.9")


def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        first = made.ask()
        reading = asyncio.create_task(_all(first))
        await made.serve()
        for hosts in ({}, {"from_host": "b", "to_host": "a"}, {"to_host": "a"}):
            code, text = await refused(made.ask(**hosts))
            assert code == grpc.StatusCode.FAILED_PRECONDITION and "busy" in text
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await made.command(made.b, "stop_net")
        # And free again.
        again = asyncio.create_task(_all(made.ask()))
        await made.a.until(lambda: len([c for c in made.b.all("command") if c.HasField("serve_net")]) == 2)
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)

    run(tmp_path, scenario)


def test_an_agent_that_is_busy_says_so(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        asking = asyncio.create_task(refused(made.ask()))
        serve = await made.command(made.b, "serve_net")
        await made.answer(made.b, serve, reason="busy with another network benchmark (serving)")
        code, text = await asking
        assert code == grpc.StatusCode.FAILED_PRECONDITION and "on b is busy" in text

    run(tmp_path, scenario)


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_failure_is_told_and_both_ends_are_stopped(tmp_path: Path, who: str) -> None:
    async def scenario(made: Nodes) -> None:
        asking = asyncio.create_task(refused(made.ask()))
        serve, measure = await made.serve()
        agent, command = {"a": (made.a, measure), "b": (made.b, serve)}[who]
        await made.answer(agent, command, reason="the measuring process was killed by SIGKILL")
        code, text = await asking
        assert code == grpc.StatusCode.ABORTED
        assert f"{who} failed" in text and "SIGKILL" in text
        for one in (made.a, made.b):
            assert (await made.command(one, "stop_net")).stop_net.key == serve.serve_net.key

    run(tmp_path, scenario)


@pytest.mark.parametrize("who", ["a", "b"])
def test_an_agent_that_goes_breaks_it_off(tmp_path: Path, who: str) -> None:
    async def scenario(made: Nodes) -> None:
        asking = asyncio.create_task(refused(made.ask()))
        await made.serve()
        leaving, staying = (made.a, made.b) if who == "a" else (made.b, made.a)
        leaving.call.cancel()
        code, text = await asking
        assert code == grpc.StatusCode.ABORTED and f"{who} has gone" in text
        await made.command(staying, "stop_net")

    run(tmp_path, scenario)


def test_an_agent_that_never_listens_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_server.query.bench_net.SERVING_S", 0.1)

    async def scenario(made: Nodes) -> None:
        code, text = await refused(made.ask())
        assert code == grpc.StatusCode.ABORTED and "b did not listen" in text

    run(tmp_path, scenario)


def test_silence_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_server.query.bench_net.SILENCE_S", 0.1)

    async def scenario(made: Nodes) -> None:
        asking = asyncio.create_task(refused(made.ask()))
        await made.serve()
        code, text = await asking
        assert code == grpc.StatusCode.ABORTED and "a sent nothing" in text

    run(tmp_path, scenario)


# -- commands ----------------------------------------------------------------------------------------


def link(host: str, sent: list[Any] | None = None, at: str = "", **hello: Any) -> Link:
    made = pb.Hello(**{"agent": "x", "machine": {"host": host}, **hello})
    return Link(made, (sent if sent is not None else []).append, at)


def test_of_several_agents_on_a_host_the_newest_is_asked() -> None:
    agents, old, new = Agents(), link("a"), link("a")
    agents.add(old)
    agents.add(new)
    assert agents.machines("a") == [new] and agents.hosts() == ["a"]
    agents.remove(new)
    assert agents.machines("a") == [old]
    agents.remove(old)
    agents.remove(old)
    assert agents.machines("a") == [] and agents.hosts() == []


def test_agents_of_one_machine_are_one_and_machines_of_one_name_are_several() -> None:
    agents = Agents()
    admins, users = link("n", at="10.0.0.2", boot="1"), link("n", at="10.0.0.2", boot="1", agent="y")
    over_loopback = link("n", at="127.0.0.1", boot="1", agent="z")
    for one in (admins, users, over_loopback):
        agents.add(one)
    assert agents.machines("n") == [over_loopback]
    other, container = link("n", at="127.0.0.1", boot="2", agent="a"), link("n", at="10.1.0.2", boot="2")
    agents.add(other)
    assert agents.machines("n") == [over_loopback, other]
    assert not Agents().machines("n")
    agents = Agents()
    for number, one in enumerate((container, link("n", at="10.1.0.3", boot="2", agent="b"))):
        agents.add(one)
        assert len(agents.machines("n")) == number + 1


def test_name_of_two_machines_is_refused(tmp_path: Path) -> None:
    async def scenario(made: Nodes) -> None:
        async with made.served.agent("agent-c", machine={"host": "b"}, boot="another"):
            code, text = await refused(made.ask())
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "2 nodes are called b (agent agent-b at 127.0.0.1, agent agent-c at 127.0.0.1)" in text

    run(tmp_path, scenario)


def test_answers_go_to_whom_they_are_for() -> None:
    sent: list[Any] = []
    one, heard = link("a", sent), list[tuple[str, Any]]()
    first = one.command(lambda result: heard.append(("first", result)), stop_net=pb.StopNet(key="k"))
    second = one.command(lambda result: heard.append(("second", result)), stop_net=pb.StopNet(key="l"))
    assert [message.command.id for message in sent] == [first, second] and first != second
    answer = pb.CommandResult(id=second, done=True)
    one.take(answer)
    one.take(pb.CommandResult(id=99))
    assert heard == [("second", answer)]
    one.forget(second)
    one.close()
    assert heard[1:] == [("first", None)]
    one.command(lambda result: heard.append(("late", result)), stop_net=pb.StopNet(key="m"))
    assert heard[-1] == ("late", None) and len(sent) == 2


def test_alone_is_given_back_however_it_ends() -> None:
    a, b = link("a"), link("b")
    with contextlib.suppress(ZeroDivisionError), alone((a, b, a), "x"):
        with pytest.raises(Busy, match="agent on b is busy with x"), alone((link("c"), b), "y"):
            pass
        raise ZeroDivisionError
    assert a.busy_with == b.busy_with == ""
