"""A network benchmark: has one agent serve and another measure against it, and passes on what it finds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable
from typing import Any

import grpc
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2

from ..ingest.addresses import is_loopback, seen_from
from ..ingest.commands import Agents, Busy, Link, alone
from ..report.ranks.members import is_running
from ..store.same_names import plain
from ..store.store import Store

MOST_S = 600.0  # the whole benchmark
LEAST_SECONDS, MOST_SECONDS = 0.1, 10.0  # of one measurement
SERVING_S = 15.0  # until an agent listens
SILENCE_S = 60.0  # longest between two results of the measuring agent, apart from a measurement itself
END_S = 5.0  # until the serving agent reports that it has ended
OLD = "does not know the command"  # the reason of agents that are older than this benchmark
BUSY = "busy"  # how the reason of an agent begins that is at another benchmark


class CannotBench(Exception):
    """Why there is no benchmark, and with which status the call ends."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


async def bench_net(
    agents: Agents, known: Iterable[str], request: Any, running: Callable[[Collection[str]], list[str]]
) -> AsyncGenerator[Any, None]:
    """Events for the client. Raises CannotBench. However it ends, both agents end their parts.

    known: hosts of which an agent was ever connected. running: jobs that run on some hosts;
    called in a thread.
    """
    seconds = request.seconds
    if seconds and not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise CannotBench(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{seconds:g} s of each measurement: must be {LEAST_SECONDS:g} to {MOST_SECONDS:g}, or 0 for the "
            "default; there are some 40 of them",
        )
    sender = _agent_on(request.from_host, agents, known)
    receiver = _agent_on(request.to_host, agents, known)
    hosts = {sender.host, receiver.host}
    jobs = [] if request.force else await asyncio.to_thread(running, hosts)
    if jobs:
        are = f"job {jobs[0]} runs" if len(jobs) == 1 else f"jobs {', '.join(jobs)} run"
        raise CannotBench(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{are} on {' or '.join(sorted(hosts))}: a network benchmark takes all of the network there and "
            "would both slow it down and be slowed down by it; try again when it has ended, or force it "
            "(--force)",
        )
    try:
        with alone((sender, receiver), f"a network benchmark ({sender.host} to {receiver.host})"):
            benchmark = _Benchmark(sender, receiver)
            try:
                async for event in benchmark.events(request):
                    yield event
            finally:
                benchmark.stop()
    except Busy as busy:
        raise CannotBench(grpc.StatusCode.FAILED_PRECONDITION, str(busy)) from None


def running_on(store: Store, hosts: Collection[str]) -> list[str]:
    """Jobs of which a rank runs on one of these hosts."""
    now_ns = store.now_ns()
    found = []
    for job in sorted(store.jobs()):
        view = store.overview(job)
        there = {
            who: life
            for who, life in view.process_lifetimes.items()
            if plain(view.machines[who.node].host) in hosts
        }
        if is_running(view._replace(process_lifetimes=there), now_ns):
            found.append(view.job)
    return found


def _agent_on(host: str, agents: Agents, known: Iterable[str]) -> Link:
    machines = agents.machines(host)
    if len(machines) > 1:
        found = ", ".join(
            f"agent {one.hello.agent[:8]} at {one.address or 'an unknown address'}" for one in machines
        )
        raise CannotBench(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{len(machines)} nodes are called {host} ({found}): give each a host name of its own, and start "
            "its agent again",
        )
    if machines:
        return machines[0]
    connected = ", ".join(agents.hosts()) or "none"
    if host in set(known):
        raise CannotBench(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"the agent of host {host} is not connected (connected are: {connected}); start "
            "`roofline-agent` there",
        )
    raise CannotBench(
        grpc.StatusCode.NOT_FOUND,
        f"this server has no host {host!r}: no agent there was ever connected; now are: {connected}",
    )


