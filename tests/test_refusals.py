"""What agents and clients say where they cannot reach a server: clocks, and what never answers."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from roofline import joining
from roofline.joining import Access, CannotJoin, JoinToken, clock_behind, enrol
from roofline_agent.config import load
from roofline_agent.errors import ConfigError
from roofline_agent.uplink import admission
from roofline_client import channel
from roofline_client.address import check_address
from roofline_client.errors import Refused, UsageError
from roofline_server.access import AUTHORITY, authority

DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than users are made to wait."""
    monkeypatch.setattr(admission, "ANSWER_S", 60.0)
    monkeypatch.setattr(joining, "LOOK_S", 60.0)


@contextmanager
def shown(folder: Path, begins_in: datetime.timedelta) -> Iterator[tuple[str, Access]]:
    """HOST:PORT of who shows a certificate of this time and hangs up, and what it was joined with."""
    authority.create(folder, (), datetime.datetime.now(datetime.timezone.utc) + begins_in)
    own = folder / "chain.pem"
    known = authority.identity(folder)
    own.write_bytes(known.key + known.chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    one, _ = listener.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(one, server_side=True).close()
                except OSError:
                    one.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", Access((folder / AUTHORITY).read_text(), "t")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_clock_that_is_behind_is_named_and_not_what_was_joined(tmp_path: Path) -> None:
    with shown(tmp_path, 3 * DAY) as (server, access):
        refused = admission.refusal(server, access)
        assert refused and "clock is behind: it shows" in refused.why and "join" not in refused.advice
        with pytest.raises(Refused, match="clock is behind") as said:
            raise channel.Channel(server, 10, access)._unavailable("")
        assert "join again" not in str(said.value)
        fingerprint = authority.fingerprint(tmp_path)
        with pytest.raises(CannotJoin, match="clock is behind"):
            enrol(grpc, server, JoinToken(fingerprint, "a.b"), "n", ["agent"])


@pytest.mark.parametrize("begins_in", [0 * DAY, DAY / 2, -800 * DAY], ids=["now", "half a day", "ended"])
def test_other_clocks_are_not_behind(begins_in: datetime.timedelta, tmp_path: Path) -> None:
    """The certificate begins a day before it was made."""
    with shown(tmp_path, begins_in) as (server, access):
        assert clock_behind(server, access) == ""
        refused = admission.refusal(server, access)
        assert refused and refused.advice == admission.JOIN


def test_server_that_never_answers_did_not_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs, or large packets do not arrive."""
    authority.create(tmp_path)
    monkeypatch.setattr(admission, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = f"127.0.0.1:{listener.getsockname()[1]}"
        refused = admission.refusal(server, Access((tmp_path / AUTHORITY).read_text(), "t"))
    assert refused and refused.why == "listens, but did not answer within 0.5 s"
    assert "firewall" in refused.advice and "MTU" in refused.advice


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        (
            "failed to connect; last error: UNKNOWN: ipv4:1.2.3.4:7642: tcp handshaker shutdown",
            "no answer in",
        ),
        ("last error: UNAVAILABLE: Handshake read failed (Endpoint closing)", "no answer in"),
        ("ipv4:127.0.0.1:1: connect: Connection refused (111)]", "Connection refused"),
    ],
)
def test_cause_of_a_failed_connection(details: str, cause: str) -> None:
    assert channel._cause(details).startswith(cause)


@pytest.mark.parametrize("server", ["https://head:7642", "dns:///head:7642", "http://head:7642/"])
def test_address_with_a_scheme_is_shown_without(server: str) -> None:
    with pytest.raises(UsageError, match="without the scheme, as in head:7642"):
        check_address(server)
    with pytest.raises(ConfigError, match="without the scheme, as in head:7642"):
        load({"server": server}, {})


def test_join_that_does_not_reach_the_next_port_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> str:
        raise CannotJoin("no roofline-server answers")

    monkeypatch.setattr(joining, "authority_of", unreachable)
    with pytest.raises(CannotJoin, match="port next to its own, 7643"):
        enrol(grpc, "head:7642", JoinToken(b"", "a.b", mutual=True), "n", ["agent"])
    with pytest.raises(CannotJoin, match=r"answers$"):
        enrol(grpc, "head:7642", JoinToken(b"", "a.b"), "n", ["agent"])
