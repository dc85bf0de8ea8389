"""Where the server listens: addresses as they are given, and those that it takes by itself."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Sequence

from roofline.joining import join_port

from .errors import ConfigError, Unavailable
from .health.monitor import DEFAULT_HTTP, MUTUAL_HTTP, OFF, HttpPlace
from .page import DEFAULT_PAGE, FREE_S, check_free, check_page

log = logging.getLogger(__name__)

DEFAULT_LISTEN, ALL_ADDRESSES = "127.0.0.1:7642", "0.0.0.0:7642"
ANY_HOST = ("0.0.0.0", "[::]", "*")


def check_address(
    listen: str,
    safe: bool,
    option: str = "--listen",
    otherwise: str = "add --insecure if the network is trusted",
) -> None:
    """Raises ConfigError for an address that is malformed or, unless that is safe, reachable by others."""
    host, colon, port = listen.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ConfigError(f"{option} {listen!r} must be HOST:PORT, e.g. {DEFAULT_LISTEN}")
    if safe or is_private(listen):
        return
    raise ConfigError(
        f"{option} {listen} can be reached by others, who could read jobs and send data: run "
        f"`roofline-server init` once, which turns TLS and tokens on, or {otherwise}"
    )


def is_private(listen: str) -> bool:
    """Whether only this machine reaches the address."""
    host = listen.rpartition(":")[0]
    with contextlib.suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def is_one_address(listen: str) -> bool:
    """Whether it is one address that others reach, so that nothing is at loopback."""
    return bool(listen.rpartition(":")[0].strip()) and not is_private(listen) and not _is_any(listen)


def _is_any(listen: str) -> bool:
    return listen.rpartition(":")[0] in ANY_HOST


def page_place(page: str, guarded: bool, taken: Sequence[str] = ()) -> str:
    """Where the live page is served; "": nowhere. taken: where the server itself will listen, as HOST:PORT or
    "". Raises ConfigError or Unavailable where the page was asked for and cannot be."""
    if page == OFF:
        return ""
    if page:
        # With --insecure too: visitors send their tokens.
        check_address(page, guarded, "--page", f"leave it at {DEFAULT_PAGE} (--insecure gives it no TLS)")
        if int(page.rpartition(":")[2]) == 0:
            raise ConfigError(f"--page {page} must name a port: nobody would know which one was taken")
        _check_page_at(page, taken, FREE_S)
        return page
    try:
        _check_page_at(DEFAULT_PAGE, taken)
    except (ConfigError, Unavailable) as error:
        log.info("no live page: %s", error)
        return ""
    return DEFAULT_PAGE


def _check_page_at(page: str, taken: Sequence[str], within_s: float = 0.0) -> None:
    """Raises ConfigError or Unavailable where the page cannot be served."""
    check_page()
    if any(_clash(page, own) for own in taken):
        raise ConfigError(f"{page} is where the server itself listens; --page HOST:PORT chooses another")
    check_free(page, within_s)


def http_place(http: str, safe: bool, joining: str = "") -> HttpPlace | None:
    """Where HTTP is served. joining: HOST:PORT that is taken by it; "": none. Raises ConfigError."""
    if http == OFF:
        return None
    listen = http or (MUTUAL_HTTP if _is_same_port(DEFAULT_HTTP, joining) else DEFAULT_HTTP)
    check_address(listen, safe, "--http")
    if _clash(listen, joining):
        raise ConfigError(
            f"--http {listen} is where agents and clients join, as this server asks for certificates (init "
            f"--mutual): choose another port, as {MUTUAL_HTTP.rpartition(':')[2]}"
        )
    return HttpPlace(listen, bool(http), is_private(listen))


def join_address(listen: str) -> str:
    """Where those join who have no certificate yet."""
    host, _, port = listen.rpartition(":")
    return f"{host}:{join_port(int(port))}"


def _is_same_port(one: str, other: str) -> bool:
    return one.rpartition(":")[2] == other.rpartition(":")[2]


def _clash(one: str, other: str) -> bool:
    """Whether two sockets cannot be bound to these addresses at once."""
    hosts = {one.rpartition(":")[0], other.rpartition(":")[0]}
    return _is_same_port(one, other) and (len(hosts) == 1 or not hosts.isdisjoint(ANY_HOST))