class _Benchmark:
    """One benchmark. Results of both agents come in one queue: (who, CommandResult; None: it has gone)."""

    def __init__(self, sender: Link, receiver: Link) -> None:
        self._sender, self._receiver = sender, receiver
        # The ticket of this benchmark: used once, by these two agents alone.
        self._key = secrets.token_hex(16)
        self._ends = {"from_agent": sender.hello.agent, "to_agent": receiver.hello.agent}
        self._results: asyncio.Queue[tuple[str, Any | None]] = asyncio.Queue()
        self._commands: list[tuple[Link, int]] = []
        self._begun: list[Link] = []
        self._receiver_ended = False
        self._translated = ""  # what to know where the receiver's stream does not come from it itself
        self._deadline = asyncio.get_running_loop().time() + MOST_S

    async def events(self, request: Any) -> AsyncIterator[Any]:
        before = self._network_ceilings()
        serving = await self._serve()
        ports = f"ports {serving.tcp_port} and {serving.grpc_port}"
        address = self._address(serving.addresses, request.address)
        at = f"{self._receiver.host} listens at {address}, {ports}"
        yield _progress(f"{at}; {self._sender.host} measures")
        self._command(
            self._sender,
            "measure",
            measure_net=pb.MeasureNet(
                key=self._key,
                host=self._receiver.host,
                addresses=[address],
                tcp_port=serving.tcp_port,
                grpc_port=serving.grpc_port,
                seconds=request.seconds,
                quick=request.quick,
                **self._ends,
            ),
        )
        while not (result := await self._next_of_sender(request.seconds)).done:
            if result.HasField("net"):
                yield models_pb2.BenchNetEvent(result=result.net)
            elif result.progress:
                yield _progress(result.progress)
        await self._wait_for_receiver()
        new = [c for c in self._network_ceilings() if c not in before]
        notes = [line for line in result.reason.split("\n") if line]
        yield models_pb2.BenchNetEvent(summary=models_pb2.NetSummary(ceilings=new, notes=notes))

    def stop(self) -> None:
        """Both agents end what they do for this benchmark; nothing where they have."""
        for link, number in self._commands:
            link.forget(number)
        self._commands = []
        begun, self._begun = self._begun, []
        for link in begun:
            link.command(stop_net=pb.StopNet(key=self._key))

    def _command(self, link: Link, who: str, **kind: Any) -> None:
        self._begun.append(link)
        number = link.command(lambda result: self._results.put_nowait((who, result)), **kind)
        self._commands.append((link, number))

    async def _serve(self) -> Any:
        """Where the receiver listens."""
        ticket = pb.ServeNet(key=self._key, seconds=MOST_S, **self._ends)
        self._command(self._receiver, "serve", serve_net=ticket)
        _, result = await self._next(SERVING_S, self._receiver, "did not listen within")
        if result is not None and result.HasField("serving"):
            return result.serving
        raise self._why_ended(self._receiver, result)

    def _address(self, reported: Collection[str], named: str) -> str:
        """Where the sender is to connect: never where the receiver alone says, which could be anywhere.
        Raises CannotBench."""
        host = self._receiver.host
        if named and named not in reported:
            known = ", ".join(reported) or "none"
            raise CannotBench(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"host {host} has no address {named!r}: its agent reports {known}",
            )
        address = named or seen_from(self._receiver.address, self._sender.address)
        if not address:
            raise self._failed(self._receiver, "has no address that the server knows; name one (--address)")
        if reported and address not in reported and not is_loopback(address):
            self._translated = (
                f". The stream of {host} comes from {address}, which is none of the addresses that its agent "
                f"reports ({', '.join(reported)}): something between translates or forwards it; name one "
                f"that {self._sender.host} reaches (--address {next(iter(reported))})"
            )
        return address

    async def _next_of_sender(self, seconds: float) -> Any:
        """The next result of the sender; after that with `done` there is no more."""
        while True:
            left = min(SILENCE_S + 2 * seconds, self._deadline - asyncio.get_running_loop().time())
            who, result = await self._next(left, self._sender, "sent nothing for")
            if result is None or (result.reason and not result.done):
                raise self._why_ended(self._sender if who == "measure" else self._receiver, result)
            if who == "measure":
                return result
            # The receiver ends when the sender has left it, and may report it first.
            self._receiver_ended = self._receiver_ended or result.done

    async def _wait_for_receiver(self) -> None:
        """Wait a moment until the receiver has ended too: another benchmark may follow at once."""
        while not self._receiver_ended:
            who, result = await self._next(END_S, self._receiver, "did not end within")
            self._receiver_ended = who == "serve" and (result is None or result.done or bool(result.reason))

    async def _next(self, seconds: float, of: Link, why: str) -> tuple[str, Any | None]:
        try:
            return await asyncio.wait_for(self._results.get(), max(0.0, seconds))
        except (TimeoutError, asyncio.TimeoutError):
            raise self._failed(of, f"{why} {seconds:.0f} s") from None

    def _why_ended(self, link: Link, result: Any | None) -> CannotBench:
        if result is not None and result.reason.startswith(BUSY):
            what = f"the agent on {link.host} is {result.reason}; try again when it is done"
            return CannotBench(grpc.StatusCode.FAILED_PRECONDITION, what)
        if result is None:
            return self._failed(link, "has gone in the middle of the benchmark; look at its log")
        if OLD in result.reason:
            what = (
                f"(version {link.hello.version or 'unknown'}) is too old for it; update roofline-agent there"
            )
            return CannotBench(grpc.StatusCode.FAILED_PRECONDITION, f"the agent on {link.host} {what}")
        return self._failed(link, f"failed: {result.reason or 'it gave no reason'}")

    def _failed(self, link: Link, why: str) -> CannotBench:
        hint = self._translated if link is self._sender else ""
        return CannotBench(
            grpc.StatusCode.ABORTED, f"the network benchmark was broken off: {link.host} {why}{hint}"
        )

    def _network_ceilings(self) -> list[Any]:
        """What the sender last reported of this network."""
        of_network = (c for c in self._sender.hello.machine.ceilings if c.kind in ("network", "latency"))
        return [c for c in of_network if c.peer == self._receiver.host]


def _progress(text: str) -> Any:
    return models_pb2.BenchNetEvent(progress=text)
