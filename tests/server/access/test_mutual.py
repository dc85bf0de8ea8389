"""Certificates in place of tokens: every method of every service, over real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from roofline import joining
from roofline.joining import SERVER_NAME, Access, CannotJoin, JoinToken
from roofline.v1 import ingest_pb2, query_pb2
from roofline_server.access import authority, guard
from roofline_server.access.audit import Audit
from roofline_server.access.certificates import Certificates
from roofline_server.access.credentials import credentials
from roofline_server.access.guard import BENCH_NET, ENROL, TRACE_JOB, Guard
from roofline_server.access.tokens import Token, Tokens
from roofline_server.grpc_server import grpc_server
from roofline_server.ingest.committer import Committer
from roofline_server.query.service import QueryService
from roofline_server.records import Limit

from ..builders import open_store
from ..services import stopped
from .guarded import METHODS, Code, ended, endless, outcome
from .owners import HIS, fill

LIST_JOBS, STREAM = "/roofline.v1.Query/ListJobs", "/roofline.v1.Ingest/Stream"
LONG_AGO = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=authority.MEMBER_DAYS + 1)


class Mutual:
    """A server that asks for certificates, with its port for those who have none yet."""

    def __init__(self, root: Path, port: int, tokens: Tokens) -> None:
        self.folder, self.port, self.tokens = root / "access", port, tokens
        self.trusted = (self.folder / "authority.pem").read_bytes()

    def member(self, role: str, limit: Limit | None = None) -> tuple[Token, authority.Certified]:
        token, secret = self.tokens.new(role, "alice", limit=limit, certified=True)
        assert secret == ""
        return token, authority.certify(self.folder, token)

    def channel(self, own: Any = None, port: int = 0, secret: str = "") -> grpc.aio.Channel:
        """own: a key and a certificate, PEM."""
        shown = [part.encode() for part in own[:2]] if own else []
        secured: Any = grpc.ssl_channel_credentials(self.trusted, *shown)
        if secret:
            secured = grpc.composite_channel_credentials(secured, grpc.access_token_call_credentials(secret))
        options = (("grpc.ssl_target_name_override", SERVER_NAME),)
        return grpc.aio.secure_channel(f"127.0.0.1:{port or self.port}", secured, options=options)

    async def allowed(self, own: Any = None, port: int = 0, secret: str = "") -> set[str]:
        """The methods that are not refused for who asks."""
        refused = (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNAVAILABLE)
        async with self.channel(own, port, secret) as channel:
            return {method for method in METHODS if await outcome(channel, method) not in refused}


@contextlib.asynccontextmanager
async def mutual(root: Path) -> AsyncIterator[Mutual]:
    folder = root / "access"
    authority.create(folder)
    tokens = Tokens(folder)
    watching = Guard(tokens, Audit(folder), Certificates(folder, tokens))
    store = open_store(root)
    committer = Committer(store)
    while True:
        server = grpc_server(store, committer, watching)
        port = server.add_secure_port("127.0.0.1:0", credentials(folder, mutual=True))
        with contextlib.suppress(RuntimeError):
            server.add_secure_port(f"127.0.0.1:{joining.join_port(port)}", credentials(folder))
            break
    await server.start()
    tasks = [asyncio.create_task(committer.run()), asyncio.create_task(watching.watch())]
    async with stopped(server, store, *tasks):
        yield Mutual(root, port, tokens)


def run(root: Path, scenario: Any) -> None:
    async def work() -> None:
        async with mutual(root) as site:
            await scenario(site)

    asyncio.run(work())


def test_without_a_certificate_there_is_nothing_but_joining(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        join = joining.join_port(site.port)
        _, plain = site.tokens.new("admin", "of before")
        _, joins = site.tokens.new("reader", "", joins=True)
        token, _ = site.member("admin")
        for secret in ("", plain, joins, token.digest, f"certificate:{token.id}", token.id):
            assert await site.allowed(secret=secret) == set()
            assert await site.allowed(port=join, secret=secret) == ({ENROL} if secret == joins else set())

    run(tmp_path, scenario)


def test_role_is_that_of_the_certificate(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        questions = {method for method in METHODS if method.startswith("/roofline.v1.Query/")}
        may = {role: await site.allowed(site.member(role)[1]) for role in ("agent", "reader", "admin")}
        assert may == {
            "agent": {STREAM, ENROL},
            "reader": {ENROL, *questions} - {BENCH_NET, TRACE_JOB},
            "admin": {ENROL, *questions},
        }

    run(tmp_path, scenario)


def test_certificate_has_role_name_and_limit_and_is_no_servers(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        token, made = site.member("reader", Limit("bob"))
        found = x509.load_pem_x509_certificate(made.certificate.encode())
        text = found.subject.rfc4514_string()
        assert all(part in text for part in ("CN=alice", "OU=reader", "UID=bob", token.id))
        usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [x509.ExtendedKeyUsageOID.CLIENT_AUTH]

    run(tmp_path, scenario)


def test_certificates_of_others_old_ones_and_the_servers_own_are_refused(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        token, _ = site.member("admin")
        authority.create(tmp_path / "other")
        others = authority.certify(tmp_path / "other", token)
        old = authority.certify(site.folder, token, LONG_AGO)
        servers = [(site.folder / name).read_text() for name in ("server.key", "server.pem")]
        stranger = authority.certify(site.folder, replace(token, id="0"))  # as of a list that was lost
        for own in (others, old, servers, stranger):
            assert await site.allowed(own) == set()

    run(tmp_path, scenario)


def test_role_in_the_certificate_must_be_that_of_the_list(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        token, _ = site.member("reader")
        other = authority.certify(site.folder, replace(token, role="admin"))
        assert await site.allowed(other) == set()

    run(tmp_path, scenario)


def test_reader_with_a_certificate_is_limited_too(tmp_path: Path) -> None:
    fill(tmp_path)

    async def scenario(site: Mutual) -> None:
        _, own = site.member("reader", Limit("alice"))
        async with site.channel(own) as channel:
            ask = channel.unary_unary(LIST_JOBS, None, query_pb2.ListJobsResponse.FromString)
            jobs = {job.job for job in (await ask(b"")).jobs}
        assert jobs == {"hers", "shared"} and HIS not in jobs

    run(tmp_path, scenario)


def test_revoking_ends_its_stream_and_lets_nobody_in_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_S", 0.1)

    async def scenario(site: Mutual) -> None:
        token, own = site.member("agent")
        async with site.channel(own) as channel:
            call = channel.stream_stream(
                STREAM,
                ingest_pb2.AgentMessage.SerializeToString,
                ingest_pb2.ServerMessage.FromString,
            )()
            hello = ingest_pb2.Hello(protocol=1, agent="a", boot="b", machine={"host": "h"})
            await call.write(ingest_pb2.AgentMessage(hello=hello))
            assert (await call.read()).WhichOneof("kind") == "welcome"
            Tokens(site.folder).revoke(token.id)
            assert await ended(call) != Code.OK
        assert await site.allowed(own) == set()

    run(tmp_path, scenario)


def test_revoking_ends_the_answers_that_its_holder_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LOOK_S", 0.1)
    monkeypatch.setattr(QueryService, "Export", endless)

    async def scenario(site: Mutual) -> None:
        token, own = site.member("reader")
        async with site.channel(own) as channel:
            call = channel.unary_stream("/roofline.v1.Query/Export", bytes, bytes)(b"")
            assert await call.read()
            Tokens(site.folder).revoke(token.id)
            assert await ended(call) == Code.UNAUTHENTICATED

    run(tmp_path, scenario)


def test_joining_and_exchanging_a_certificate_that_ends_soon(tmp_path: Path) -> None:
    async def scenario(site: Mutual) -> None:
        _, secret = site.tokens.new("reader", "", joins=True, limit=Limit("alice"))
        token = JoinToken(authority.fingerprint(site.folder), secret, mutual=True)
        address = f"127.0.0.1:{site.port}"
        join = (joining.enrol, grpc, address, joining.parse_token(str(token)), "alice@x", ["reader"])
        access, role = await asyncio.to_thread(*join)
        assert role == "reader" and not access.token and not access.is_due(time.time())
        assert access.is_due(access.ends - 86400) and LIST_JOBS in await site.allowed(pair(access))
        newer = await asyncio.to_thread(joining.renewed, grpc, address, access)
        assert newer.certificate != access.certificate and newer.key != access.key
        (known,) = [one for one in site.tokens.all() if not one.joins]
        assert (known.name, known.limit, known.expires) == ("alice@x", Limit("alice"), newer.ends)
        for one in (access, newer):  # Enrol is among what is called: it renews once more
            assert LIST_JOBS in await site.allowed(pair(one))
        site.tokens.revoke(known.id)
        with pytest.raises(CannotJoin, match="revoked"):
            await asyncio.to_thread(joining.renewed, grpc, address, newer)

    run(tmp_path, scenario)


def pair(access: Access) -> tuple[str, str]:
    return access.key, access.certificate
