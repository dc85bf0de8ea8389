"""The receiving end's ports: they serve who has the ticket, and nobody else."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from roofline_agent.netbench import handshake, rpc, tcp
from roofline_agent.netbench.errors import NetBenchError
from roofline_agent.netbench.payloads import MEDIUM
from roofline_agent.netbench.receiver import TcpReceiver

from tests.fakes import wait_for

KEY = "secret"


class Ended:
    def __init__(self) -> None:
        self.times = 0
        self.happened = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self.happened.set()


@pytest.fixture
def ended() -> Ended:
    return Ended()


@pytest.fixture
def listener(ended: Ended) -> Iterator[TcpReceiver]:
    made = TcpReceiver(KEY, ended)
    yield made
    made.close()


def raw(listener: TcpReceiver, line: bytes | Callable[[str], bytes]) -> bytes:
    """What comes back for a first line, which may depend on the listener's, until the connection ends."""
    with socket.create_connection(("127.0.0.1", listener.port), 60) as connection:
        once = handshake.receive(connection)["once"]
        connection.sendall(line if isinstance(line, bytes) else line(once))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(1000):
            answer += chunk
        return answer


def proven(once: str, ticket: str = KEY, **what: Any) -> bytes:
    return json.dumps({"proof": handshake.proof(ticket, once, what), **what}).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[1]\n",
        b"[" * 5000 + b"\n",
        b"x" * 5000,
        b'{"for": "control"}\n',
        b'{"proof": "", "for": "control"}\n',
        b'{"proof": null, "for": "control"}\n',
        '{"proof": "sécret", "for": "control"}\n'.encode(),
        lambda once: proven(once, "secre", **{"for": "control"}),
        lambda once: proven("another connection's", **{"for": "control"}),
        lambda once: proven(once, **{"for": "control"}).replace(b'"for"', b'"size": 1, "for"'),
        lambda once: proven(once, **{"for": "echo"}, size=1),
        lambda once: proven(once, **{"for": "sink"}),
    ],
)
def test_who_has_no_ticket_or_begins_otherwise_gets_nothing(
    listener: TcpReceiver, ended: Ended, line: bytes | Callable[[str], bytes]
) -> None:
    with contextlib.suppress(OSError):  # closed before all was sent, or with something unread
        assert raw(listener, line) in (b"", b'{"ok": true}\n')
    assert not listener.controlled.is_set() and not ended.times


