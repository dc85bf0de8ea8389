"""Serves the page with uvicorn, until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import uvicorn
from roofline.listening import at_all_addresses, is_all, why_no_identity
from roofline.renewal import Renewal

from ..address import DEFAULT_SERVER, check_address, known_servers
from ..errors import ClientError, UsageError
from .app import Settings, create_app
from .entry import asks_for_nothing
from .shield import LOOPBACK

MOST_CONNECTIONS = 512
LOOK_S = 5  # for a certificate that was renewed
GRACE_S = 1  # for what is on its way when the page ends


class CannotListen(ClientError):
    """The text says why."""


class Place(NamedTuple):
    """Where browsers find the page. certificate, key: files for TLS, or None."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_private(self) -> bool:
        """Whether only this machine reaches it."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        return self.host == "localhost"

    @property
    def address(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.name}:{self.port}"

    @property
    def name(self) -> str:
        """The host as browsers write it."""
        host = self.host.strip("[]")
        return f"[{host}]" if ":" in host else host


def settings(server: str, place: Place, code: str) -> Settings:
    """What the page is to know. code: lets a browser in with what this user has; "": each visitor has a token
    of his own. Raises UsageError."""
    check_address(server)
    servers = known_servers()
    server = server or servers.newest or DEFAULT_SERVER
    own = servers.known.get(server)
    is_open = asks_for_nothing(server) if own is None else False
    if not place.is_private:
        if is_open:
            raise UsageError(
                f"--listen {place.name}:{place.port} can be reached by others, who could read jobs, as the "
                f"server at {server} asks for no tokens: run `roofline-server init` there once, which turns "
                "TLS and tokens on, or listen on loopback and forward that port by ssh -L"
            )
        is_open = False  # a server that does not answer may turn out to ask for none
    hosts = (*LOOPBACK, place.name) if place.is_private else None
    return Settings(server, own if code else None, code if own else "", is_open, hosts)


class _Server(uvicorn.Server):
    """One that says when browsers are answered."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second Ctrl-C hurries nothing, as it ends within a second: uvicorn would drop all there and then,
        with a traceback."""
        super().handle_exit(sig, frame)
        self.force_exit = False


def run(found: Settings, place: Place, announce: Callable[[], None], until_stdin_ends: bool = False) -> None:
    """announce: called once it listens. Raises CannotListen."""
    config = uvicorn.Config(
        create_app(found),
        host=place.host.strip("[]"),
        port=place.port,
        log_level="warning",
        access_log=False,  # addresses hold names of jobs
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
        timeout_notify=LOOK_S,
    )
    if place.certificate and place.key:
        config.callback_notify = _renewing(config, Renewal(place.certificate, place.key))
    server = _Server(config, announce)
    # Until it has started it fails for what CannotListen says.
    logging.getLogger("uvicorn.error").addFilter(lambda record: server.started)
    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    try:
        server.run([at_all_addresses(place.port)] if is_all(place.host) else None)
    except (OSError, SystemExit):
        if not server.started:
            raise CannotListen(
                f"cannot listen at {place.host}:{place.port}: the port is in use, or the address is not this "
                "machine's; choose another --listen"
            ) from None
        raise


def check_identity(certificate: Path, key: Path) -> None:
    """Raises CannotListen for files with which nobody can speak TLS."""
    if why := why_no_identity(certificate, key):
        raise CannotListen(why)


def _renewing(config: uvicorn.Config, renewal: Renewal) -> Callable[[], Awaitable[None]]:
    async def look() -> None:
        if config.ssl is not None:
            renewal.look(config.ssl)

    return look


def _end_with_stdin(server: uvicorn.Server) -> None:
    """Whoever started the page has ended. It is read by its descriptor: a thread that waits with the lock of
    sys.stdin has Python abort as it ends."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    server.should_exit = True
