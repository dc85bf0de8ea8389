"""A small HTTP/1.1 server: GET and HEAD of a few short texts, one request a connection.

A client that is slow or sends much is turned away, and only some are served at a time: the server shares a
process with the intake of batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from roofline.listening import at_all_addresses, is_all

MOST_HEADER_BYTES = 8192
MOST_CONNECTIONS = 32
REQUEST_S, ANSWER_S = 5.0, 10.0
PLAIN = "text/plain; charset=utf-8"
_BLANK_LINE = b"\r\n\r\n"


class Request(NamedTuple):
    """headers: by their names in lower case."""

    method: str
    path: str  # without the query
    headers: Mapping[str, str]
    peer: str = ""  # its address, as gRPC writes it
    certificate: bytes = b""  # PEM, of who asks, which TLS has verified; empty: none was shown


class Response(NamedTuple):
    status: HTTPStatus
    body: str
    content_type: str = PLAIN
    headers: Mapping[str, str] = {}


Answer = Callable[[Request], Awaitable[Response]]


class BadHttp(Exception):
    """What came is no request; the status says why."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpServer:
    """Answers at any number of sockets."""

    def __init__(self) -> None:
        self._servers: list[asyncio.AbstractServer] = []
        self._open = 0

    async def listen(self, at: socket.socket, answer: Answer, secured: ssl.SSLContext | None = None) -> None:
        """Serve at a bound socket, which is ours from now on."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, answer)

        timeout = REQUEST_S if secured else None
        server = await asyncio.start_server(
            serve, sock=at, limit=MOST_HEADER_BYTES, ssl=secured, ssl_handshake_timeout=timeout
        )
        self._servers.append(server)

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
    ) -> None:
        self._open += 1
        try:
            if self._open > MOST_CONNECTIONS:
                return
            response, method = await answered(reader, answer, _peer(writer), _certificate(writer))
            if response is not None:
                writer.write(_bytes(response, method))
                writer.close()
                await asyncio.wait_for(writer.wait_closed(), ANSWER_S)
        except (OSError, asyncio.TimeoutError):
            pass  # it went away, or does not read
        finally:
            self._open -= 1
            writer.transport.abort()


def _peer(writer: asyncio.StreamWriter) -> str:
    if not (name := writer.get_extra_info("peername")):
        return ""  # of this machine, at a Unix socket; or it went away
    host, port, *_ = name
    host = host.removeprefix("::ffff:")  # of IPv4, at a socket of both families
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


def _certificate(writer: asyncio.StreamWriter) -> bytes:
    secured = writer.get_extra_info("ssl_object")
    shown = secured.getpeercert(binary_form=True) if secured else None
    return ssl.DER_cert_to_PEM_cert(shown).encode() if shown else b""


async def answered(
    reader: asyncio.StreamReader, answer: Answer, peer: str, certificate: bytes
) -> tuple[Response | None, str]:
    """The response, and to which method; None where nobody waits for one."""
    try:
        request = parse(await asyncio.wait_for(reader.readuntil(_BLANK_LINE), REQUEST_S))
        request = request._replace(peer=peer, certificate=certificate)
        return await asyncio.wait_for(answer(request), ANSWER_S), request.method
    except asyncio.LimitOverrunError:
        return _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), "GET"
    except BadHttp as error:
        return _plain(error.status), "GET"
    except asyncio.IncompleteReadError:
        return None, "GET"
    except asyncio.TimeoutError:
        return _plain(HTTPStatus.REQUEST_TIMEOUT), "GET"


def parse(head: bytes) -> Request:
    """The request that these bytes are, up to the blank line. Raises BadHttp."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise BadHttp(HTTPStatus.BAD_REQUEST)
    if words[0] not in ("GET", "HEAD"):
        raise BadHttp(HTTPStatus.METHOD_NOT_ALLOWED)
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadHttp(HTTPStatus.BAD_REQUEST)
        headers[name.lower()] = value.strip()
    return Request(words[0], words[1].partition("?")[0], headers)


def _plain(status: HTTPStatus) -> Response:
    headers = {"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
    return Response(status, f"{status.phrase}\n", headers=headers)


def _bytes(response: Response, method: str) -> bytes:
    body = response.body.encode()
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines).encode("latin-1") + _BLANK_LINE
    return head if method == "HEAD" else head + body


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError."""
    if is_all(host):
        return at_all_addresses(port, MOST_CONNECTIONS)
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
    with contextlib.ExitStack() as undone:
        undone.callback(made.close)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(MOST_CONNECTIONS)
        undone.pop_all()
    return made
