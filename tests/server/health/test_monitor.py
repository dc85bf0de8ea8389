"""TLS of the HTTP port."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from types import SimpleNamespace

import pytest
from roofline_server.access import MUTUAL, authority
from roofline_server.access.audit import Audit
from roofline_server.access.certificates import Certificates
from roofline_server.access.tokens import Tokens
from roofline_server.health import monitor
from roofline_server.health.http import HttpServer, Request, Response, bound
from roofline_server.health.routes import ReaderCheck


async def hello(_: Request) -> Response:
    return Response(HTTPStatus.OK, "hello")


@pytest.mark.parametrize(
    ("agents", "rate", "line"),
    [(0, None, "0 agents"), (1, 2.5, "1 agent, 2.5 batches/s"), (2, None, "2 agents")],
)
def test_status_counts_agents(agents: int, rate: float | None, line: str) -> None:
    health = SimpleNamespace(reasons=lambda: (), agents=agents, batches_per_s=rate)
    assert monitor.status_line(health) == line  # type: ignore[arg-type]


def test_new_certificate_is_shown_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "BEAT_S", 0.0001)
    authority.create(tmp_path)

    async def scenario() -> None:
        server, at, context = HttpServer(), bound("127.0.0.1", 0), monitor._tls(tmp_path)
        await server.listen(at, hello, context)
        renewing = asyncio.create_task(monitor._renew(context, tmp_path))

        async def shown() -> str:
            return await asyncio.to_thread(ssl.get_server_certificate, at.getsockname(), timeout=20)

        before = await shown()
        assert await shown() == before
        authority.renew(tmp_path, ())
        while await shown() == before:
            await asyncio.sleep(0.01)
        renewing.cancel()
        server.close()

    asyncio.run(scenario())


# -- certificates in place of tokens -------------------------------------------------------------------


class Scraper:
    """Asks over TLS; own: a certificate of its own."""

    def __init__(self, folder: Path, port: int, own: authority.Certified | None = None) -> None:
        # The server's name is not its address: it is in the certificate all the same.
        self._context = ssl.create_default_context(cafile=folder / "authority.pem")
        self._context.check_hostname = False
        self._port = port
        if own is not None:
            file = folder / "scraper.pem"
            file.write_text(own.key + own.certificate)
            self._context.load_cert_chain(file)

    def status(self, path: str = "/metrics", token: str = "") -> int:
        connection = HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status
        finally:
            connection.close()


def test_certificates_open_numbers_as_they_open_grpc(tmp_path: Path) -> None:
    folder, other = tmp_path / "access", tmp_path / "other"
    for one in (folder, other):
        authority.create(one)
    (folder / MUTUAL).touch()
    tokens = Tokens(folder)
    check = ReaderCheck(tokens, Audit(folder), Certificates(folder, tokens))
    of_before = tokens.new("reader", "of before")[1]

    async def answer(request: Request) -> Response:
        entered = None if request.path == "/healthz" else await check.reader(request)
        return entered if isinstance(entered, Response) else Response(HTTPStatus.OK, "hello")

    async def scenario() -> None:
        server, at = HttpServer(), bound("127.0.0.1", 0)
        await server.listen(at, answer, monitor._tls(folder))
        port = at.getsockname()[1]

        async def status(role: str = "", revoked: bool = False, of: Path = folder, **asked: str) -> int:
            own = None
            if role:
                token, _ = tokens.new(role, "alice", certified=True)
                own = authority.certify(of, token)
                if revoked:
                    tokens.revoke(token.id)
            scraper = Scraper(folder, port, own)
            return await asyncio.to_thread(lambda: scraper.status(**asked))

        assert [await status("reader"), await status("admin")] == [HTTPStatus.OK] * 2
        assert await status("agent") == HTTPStatus.FORBIDDEN
        assert await status("reader", revoked=True) == HTTPStatus.FORBIDDEN
        assert await status() == await status(token=of_before) == HTTPStatus.FORBIDDEN
        assert await status(path="/healthz") == HTTPStatus.OK
        with pytest.raises(OSError):  # TLS takes no certificate of another authority
            await status("reader", of=other)
        server.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
