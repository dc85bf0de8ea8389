"""HTTP over real sockets, with well-behaved and other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

import pytest
from roofline_server.health import http
from roofline_server.health.http import BadHttp, HttpServer, Request, Response, bound, parse

from tests.fakes import has_ipv6

GET = b"GET /x?a=b HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer s\r\n\r\n"


async def echo(request: Request) -> Response:
    return Response(HTTPStatus.OK, f"{request.path}\n")


async def asked(port: int, data: bytes, host: str = "127.0.0.1") -> bytes:
    """Everything that the server answers to some bytes, until it closes."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_addresses_are_of_both_families_and_callers_of_ipv4_have_ipv4_names(host: str) -> None:
    callers = []

    async def note(request: Request) -> Response:
        callers.append(request.peer.rpartition(":")[0])
        return Response(HTTPStatus.OK, "")

    async def work() -> None:
        server, at = HttpServer(), bound(host, 0)
        await server.listen(at, note)
        assert (await asked(at.getsockname()[1], GET)).startswith(b"HTTP/1.1 200 OK")
        if has_ipv6():
            assert (await asked(at.getsockname()[1], GET, "::1")).startswith(b"HTTP/1.1 200 OK")
        server.close()

    asyncio.run(work())
    assert callers[0] == "ipv4:127.0.0.1"
    assert callers[1:] == (["ipv6:[::1]"] if has_ipv6() else [])


def run(scenario: Callable[[int], Awaitable[None]]) -> None:
    async def work() -> None:
        server, at = HttpServer(), bound("127.0.0.1", 0)
        await server.listen(at, echo)
        try:
            await scenario(at.getsockname()[1])
        finally:
            server.close()

    asyncio.run(work())


def test_request_is_read() -> None:
    assert parse(GET) == Request("GET", "/x", {"host": "h", "authorization": "Bearer s"})


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET x HTTP/1.1\r\n\r\n", 400),
        (b"GET / SSH/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: 1\r\n\r\n", 400),
        (b"\xff\xfe\x00 / HTTP/1.1\r\n\r\n", 405),
        (b"POST /x HTTP/1.1\r\n\r\n", 405),
    ],
)
def test_what_is_no_request_is_refused(head: bytes, status: int) -> None:
    with pytest.raises(BadHttp) as error:
        parse(head)
    assert error.value.status == status


def test_answers_and_closes() -> None:
    async def scenario(port: int) -> None:
        head, _, body = (await asked(port, GET)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"Content-Length: 3" in head
        assert body == b"/x\n"
        head, _, body = (await asked(port, GET.replace(b"GET", b"HEAD"))).partition(b"\r\n\r\n")
        assert b"Content-Length: 3" in head and body == b""
        assert (await asked(port, b"PUT / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")

    run(scenario)


def test_large_headers_are_refused() -> None:
    async def scenario(port: int) -> None:
        many = b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4000
        assert (await asked(port, many + b"\r\n"))[:12] in (b"HTTP/1.1 431", b"")
        assert (await asked(port, GET)).endswith(b"/x\n")

    run(scenario)


def test_slow_clients_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_S", 0.05)

    async def scenario(port: int) -> None:
        assert (await asked(port, b"GET / HT")).startswith(b"HTTP/1.1 408 ")
        assert (await asked(port, b"")).startswith(b"HTTP/1.1 408 ")

    run(scenario)


def test_answer_that_takes_too_long_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_S", 0.05)

    async def scenario() -> None:
        async def never(_: Request) -> Response:
            await asyncio.Event().wait()
            raise AssertionError

        server, at = HttpServer(), bound("127.0.0.1", 0)
        await server.listen(at, never)
        assert (await asked(at.getsockname()[1], GET)).startswith(b"HTTP/1.1 408 ")
        server.close()

    asyncio.run(scenario())


def test_only_some_are_served_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 3)

    async def scenario(port: int) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await asked(port, GET) == b""
        for _, writer in idle:
            writer.close()
        while not await asked(port, GET):  # until those that have gone are noticed
            await asyncio.sleep(0.01)

    run(scenario)


def test_client_that_goes_away_harms_nobody() -> None:
    async def scenario(port: int) -> None:
        for part in (b"", b"GET / HT", GET):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(part)
            writer.transport.abort()
        assert (await asked(port, GET)).endswith(b"/x\n")

    run(scenario)


def test_address_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", taken.getsockname()[1])
