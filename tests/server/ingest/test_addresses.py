"""Where agents are, as the server sees it."""

from __future__ import annotations

import pytest
from roofline_server.ingest.addresses import address_of, seen_from


@pytest.mark.parametrize(
    "peer, address",
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5Bfd00::1%5D:4711", "fd00::1"),
        ("ipv6:[::1]:4711", "::1"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:4711", "10.0.0.1"),
        ("unix:", ""),
        ("unix:/run/x.sock", ""),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_address_of_a_stream(peer: str, address: str) -> None:
    assert address_of(peer) == address


def test_agent_beside_the_server_is_at_loopback_for_itself_alone() -> None:
    assert seen_from("127.0.0.1", "127.0.0.1") == "127.0.0.1"
    assert seen_from("10.0.0.2", "127.0.0.1") == "10.0.0.2"
    assert seen_from("10.0.0.2", "10.0.0.3") == "10.0.0.2"
    assert seen_from("127.0.0.1", "") == "127.0.0.1"
    assert seen_from("", "10.0.0.3") == ""
