"""Health of a real store and committer: over gRPC, and over HTTP with tokens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import grpc
import pytest
import sqlalchemy.exc
from roofline.joining import SERVER_NAME
from roofline.notify import ServiceManager
from roofline.v1 import health_pb2 as pb
from roofline.v1 import health_pb2_grpc
from roofline_server.access import authority
from roofline_server.access.audit import Audit
from roofline_server.access.credentials import credentials
from roofline_server.access.guard import Guard
from roofline_server.access.tokens import Tokens
from roofline_server.counts import SealingCounts
from roofline_server.grpc_server import grpc_server
from roofline_server.health import health as health_module
from roofline_server.health import monitor, service
from roofline_server.health.health import Health
from roofline_server.health.http import Request
from roofline_server.health.jobs import Figures
from roofline_server.health.routes import ReaderCheck, routes
from roofline_server.ingest import committer as ingest
from roofline_server.ingest.committer import Committer
from roofline_server.records import Limit
from roofline_server.store.store import Store

from ..builders import S, open_store, rank, training
from ..services import Agent, stopped

Status = pb.HealthCheckResponse
SENT = training([rank(index=0)], batches=5, batch_ns=S, sample_ns=S // 2, stepping=(0,))


class Site:
    """A running server with its health."""

    def __init__(self, root: Path, store: Store, committer: Committer, health: Health, port: int) -> None:
        self.root, self.store, self.committer, self.health, self.port = root, store, committer, health, port

    async def until(self, condition: Callable[[], Any]) -> Any:
        """The first true value."""

        async def wait() -> Any:
            while not (found := condition()):
                await asyncio.sleep(0.005)
            return found

        return await asyncio.wait_for(wait(), 20)


@contextlib.asynccontextmanager
async def site(root: Path, guarded: bool = False) -> AsyncIterator[Site]:
    folder = root / "access"
    guard = None
    if guarded:
        authority.create(folder)
        guard = Guard(Tokens(folder), Audit(folder))
    store = open_store(root)
    committer = Committer(store)
    health = Health(store, committer, SealingCounts(), root)
    server = grpc_server(store, committer, guard, health)
    secured = credentials(folder) if guarded else None
    at = "127.0.0.1:0"
    port = server.add_secure_port(at, secured) if secured else server.add_insecure_port(at)
    await server.start()
    work = asyncio.create_task(committer.run())
    health.watch((work,))
    health.serving = True
    async with stopped(server, store, work):
        try:
            yield Site(root, store, committer, health, port)
        finally:
            health.stopping = True


def run(scenario: Callable[[Site], Awaitable[None]], root: Path, guarded: bool = False) -> None:
    async def work() -> None:
        async with site(root, guarded) as made:
            await scenario(made)

    asyncio.run(work())


async def check(channel: grpc.aio.Channel, name: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(pb.HealthCheckRequest(service=name), timeout=20)
    return int(answer.status)


# -- gRPC -------------------------------------------------------------------------------------------


def test_check_follows_the_inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "DISK_RETRY_S", 0.01)

    async def scenario(here: Site) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel, Agent(channel) as agent:
            for name in ("", "roofline.v1.Ingest", "roofline.v1.Query"):
                assert await check(channel, name) == Status.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await check(channel, "other.Service")
            assert error.value.code() == grpc.StatusCode.NOT_FOUND
            real = here.store.commit

            def full(_: Any) -> None:
                said = sqlite3.OperationalError("database or disk is full")
                raise sqlalchemy.exc.OperationalError("INSERT INTO rank", None, said)

            monkeypatch.setattr(here.store, "commit", full)
            await agent.send(SENT[0])
            await here.until(lambda: here.committer.failure)
            assert await check(channel) == Status.NOT_SERVING
            assert "(database or disk is full)" in here.health.reasons()[0]
            assert here.health.makes_progress(60)  # a restart would not help
            monkeypatch.setattr(here.store, "commit", real)
            await agent.until(lambda: agent.acked == 1)
            assert await check(channel) == Status.SERVING

    run(scenario, tmp_path)


def test_check_follows_the_sealing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "MAX_UNSEALED_BYTES", 0)
    monkeypatch.setattr(ingest, "ROOM_LOOK_S", 0.001)

    async def scenario(here: Site) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel, Agent(channel) as agent:
            await agent.send(*SENT[:2])
            await here.until(lambda: here.committer.is_full)
            assert await check(channel) == Status.NOT_SERVING
            await asyncio.to_thread(here.store.seal)
            await agent.until(lambda: agent.acked == 2)
            assert await check(channel) == Status.SERVING

    run(scenario, tmp_path)


def test_watch_says_each_change_and_ends_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_S", 0.01)

    async def scenario(here: Site) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            watching, unknown = (
                stub.Watch(pb.HealthCheckRequest()),
                stub.Watch(pb.HealthCheckRequest(service="x")),
            )
            assert (await watching.read()).status == Status.SERVING
            assert (await unknown.read()).status == Status.SERVICE_UNKNOWN
            here.health.stopping = True
            assert (await watching.read()).status == Status.NOT_SERVING
            assert await watching.read() is grpc.aio.EOF

    run(scenario, tmp_path)


def test_only_some_watch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_WATCHERS", 1)
    monkeypatch.setattr(service, "LOOK_S", 0.01)

    async def scenario(here: Site) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            first = stub.Watch(pb.HealthCheckRequest())
            await first.read()
            second = stub.Watch(pb.HealthCheckRequest())
            assert await second.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            first.cancel()

            async def free() -> bool:
                other = stub.Watch(pb.HealthCheckRequest())
                with contextlib.suppress(grpc.RpcError):
                    return (await other.read()) is not grpc.aio.EOF
                return False

            while not await free():
                await asyncio.sleep(0.01)

    run(scenario, tmp_path)


def test_everybody_may_ask_a_server_with_tokens(tmp_path: Path) -> None:
    async def scenario(here: Site) -> None:
        known = (tmp_path / "access" / "authority.pem").read_bytes()
        options = (("grpc.ssl_target_name_override", SERVER_NAME),)
        secured = grpc.ssl_channel_credentials(known)
        async with grpc.aio.secure_channel(f"127.0.0.1:{here.port}", secured, options=options) as channel:
            assert await check(channel) == Status.SERVING
            watching = health_pb2_grpc.HealthStub(channel).Watch(pb.HealthCheckRequest())
            assert (await watching.read()).status == Status.SERVING
            assert not (tmp_path / "access" / "audit.log").exists()
            watching.cancel()

    run(scenario, tmp_path, guarded=True)


# -- what is counted --------------------------------------------------------------------------------


def test_condition_counts_what_agents_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "KEPT_S", 0.0)

    async def scenario(here: Site) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel:
            async with Agent(channel) as agent, Agent(channel, "agent-b", boot="b2") as other:
                await agent.send(*SENT)
                await agent.until(lambda: agent.acked == len(SENT))
                await agent.send(SENT[0])
                await here.until(lambda: here.committer.counts.doubled)
                bad = type(SENT[0])()
                bad.CopyFrom(SENT[-1])
                bad.sequence, bad.end_ns = 99, 0
                await other.send(bad)
                await other.until(lambda: other.all("rejection"))
                here.health.beat(0.5)
                while (found := await here.health.condition()).unmeasured_clocks:
                    await asyncio.sleep(0.01)
                assert (found.agents, found.streams) == (2, 2)
                assert (found.batches, found.doubled, found.refused) == (len(SENT), 1, 1)
                assert found.rows > len(SENT) and 0 < found.bytes < here.store.unsealed_bytes
                assert sum(found.commit.counts) >= 1 and found.commit.total > 0
                assert found.loop_lag_s == 0.5
                assert found.clock_error_s is not None and 0 < found.clock_error_s < 1
                assert found.memory_bytes and found.open_files and found.cpu_s > 0
            await here.until(lambda: not here.committer.counts.streams)
            assert here.health.agents == 0

    run(scenario, tmp_path)


def test_worker_that_ends_is_no_progress(tmp_path: Path) -> None:
    async def scenario(here: Site) -> None:
        async def broken() -> None:
            raise RuntimeError

        task = asyncio.create_task(broken())
        await asyncio.gather(task, return_exceptions=True)
        assert here.health.makes_progress(60)
        here.health.watch((task,))
        assert here.health.reasons() and not here.health.makes_progress(60)

    run(scenario, tmp_path)


# -- signs of life ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hangs", [False, True])
def test_sign_of_life_comes_only_while_commits_make_progress(tmp_path: Path, hangs: bool) -> None:
    """As a disk that no longer answers."""

    async def scenario(here: Site) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(str(tmp_path / "notify"))
            listening.setblocking(False)
            environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "40000"}
            begun, free = threading.Event(), threading.Event()

            def stuck(_: Any) -> None:
                begun.set()
                free.wait(60)

            here.store.commit = stuck  # type: ignore[method-assign]
            async with (
                grpc.aio.insecure_channel(f"127.0.0.1:{here.port}") as channel,
                Agent(channel) as agent,
            ):
                if hangs:
                    await agent.send(SENT[0])
                    since = await here.until(lambda: here.committer.committing_since)
                    await here.until(lambda: time.monotonic() - since > 0.02)
                beating = asyncio.create_task(monitor._beat(here.health, ServiceManager(environ)))
                await here.until(lambda: len(here.health._beats) > 10)
                free.set()
                beating.cancel()
            told = set()
            with contextlib.suppress(BlockingIOError):
                while True:
                    told.add(listening.recv(4096).decode().partition("=")[0])
            assert told == ({"STATUS"} if hangs else {"STATUS", "WATCHDOG"})

    run(scenario, tmp_path)


# -- HTTP -------------------------------------------------------------------------------------------


def test_numbers_need_a_readers_token(tmp_path: Path) -> None:
    async def scenario(here: Site) -> None:
        folder = tmp_path / "access"
        tokens, audit = Tokens(folder), Audit(folder)
        answer = routes(here.health, ReaderCheck(tokens, audit))

        async def status(path: str, given: str = "") -> HTTPStatus:
            headers = {"authorization": given} if given else {}
            return (await answer(Request("GET", path, headers))).status

        secrets = {role: tokens.new(role, "")[1] for role in ("agent", "reader", "admin")}
        _, joins = tokens.new("reader", "", joins=True)
        gone, revoked = tokens.new("reader", "")
        tokens.revoke(gone.id)
        for path in ("/metrics", "/status"):
            for given in ("", "Bearer guess", f"Basic {secrets['reader']}", f"Bearer {revoked}", "Bearer "):
                assert await status(path, given) == HTTPStatus.UNAUTHORIZED, given
            assert await status(path, f"Bearer {secrets['agent']}") == HTTPStatus.FORBIDDEN
            assert await status(path, f"Bearer {joins}") == HTTPStatus.FORBIDDEN
            for role in ("reader", "admin"):
                assert await status(path, f"Bearer {secrets[role]}") == HTTPStatus.OK
        assert audit.refusals == 14
        assert await status("/healthz") == await status("/readyz") == HTTPStatus.OK
        assert await status("/") == HTTPStatus.NOT_FOUND
        (folder / "tokens.json").write_text("{")
        assert await status("/metrics", f"Bearer {secrets['reader']}") == HTTPStatus.SERVICE_UNAVAILABLE

    run(scenario, tmp_path, guarded=True)


def test_reader_with_a_limit_gets_no_numbers_of_jobs(tmp_path: Path) -> None:
    async def scenario(here: Site) -> None:
        tokens = Tokens(tmp_path / "access")
        answer = routes(here.health, ReaderCheck(tokens, Audit(tmp_path / "access")))
        here.health.jobs.asked = lambda: Figures(omitted=1)  # type: ignore[method-assign]

        async def numbers(path: str, limit: Limit | None) -> str:
            _, secret = tokens.new("reader", "", limit=limit)
            return str((await answer(Request("GET", path, {"authorization": f"Bearer {secret}"}))).body)

        assert "roofline_jobs_running 1" in await numbers("/metrics", None)
        for limit in (Limit(user="alice"), Limit(jobs="lab-*")):
            found = await numbers("/metrics", limit)
            assert "roofline_job" not in found and "\nroofline_ready 1\n" in found
            assert '"job' not in await numbers("/status", limit)

    run(scenario, tmp_path, guarded=True)


def test_ready_says_why_not(tmp_path: Path) -> None:
    async def scenario(here: Site) -> None:
        answer = routes(here.health)
        assert (await answer(Request("GET", "/readyz", {}))).body == "ok\n"
        before = await answer(Request("GET", "/metrics", {}))
        here.health.stopping = True
        found = await answer(Request("GET", "/readyz", {}))
        assert (found.status, found.body) == (HTTPStatus.SERVICE_UNAVAILABLE, "it is stopping\n")
        assert (await answer(Request("GET", "/healthz", {}))).status == HTTPStatus.OK
        after = await answer(Request("GET", "/metrics", {}))
        assert "\nroofline_ready 1\n" in before.body and "\nroofline_ready 0\n" in after.body

    run(scenario, tmp_path)
