"""TLS of the HTTP port."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from pathlib import Path

import pytest
from roofline_server.access import authority
from roofline_server.health import monitor
from roofline_server.health.http import HttpServer, Request, Response, bound


async def hello(_: Request) -> Response:
    return Response(HTTPStatus.OK, "hello")


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