def test_who_shows_a_key_byte_by_byte_has_no_more_time(
    listener: TcpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HELLO_S", 0.3)
    stop = time.monotonic() + 60
    with socket.create_connection(("127.0.0.1", listener.port), 60) as connection:
        connection.settimeout(0.05)
        closed = False
        while not closed and time.monotonic() < stop:
            try:
                connection.sendall(b" ")
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
    assert closed, "a byte in time is no line in time"


def test_the_ticket_opens_what_it_names_and_nothing_else(listener: TcpReceiver) -> None:
    ok = b'{"ok": true}\n'
    peer = tcp.ReceivingEnd("127.0.0.1", listener.port, KEY)
    wishes: list[dict[str, Any]] = [{"for": "shell"}, {}, {"for": "echo", "size": 0}]
    for what in (*wishes, {"for": "echo", "size": 1 << 40}):
        assert raw(listener, partial(proven, **what)) == ok
    echo = {"for": "echo", "size": 2}
    assert raw(listener, lambda once: proven(once, **echo) + b"abcde") == ok + b"abcd"
    peer.bye()


def test_what_one_connection_proved_opens_no_other(listener: TcpReceiver) -> None:
    """Who listens on the way has seen a proof, never the ticket."""
    seen = []
    peer = tcp.ReceivingEnd("127.0.0.1", listener.port, KEY)
    sink = {"for": "sink"}
    assert raw(listener, lambda once: seen.append(proven(once, **sink)) or seen[0])
    assert raw(listener, seen[0]) == b"" and KEY.encode() not in seen[0]
    peer.bye()


def test_sinks_are_counted_for_one_sending_end(listener: TcpReceiver, ended: Ended) -> None:
    peer = tcp.ReceivingEnd("127.0.0.1", listener.port, KEY)
    assert peer.is_here and listener.controlled.wait(60)
    before, at = peer.count()
    with peer.connect("sink") as sink:
        sink.sendall(bytes(100_000))
    wait_for(lambda: peer.count()[0] == before + 100_000)
    assert peer.count()[1] > at
    # A second one is not taken: there is one sending end.
    with handshake.connect("127.0.0.1", listener.port, KEY, 5, **{"for": "control"}) as second:
        assert second.recv(1) == b""
    assert not ended.times
    peer.bye()
    assert ended.happened.wait(60) and ended.times == 1


def test_end_of_the_control_connection_is_the_end(listener: TcpReceiver, ended: Ended) -> None:
    with handshake.connect("127.0.0.1", listener.port, KEY, 5, **{"for": "control"}):
        assert listener.controlled.wait(60) and not ended.times
    assert ended.happened.wait(60) and ended.times == 1


def test_bye_is_the_end(listener: TcpReceiver, ended: Ended) -> None:
    tcp.ReceivingEnd("127.0.0.1", listener.port, KEY).bye()
    assert ended.happened.wait(60)


def test_a_closed_listener_listens_no_more(listener: TcpReceiver) -> None:
    listener.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", listener.port)) != 0


def test_the_first_address_that_answers_is_taken(listener: TcpReceiver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        elsewhere = other.getsockname()[1]
    found = tcp.find("no.such.host.invalid", ["127.0.0.1"], listener.port, KEY)
    assert found.address == "127.0.0.1"
    found.bye()
    with pytest.raises(NetBenchError, match=r"tried 127.0.0.1 \(Conn"):
        tcp.find("localhost", ["127.0.0.1"], elsewhere, KEY)
    with pytest.raises(NetBenchError, match=r"tried nothing"):
        tcp.find("localhost", [], listener.port, KEY)


def test_another_benchmarks_port_is_not_taken(listener: TcpReceiver) -> None:
    with pytest.raises(NetBenchError, match="closed the connection"):
        tcp.find("here", ["127.0.0.1"], listener.port, "another ticket")


def test_who_was_let_in_may_send_at_once(listener: TcpReceiver) -> None:
    seen: list[bool] = []
    send = handshake.send

    def noting(connection: socket.socket, what: dict[str, Any]) -> None:
        if what == {"ok": True}:
            seen.append(listener.controlled.is_set())
        send(connection, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handshake, "send", noting)
        tcp.ReceivingEnd("127.0.0.1", listener.port, KEY).bye()
    assert seen == [True]


def test_bandwidth_over_a_long_way_is_measured_for_longer(
    listener: TcpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    peer = tcp.ReceivingEnd("127.0.0.1", listener.port, KEY)
    monkeypatch.setattr(tcp, "time", SimpleNamespace(sleep=slept.append))
    tcp.bandwidth(peer, 1, 0.8, 0.1)
    tcp.bandwidth(peer, 1, 0.8, 1e-5)
    assert slept == pytest.approx([1.5, *[0.5] * 5, 0.2, *[0.12] * 5])
    peer.bye()


def test_round_trips_and_bandwidth(listener: TcpReceiver) -> None:
    peer = tcp.ReceivingEnd("127.0.0.1", listener.port, KEY)
    times = tcp.round_trips(peer, 100, 0.05)
    assert len(times) >= tcp.MIN_TRIPS and all(0 < one < 5 for one in times)
    for streams in (1, 3):
        found = tcp.bandwidth(peer, streams, 0.2)
        assert len(found.each) == 5
        assert 1e6 < found.whole <= max(found.each)
    peer.bye()


# -- gRPC --------------------------------------------------------------------------------------------


@pytest.fixture
def target() -> Iterator[str]:
    server, port = rpc.serve(KEY)
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("name", ["Echo", "EchoRaw", "Push", "PushRaw", "Pull", "PullRaw"])
@pytest.mark.parametrize("shown", [(), ((rpc.KEY, ""),), ((rpc.KEY, "secrex"),)])
def test_calls_without_the_key_are_refused(
    target: str, name: str, shown: tuple[tuple[str, str], ...]
) -> None:
    with grpc.insecure_channel(target) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(f"/{rpc.SERVICE}/{name}")(b"", metadata=shown, timeout=60)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_key_is_looked_at_before_the_message_is_taken(target: str) -> None:
    over = threading.Event()

    def never() -> Iterator[bytes]:
        over.wait()
        yield from ()

    with grpc.insecure_channel(target) as channel:
        call = channel.stream_unary(f"/{rpc.SERVICE}/PushRaw")
        try:
            with pytest.raises(grpc.RpcError) as refused:
                call(never(), metadata=((rpc.KEY, "secrex"),), timeout=60)
        finally:
            over.set()
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_message_longer_than_any_payload_is_refused(target: str) -> None:
    with grpc.insecure_channel(target, options=rpc.OPTIONS) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            push = channel.unary_unary(f"/{rpc.SERVICE}/PushRaw")
            push(bytes(rpc.MAX_BYTES + 1), metadata=((rpc.KEY, KEY),), timeout=30)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("mode", rpc.MODES, ids=["raw", "serialized"])
def test_payloads_go_there_and_back(target: str, mode: rpc.Mode) -> None:
    message, shown = mode.payload(MEDIUM.sizes), ((rpc.KEY, KEY),)
    with grpc.insecure_channel(target, options=rpc.OPTIONS) as channel:
        echo, push, pull = (mode.method(channel, name) for name in ("Echo", "Push", "Pull"))
        assert echo(message, metadata=shown, timeout=60) == message
        assert push(message, metadata=shown, timeout=60) == b""
        got = pull(rpc.sizes_as_bytes(MEDIUM.sizes), metadata=shown, timeout=60)
    sizes = tuple(map(len, got.buffers)) if mode.serialized else (len(got),)
    assert sizes == (MEDIUM.sizes if mode.serialized else (MEDIUM.message_bytes,))


@pytest.mark.parametrize(
    "wanted", [b"", b"-1", b"x", b"1,,2", b"9999999999999", b"99999999999", b"1," * 60 + b"1"]
)
def test_sizes_that_cannot_be_are_refused(target: str, wanted: bytes) -> None:
    with grpc.insecure_channel(target) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(f"/{rpc.SERVICE}/PullRaw")(wanted, metadata=((rpc.KEY, KEY),), timeout=60)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
