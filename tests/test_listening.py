"""An address that stands for all is one of both families, where a node has both."""

from __future__ import annotations

import errno
import socket
from contextlib import closing
from typing import Any

import pytest
from roofline import listening
from roofline.listening import at_all_addresses, is_all

from tests.fakes import has_ipv6


def test_socket_is_reached_by_both_families() -> None:
    with closing(at_all_addresses(0)) as at:
        port = at.getsockname()[1]
        for host in ("127.0.0.1", *(["::1"] if has_ipv6() else [])):
            socket.create_connection((host, port), timeout=5).close()


def test_node_without_ipv6_is_reached_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    made = socket.socket

    def without_ipv6(family: int, *more: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return made(family, *more)

    monkeypatch.setattr(listening.socket, "socket", without_ipv6)
    at = at_all_addresses(0)
    monkeypatch.undo()
    with closing(at):
        assert at.family == socket.AF_INET
        socket.create_connection(("127.0.0.1", at.getsockname()[1]), timeout=5).close()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_port_that_is_taken_is_an_error(family: socket.AddressFamily) -> None:
    if family == socket.AF_INET6 and not has_ipv6():
        pytest.skip("needs IPv6")
    with socket.create_server(("", 0), family=family) as taken, pytest.raises(OSError, match="in use"):
        at_all_addresses(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "all_"), [("0.0.0.0", True), ("[::]", True), ("::", True), ("[::1]", False)]
)
def test_all_addresses_have_two_names(host: str, all_: bool) -> None:
    assert is_all(host) is all_
