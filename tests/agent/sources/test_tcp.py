"""Bytes per rank from the kernel's own count: exact for a transfer of known size."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from roofline_agent.records import Rank, Settings
from roofline_agent.sources.tcp import Connection, TcpSource, list_connections, parse_dump

from tests.fakes import ended, wait_for

# Reads commands from stdin: "send N" and "close"; answers each once done.
PEER = """
import socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "send": link.sendall(b"x" * int(rest[0]))
    if word == "close": link.close()
    print("done", flush=True)
"""


def sample(source: TcpSource, ranks: list[Rank]) -> list[tuple[int | float | None, ...]]:
    source._sampled_ns = 0  # the last listing is long ago
    return [row.values for row in source.sample(ranks)]


def say(peer: subprocess.Popen[str], line: str) -> None:
    assert peer.stdin is not None and peer.stdout is not None
    peer.stdin.write(line + "\n")
    peer.stdin.flush()
    assert peer.stdout.readline() == "done\n"


def read_exactly(connection: socket.socket, size: int) -> None:
    while size:
        part = len(connection.recv(min(size, 1 << 20)))
        assert part
        size -= part


@pytest.fixture
def source() -> Iterator[TcpSource]:
    source = TcpSource(Settings())
    status = source.probe()
    if not status.works:
        pytest.skip(status.reason)
    yield source
    source.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


def peer_of(listener: socket.socket) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PEER, str(listener.getsockname()[1])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_transfer_between_two_processes(source: TcpSource, listener: socket.socket) -> None:
    with ended(peer_of(listener)) as peer:
        connection, _ = listener.accept()
        with connection:
            peer.stdout.readline()
            me, other = Rank("j", "ps", 0, os.getpid(), 1), Rank("j", "worker", 0, peer.pid, 1)

            def now() -> list[tuple[int, ...]]:
                return sample(source, [me, other])  # type: ignore[return-value]

            start, first = now()
            assert first[2] == 1
            say(peer, "send 3000000")
            read_exactly(connection, 3_000_000)
            connection.sendall(b"y" * 12_345)
            wait_for(lambda: now()[1][0] - first[0] == 3_000_000 and now()[1][1] - first[1] == 12_345)
            mine = now()[0]
            assert (mine[0] - start[0], mine[1] - start[1]) == (12_345, 3_000_000)

            say(peer, "close")
            wait_for(lambda: now()[1][2] == 0)
            assert now()[1][0] - first[0] >= 3_000_000, "what a closed connection moved is not forgotten"
            assert now()[1][1] - first[1] >= 12_345


def test_new_connection_is_credited_its_opening(source: TcpSource, listener: socket.socket) -> None:
    with ended(peer_of(listener)) as peer, listener.accept()[0]:
        peer.stdout.readline()
        assert sample(source, [Rank("j", "worker", 0, peer.pid, 1)]) == [(1, 0, 1)]


def test_connection_opened_later_is_found_at_once(source: TcpSource, listener: socket.socket) -> None:
    me = Rank("j", "ps", 0, os.getpid(), 1)
    (before,) = sample(source, [me])
    with socket.create_connection(listener.getsockname()) as link, listener.accept()[0]:
        link.sendall(b"z" * 1000)
        wait_for(lambda: 1000 <= sample(source, [me])[0][0] - before[0] <= 1002)
        assert sample(source, [me])[0][2] == before[2] + 2


def test_process_that_has_gone_has_no_row(source: TcpSource) -> None:
    assert sample(source, [Rank("j", "ps", 0, 2**22 + 5, 1)]) == []


def test_listing_twice_a_second_is_enough(source: TcpSource) -> None:
    me = [Rank("j", "ps", 0, os.getpid(), 1)]
    assert len(source.sample(me)) == 1
    assert source.sample(me) == []


def test_rank_that_left_is_forgotten(source: TcpSource) -> None:
    sample(source, [Rank("j", "ps", 0, os.getpid(), 1)])
    assert source._traffic
    sample(source, [])
    assert source._traffic == {}


def test_lists_connections_of_both_families() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2]) as link,
    ):
        inodes = {c.inode for c in list_connections()}
        assert os.fstat(link.fileno()).st_ino in inodes
        assert os.fstat(listener.fileno()).st_ino not in inodes, "a listener moves nothing"


HEADER = struct.Struct("=IHHII")


def message(kind: int, body: bytes) -> bytes:
    data = HEADER.pack(HEADER.size + len(body), kind, 2, 0, 0) + body
    return data + bytes(-len(data) % 4)


def connection(inode: int, sent: int, received: int, info: int = 200) -> bytes:
    tcp_info = bytearray(info)
    if info >= 136:
        struct.pack_into("=QQ", tcp_info, 120, sent, received)
    attributes = struct.pack("=HH", 5, 8) + b"\0" * 4 + struct.pack("=HH", 4 + info, 2) + tcp_info
    return message(20, bytes(68) + struct.pack("=I", inode) + attributes)


def test_dump_is_read_to_its_end() -> None:
    data = connection(7, 2**40, 5) + connection(8, 1, 2)
    expected = [Connection(7, 2**40, 5), Connection(8, 1, 2)]
    assert parse_dump(data) == (expected, False)
    assert parse_dump(data + message(3, bytes(4))) == (expected, True)


def test_kernel_without_byte_counts_says_nothing() -> None:
    assert parse_dump(connection(7, 0, 0, info=104)) == ([], False)


def test_refusal_of_the_kernel_is_an_error_with_its_number() -> None:
    with pytest.raises(OSError) as raised:
        parse_dump(message(2, struct.pack("=i", -errno.EPERM) + bytes(16)))
    assert raised.value.errno == errno.EPERM


@pytest.mark.parametrize("data", [b"", b"x", bytes(8)])
def test_less_than_a_header_yields_nothing_false(data: bytes) -> None:
    assert parse_dump(data) == ([], False)


@pytest.mark.parametrize("data", [bytes(64), connection(7, 1, 1)[:40]])
def test_garbage_is_an_error_and_no_endless_loop(data: bytes) -> None:
    with pytest.raises(OSError, match="cut short"):
        parse_dump(data)
