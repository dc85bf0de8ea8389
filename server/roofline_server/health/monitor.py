"""Shows a server's health for as long as it runs: HTTP, the files in its data directory, and systemd."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from roofline.notify import ServiceManager
from roofline.renewal import Renewal

from .. import __version__, access
from ..errors import Unavailable
from ..sentences.wording import many
from . import running
from .health import Health
from .http import HttpServer, bound
from .routes import ReaderCheck, routes

log = logging.getLogger(__name__)

BEAT_S = 1.0
OFF = "off"
DEFAULT_HTTP = "127.0.0.1:7643"
MUTUAL_HTTP = "127.0.0.1:7644"  # where the other port is for joining


class HttpPlace(NamedTuple):
    """Where HTTP is served. explicit: somebody asked for it. private: nobody but this machine reaches it."""

    listen: str
    explicit: bool
    private: bool


@contextlib.asynccontextmanager
async def monitored(
    health: Health,
    data: Path,
    place: HttpPlace | None,
    check: ReaderCheck | None,
    manager: ServiceManager,
) -> AsyncIterator[None]:
    """Show it while the context is open.

    Raises Unavailable where an address that was asked for cannot be had. place: None for no HTTP. check:
    whoever comes from elsewhere must pass it.
    """
    server = HttpServer()
    tasks = []
    try:
        if place is not None:
            tasks += await _serve_http(server, health, data, place, check)
        await _show_locally(server, health, data)
        tasks.append(asyncio.create_task(_beat(health, manager)))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()
        running.remove(data)


async def _serve_http(
    server: HttpServer,
    health: Health,
    data: Path,
    place: HttpPlace,
    check: ReaderCheck | None,
) -> list[asyncio.Task[None]]:
    host, _, port = place.listen.rpartition(":")
    try:
        at = bound(host, int(port))
    except OSError as error:
        why = error.strerror or str(error)
        if place.explicit:
            raise Unavailable(
                f"cannot serve HTTP at {place.listen}: {why}; stop what holds it, or choose another --http, "
                "or --http off"
            ) from None
        log.info(
            "no HTTP (health, metrics): %s is not available: %s; --http chooses another", place.listen, why
        )
        return []
    secured = None
    if place.private:
        check = None
    if check is not None:
        secured = _tls(data / access.FOLDER)
    await server.listen(at, routes(health, check), secured)
    scheme = "https" if secured else "http"
    health.http = f"{scheme}://{host}:{at.getsockname()[1]}"
    log.info("health and metrics: %s/metrics", health.http)
    return [asyncio.create_task(_renew(secured, data / access.FOLDER))] if secured else []


async def _show_locally(server: HttpServer, health: Health, data: Path) -> None:
    """For `roofline-server status`. A full disk or a file system without sockets costs that alone."""
    try:
        await server.listen(running.socket_of(data), routes(health))
        running.write(
            data, running.Running(os.getpid(), health.address, health.http, health.started, __version__)
        )
    except OSError as error:
        log.warning("`roofline-server status` will know little: cannot write %s: %s", data, error.strerror)


async def _beat(health: Health, manager: ServiceManager) -> None:
    """Note each second that the event loop comes by, and tell systemd."""
    wait_s = min(BEAT_S, manager.watchdog_s / 8) if manager.watchdog_s else BEAT_S
    due = time.monotonic()
    while True:
        health.beat(max(0.0, time.monotonic() - due))
        manager.status(status_line(health))
        if health.makes_progress(manager.watchdog_s / 2):
            manager.alive()
        due = time.monotonic() + wait_s
        await asyncio.sleep(wait_s)


def status_line(health: Health) -> str:
    """What `systemctl status` shows."""
    why = health.reasons()
    if why:
        return f"not ready: {'; '.join(why)}"
    rate = health.batches_per_s
    return many(health.agents, "agent") + ("" if rate is None else f", {rate:.1f} batches/s")


def _tls(folder: Path) -> ssl.SSLContext:
    """The server's own certificate, as gRPC shows it. Raises ConfigError."""
    from ..access import authority  # cryptography, which a server without TLS never needs

    authority.identity(folder)  # renews one that ends soon
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(folder / access.CERTIFICATE, folder / access.KEY)
    if access.is_mutual(folder):
        # Who only asks whether the server lives has none.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(folder / access.AUTHORITY)
    return context


async def _renew(secured: ssl.SSLContext, folder: Path) -> None:
    """Show a certificate that was renewed (gRPC's port makes one in time), without a restart."""
    renewal = Renewal(folder / access.CERTIFICATE, folder / access.KEY)
    while True:
        await asyncio.sleep(60 * BEAT_S)
        renewal.look(secured)
