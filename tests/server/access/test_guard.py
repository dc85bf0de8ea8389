"""Who may call what: every method of every service, each role, over real TLS."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import access_pb2, ingest_pb2
from roofline_server.access import authority, guard
from roofline_server.access.audit import MOST_BYTES, Audit
from roofline_server.access.guard import ALLOWED, BENCH_NET, ENROL, TRACE_JOB, refusal
from roofline_server.access.tokens import ROLES, Token, Tokens
from roofline_server.query.service import QueryService

from .guarded import METHODS, Code, ended, endless, guarded, outcome


def token(role: str, joins: bool = False) -> Token:
    return Token("1", role, "", "", 0.0, joins)


def test_table_of_who_may_do_what() -> None:
    may = {method: {role for role in ROLES if refusal(token(role), method) is None} for method in METHODS}
    assert may.pop(ENROL) == set()
    assert may.pop("/roofline.v1.Ingest/Stream") == {"agent"}
    assert may.pop(BENCH_NET) == may.pop(TRACE_JOB) == {"admin"}
    assert may and set(map(frozenset, may.values())) == {frozenset(("reader", "admin"))}
    assert len(METHODS) > 15 and len(ALLOWED) == 4


@pytest.mark.parametrize("role", ROLES)
def test_token_to_join_with_is_good_for_nothing_else(role: str) -> None:
    assert [method for method in METHODS if refusal(token(role, joins=True), method) is None] == [ENROL]


def test_without_a_token_and_beyond_the_table_nothing_is_allowed() -> None:
    assert {refusal(None, method)[0] for method in METHODS} == {Code.UNAUTHENTICATED}  # type: ignore[index]
    assert refusal(token("admin"), "/other.Service/Method") is not None


def test_every_door_is_closed_to_strangers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            _, expired = site.tokens.new("admin", "", days=0)
            for secret in ("", "guess", expired):
                async with site.channel(secret) as channel:
                    for method in METHODS:
                        assert await outcome(channel, method) == Code.UNAUTHENTICATED, method
            refused = [one for one in site.audit() if one["event"] == "refused"]
            assert refused and len(refused) < 6, "a flood is a line a second"
            assert all(one["peer"].startswith("ipv4:127.0.0.1:") for one in refused)

    asyncio.run(scenario())


def test_plain_connections_and_other_authorities_get_nowhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            authority.create(tmp_path / "other")
            _, secret = site.tokens.new("reader", "")
            other = (tmp_path / "other" / "authority.pem").read_bytes()
            async with site.channel(secret, other) as channel:
                assert await outcome(channel, METHODS[-1]) == Code.UNAVAILABLE
            async with grpc.aio.insecure_channel(f"127.0.0.1:{site.port}") as channel:
                assert await outcome(channel, METHODS[-1]) == Code.UNAVAILABLE

    asyncio.run(scenario())


def test_reader_reads_and_joins_by_its_token(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            _, joins = site.tokens.new("reader", "", joins=True, once=True)
            async with site.channel(joins) as channel:
                enrol = channel.unary_unary(
                    ENROL,
                    request_serializer=access_pb2.EnrolRequest.SerializeToString,
                    response_deserializer=access_pb2.EnrolResponse.FromString,
                )
                answer = await enrol(access_pb2.EnrolRequest(name="alice", roles=["reader"]))
                assert answer.role == "reader"
            async with site.channel(answer.token) as channel:
                assert await outcome(channel, "/roofline.v1.Query/ListJobs") == Code.OK
                assert await outcome(channel, BENCH_NET) == Code.PERMISSION_DENIED
                assert await outcome(channel, "/roofline.v1.Ingest/Stream") == Code.PERMISSION_DENIED
            (joined,) = [one for one in site.audit() if one["event"] == "joined"]
            assert (joined["name"], joined["role"]) == ("alice", "reader")

    asyncio.run(scenario())


def test_stream_ends_when_its_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LOOK_S", 0.1)

    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            own, secret = site.tokens.new("agent", "node1")
            _, other = site.tokens.new("agent", "node2")

            async def opened(of: str) -> Any:
                channel = site.channel(of)
                hello = ingest_pb2.Hello(protocol=1, agent=of, boot="b", machine={"host": of[:8]})
                call = channel.stream_stream(
                    "/roofline.v1.Ingest/Stream",
                    request_serializer=ingest_pb2.AgentMessage.SerializeToString,
                    response_deserializer=ingest_pb2.ServerMessage.FromString,
                )()
                await call.write(ingest_pb2.AgentMessage(hello=hello))
                assert (await call.read()).WhichOneof("kind") == "welcome"
                return call

            mine, theirs = await opened(secret), await opened(other)
            Tokens(tmp_path / "access").revoke(own.id)
            assert await ended(mine) != Code.OK
            assert not theirs.done()
            async with site.channel(secret) as channel:
                assert await outcome(channel, "/roofline.v1.Ingest/Stream") == Code.UNAUTHENTICATED

    asyncio.run(scenario())


def test_answers_end_when_the_token_is_revoked_also_beside_one_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_S", 0.1)
    monkeypatch.setattr(QueryService, "Export", endless)

    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            own, secret = site.tokens.new("reader", "alice")
            _, other = site.tokens.new("reader", "bob")

            async def opened(of: str) -> Any:
                channel = site.channel(of)
                call = channel.unary_stream("/roofline.v1.Query/Export", bytes, bytes)(b"")
                assert await call.read()
                return call

            unread, mine, theirs = await opened(secret), await opened(secret), await opened(other)
            Tokens(tmp_path / "access").revoke(own.id)
            assert await ended(mine) == Code.UNAUTHENTICATED
            assert await theirs.read() and not theirs.done()
            newer, secret = site.tokens.new("reader", "alice")
            late = await opened(secret)
            Tokens(tmp_path / "access").revoke(newer.id)
            assert await ended(late) == Code.UNAUTHENTICATED, "what is not read holds up no other"
            assert await ended(unread) != Code.OK

    asyncio.run(scenario())


def test_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded(tmp_path) as site:
            _, secret = site.tokens.new("reader", "")
            for _ in range(2):
                async with site.channel(secret) as channel:
                    assert await outcome(channel, "/roofline.v1.Query/ListJobs") == Code.OK
                authority.renew(tmp_path / "access")

    asyncio.run(scenario())


def test_audit_is_of_bounded_size(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"x" * (MOST_BYTES + 1))
    Audit(tmp_path).add("init")
    assert json.loads((tmp_path / "audit.log").read_text())["event"] == "init"
    assert (tmp_path / "audit.log.1").stat().st_size > MOST_BYTES
    Audit(tmp_path / "missing").add("init")  # harms nobody
