"""Bytes per rank and peer from the kernel's own count: exact for a transfer of known size."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.records import Rank
from roofline_agent.sources import namespaces, sock_diag
from roofline_agent.sources.namespaces import Lists, namespace_of, why_unseen
from roofline_agent.sources.peers import Endpoint
from roofline_agent.sources.sock_diag import Connection, Diag, list_connections, parse_dump
from roofline_agent.sources.tcp import OTHER, RankTraffic, TcpSource

from tests.fakes import ended, wait_for

from .trees import CLOCK, settings

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
    """The totals of the ranks."""
    CLOCK.advance(1)  # the last listing is long ago
    return [row.values for row in source.sample(ranks) if row.instance == ""]


def by_peer(source: TcpSource, ranks: list[Rank]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Values by rank and peer; those of its peers are checked to be a rank's total."""
    CLOCK.advance(1)
    found: dict[tuple[str, str], tuple[int, int, int]] = {
        (row.rank.key, row.instance): row.values[:3]  # type: ignore[union-attr,misc]
        for row in source.sample(ranks)
    }
    for rank in ranks:
        parts = [values for (who, peer), values in found.items() if who == rank.key and peer]
        total = tuple(map(sum, zip(*parts, strict=True))) or (0, 0, 0)
        assert found[rank.key, ""] == total
    return found


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
    source = TcpSource(settings())
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


def peer_of(listener: socket.socket, tf_config: object = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PEER, str(listener.getsockname()[1])]
    environ = {**os.environ, **({"TF_CONFIG": json.dumps(tf_config)} if tf_config else {})}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)


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
        assert sample(source, [Rank("j", "worker", 0, peer.pid, 1)]) == [(1, 0, 1, 0, 0, 0, None)]


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
    assert source.sample(me)
    assert source.sample(me) == []


def test_rank_that_left_is_forgotten(source: TcpSource, listener: socket.socket) -> None:
    me = [Rank("j", "ps", 0, os.getpid(), 1)]
    with socket.create_connection(listener.getsockname()) as link:
        accepted, _ = listener.accept()
        with accepted:
            link.sendall(bytes(1000))
            (before,) = sample(source, me)
    (closed,) = sample(source, me)
    assert before[0] >= closed[0] >= 1000, "what a closed connection moved still counts"
    sample(source, [])
    (anew,) = sample(source, me)
    assert anew[0] < 1000


def test_lists_connections_of_both_families() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2]) as link,
    ):
        inodes = {c.inode for c in list_connections()}
        assert os.fstat(link.fileno()).st_ino in inodes
        assert os.fstat(listener.fileno()).st_ino not in inodes, "a listener moves nothing"


def test_server_knows_its_two_clients_apart(source: TcpSource, listener: socket.socket) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(ended(peer_of(listener))) for _ in range(2)]
        links = [stack.enter_context(listener.accept()[0]) for _ in peers]
        for peer in peers:
            peer.stdout.readline()
        server = Rank("j", "ps", 0, os.getpid(), 1)
        workers = [Rank("j", "worker", i, peer.pid, 1) for i, peer in enumerate(peers)]
        ranks = [server, *workers]
        first = by_peer(source, ranks)
        say(peers[0], "send 1000000")
        say(peers[1], "send 50000")
        left = 1_050_000
        while left:  # which link is whose is not known here
            for link in links:
                link.setblocking(False)
                try:
                    left -= len(link.recv(1 << 20))
                except BlockingIOError:
                    continue

        def received(peer: str) -> int:
            now = by_peer(source, ranks)
            return now["ps:0", peer][1] - first["ps:0", peer][1]

        wait_for(lambda: (received("worker:0"), received("worker:1")) == (1_000_000, 50_000))
        now = by_peer(source, ranks)
        assert now["worker:0", "ps:0"][0] - first["worker:0", "ps:0"][0] == 1_000_000

        say(peers[1], "close")
        wait_for(lambda: by_peer(source, ranks)["worker:1", "ps:0"][2] == 0)
        closed = by_peer(source, ranks)["worker:1", "ps:0"]
        assert closed[0] - first["worker:1", "ps:0"][0] >= 50_000, "a closed connection counts for its peer"


def test_rank_of_another_job_is_an_address(source: TcpSource, listener: socket.socket) -> None:
    with ended(peer_of(listener)) as peer, listener.accept()[0]:
        peer.stdout.readline()
        ranks = [Rank("one", "ps", 0, os.getpid(), 1), Rank("two", "worker", 0, peer.pid, 1)]
        assert ("worker:0", "127.0.0.1") in by_peer(source, ranks)


def test_task_of_the_cluster_is_known_by_its_address(source: TcpSource, listener: socket.socket) -> None:
    cluster = {
        "worker": ["127.0.0.1:1"],
        "ps": ["10.255.0.1:7", f"localhost:{listener.getsockname()[1]}"],
    }
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    with ended(peer_of(listener, config)) as peer, listener.accept()[0]:
        peer.stdout.readline()
        worker = [Rank("j", "worker", 0, peer.pid, 1)]

        def named() -> bool:
            CLOCK.advance(60)  # "localhost" is looked up apart
            return ("worker:0", "ps:1") in by_peer(source, worker)

        wait_for(named)


def test_peer_that_becomes_a_rank_counts_from_then_on(source: TcpSource, listener: socket.socket) -> None:
    me = Rank("j", "ps", 0, os.getpid(), 1)
    with ended(peer_of(listener)) as peer, listener.accept()[0] as link:
        peer.stdout.readline()
        before = by_peer(source, [me])["ps:0", "127.0.0.1"]
        both = [me, Rank("j", "worker", 0, peer.pid, 1)]
        say(peer, "send 777")
        read_exactly(link, 777)
        wait_for(lambda: by_peer(source, both).get(("ps:0", "worker:0"), (0, 0, 0))[1] == 777)
        now = by_peer(source, both)
        assert now["ps:0", "127.0.0.1"][:2] == before[:2], "what was counted under its address stays there"


def made(inode: int, sent: int, received: int = 0, ends: bytes = b"") -> Connection:
    return Connection(inode, sent, received, ends or inode.to_bytes(4, "big"))


@given(st.lists(st.dictionaries(st.integers(1, 9), st.integers(0, 99)), max_size=9))
def test_nothing_is_lost_whatever_opens_and_closes(rounds: list[dict[int, int]]) -> None:
    traffic, moved, open_now = RankTraffic(), 0, dict[int, int]()
    for steps in rounds:
        open_now = {inode: open_now.get(inode, 0) + step for inode, step in steps.items()}
        moved += sum(steps.values())
        traffic.inodes = set(open_now)
        live = {inode: made(inode, sent, 2 * sent) for inode, sent in open_now.items()}
        traffic.update(live, lambda connection: f"peer {connection.inode % 3}")
        assert traffic.total()[:3] == (moved, 2 * moved, len(open_now))


def test_connection_that_one_list_misses_is_not_counted_anew() -> None:
    traffic = RankTraffic()
    traffic.inodes = {5}
    for live in ({5: made(5, 1000)}, {}, {5: made(5, 1003)}):
        traffic.update(live, lambda _: "x")
    assert traffic.total()[:3] == (1003, 0, 1)
    traffic.inodes = set()
    traffic.update({}, lambda _: "x")
    traffic.inodes = {5}
    traffic.update({5: made(5, 2000)}, lambda _: "x")
    assert traffic.total()[0] == 3003, "it was closed: another socket has its number"


def test_number_of_a_closed_socket_used_again_is_another_connection() -> None:
    traffic = RankTraffic()
    traffic.inodes = {5}
    traffic.update({5: made(5, 1000, ends=b"a")}, lambda _: "x")
    traffic.update({5: made(5, 30, ends=b"a")}, lambda _: "x")
    traffic.update({5: made(5, 40, ends=b"b")}, lambda _: "x")
    assert traffic.total()[:3] == (1070, 0, 1)


def test_peers_beyond_the_bound_share_a_row() -> None:
    traffic = RankTraffic()
    traffic.inodes = set(range(1, 301))
    live = {inode: made(inode, 1) for inode in traffic.inodes}
    traffic.update(live, lambda connection: f"10.0.0.{connection.inode}")
    assert len(traffic.peers) == 257
    assert traffic.peers[OTHER].values()[:3] == (44, 0, 44)
    assert traffic.total()[:3] == (300, 0, 300)


def test_times_add_up_over_connections_and_what_is_open_now_is_unread() -> None:
    traffic = RankTraffic()
    traffic.inodes = {1, 2}
    one, two = (made(n, 10)._replace(unread=100 * n, busy_ns=1000 * n, limited_ns=n) for n in (1, 2))
    traffic.update({1: one, 2: two}, lambda _: "ps:0")
    traffic.update({1: one._replace(busy_ns=1500, unread=7)}, lambda _: "ps:0")
    assert traffic.peers["ps:0"].values() == (20, 0, 1, 7, 3500, 3, None)
    assert traffic.total() == (20, 0, 1, 7, 3500, 3, None)


def test_rate_is_that_of_connections_that_have_sent_since_the_last_sample() -> None:
    traffic = RankTraffic()
    traffic.inodes = {1, 2, 3}
    fast, slow, third = (made(n, 1000)._replace(rate=10 ** (10 - n)) for n in (1, 2, 3))
    traffic.update({1: fast, 2: slow, 3: third}, lambda one: "ddp:1" if one.inode == 1 else "ddp:2")
    assert {peer: one.rate for peer, one in traffic.peers.items()} == {"ddp:1": 10**9, "ddp:2": 10**8}
    traffic.update({1: fast, 2: slow, 3: third._replace(sent=1001)}, lambda _: "")
    assert {peer: one.rate for peer, one in traffic.peers.items()} == {"ddp:1": None, "ddp:2": 10**7}
    assert traffic.total()[-1] == 10**7


def test_rate_is_that_of_the_kernel() -> None:
    data = bytearray(connection(7, 1, 2))
    struct.pack_into("=Q", data, data.index(struct.pack("=QQ", 1, 2)) + 40, 123456)
    ((one,), _) = parse_dump(bytes(data), 0)
    assert one.rate == 123456
    here, there = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    for own, far in ((here, here), (bytes([127, 0, 0, 1]), bytes([127, 0, 1, 1]))):
        ((one,), _) = parse_dump(bytes(data.replace(there, far).replace(here, own)), 0)
        assert one.rate == 0, "there is no link"


def test_times_of_an_old_kernel_are_absent() -> None:
    ((one,), _) = parse_dump(connection(7, 1, 2, info=160), 0)
    assert (one.busy_ns, one.limited_ns) == (None, None)
    traffic = RankTraffic()
    traffic.inodes = {7}
    traffic.update({7: one}, lambda _: "x")
    assert traffic.total() == (1, 2, 1, 0, None, None, None)


def test_reader_that_does_not_read_is_seen_from_both_sides(
    source: TcpSource, listener: socket.socket
) -> None:
    with ended(peer_of(listener)) as peer, listener.accept()[0] as link:
        peer.stdout.readline()
        ranks = [Rank("j", "ps", 0, os.getpid(), 1), Rank("j", "worker", 0, peer.pid, 1)]
        before = sample(source, ranks)
        peer.stdin.write("send 20000000\n")
        peer.stdin.flush()

        def limited() -> bool:
            now = sample(source, ranks)
            return now[1][5] - before[1][5] > 200_000_000  # type: ignore[operator]

        wait_for(limited, "a window that stays full")
        mine, sender = sample(source, ranks)
        assert mine[3] > 50_000 and sender[3] == 0  # type: ignore[operator]
        assert sender[4] - before[1][4] >= sender[5] - before[1][5]  # type: ignore[operator]
        read_exactly(link, 20_000_000)
        wait_for(lambda: sample(source, ranks)[0][3] == 0)


HEADER = struct.Struct("=IHHII")


def message(kind: int, body: bytes) -> bytes:
    data = HEADER.pack(HEADER.size + len(body), kind, 2, 0, 0) + body
    return data + bytes(-len(data) % 4)


def connection(inode: int, sent: int, received: int, info: int = 200) -> bytes:
    tcp_info = bytearray(info)
    if info >= 136:
        struct.pack_into("=QQ", tcp_info, 120, sent, received)
    attributes = struct.pack("=HH", 5, 8) + b"\0" * 4 + struct.pack("=HH", 4 + info, 2) + tcp_info
    here, there = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    ends = struct.pack(">HH", 4000, 2222) + here + bytes(12) + there + bytes(12)
    return message(20, bytes([2, 1, 0, 0]) + ends + bytes(28) + struct.pack("=I", inode) + attributes)


def test_dump_is_read_to_its_end() -> None:
    data = connection(7, 2**40, 5) + connection(8, 1, 2)
    expected = [(7, 2**40, 5), (8, 1, 2)]
    for end, complete in ((b"", False), (message(3, bytes(4)), True)):
        found, done = parse_dump(data + end, 0)
        assert ([one[:3] for one in found], done) == (expected, complete)


def test_both_ends_of_a_connection_are_read() -> None:
    ((one,), _) = parse_dump(connection(7, 1, 1), 0)
    own, far = one.addresses()
    assert (str(own), str(far)) == ("10.0.0.1:4000", "10.0.0.2:2222")
    mapped = one._replace(ends=bytes([10]) + one.ends[1:5] + (bytes(10) + b"\xff\xff\x0a\x00\x00\x01") * 2)
    assert mapped.addresses()[0] == own == Endpoint(bytes([10, 0, 0, 1]), 4000)


def test_kernel_without_byte_counts_says_nothing() -> None:
    assert parse_dump(connection(7, 0, 0, info=104), 0) == ([], False)


def test_refusal_of_the_kernel_is_an_error_with_its_number() -> None:
    with pytest.raises(OSError) as raised:
        parse_dump(message(2, struct.pack("=i", -errno.EPERM) + bytes(16)), 0)
    assert raised.value.errno == errno.EPERM


@pytest.mark.parametrize("data", [b"", b"x", bytes(8)])
def test_less_than_a_header_yields_nothing_false(data: bytes) -> None:
    assert parse_dump(data, 0) == ([], False)


@pytest.mark.parametrize("data", [bytes(64), connection(7, 1, 1)[:40]])
def test_garbage_is_an_error_and_no_endless_loop(data: bytes) -> None:
    with pytest.raises(OSError, match="cut short"):
        parse_dump(data, 0)


# A rank in a network namespace of its own that sends 3 MB to itself when asked to.
ALONE = """
import fcntl, socket, struct, sys
with socket.socket() as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh22x", b"lo", 1 | 64))  # SIOCSIFFLAGS: up, running
listener = socket.create_server(("127.0.0.1", 0))
link = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(300):
    link.sendall(bytes(10_000))
    left = 10_000
    while left: left -= len(other.recv(left))
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def alone() -> Iterator[subprocess.Popen[str]]:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--net", "true"]).returncode:
        pytest.skip("unshare --net is not permitted here")
    command = ["unshare", "--net", sys.executable, "-c", ALONE]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)) as child:
        assert child.stdout.readline() == "ready\n"
        yield child


def test_rank_in_another_network_namespace_is_seen(source: TcpSource, alone: subprocess.Popen[str]) -> None:
    ranks = [Rank("j", "ps", 0, os.getpid(), 1), Rank("j", "worker", 0, alone.pid, 1)]
    before = sample(source, ranks)[1]
    assert before[2] == 2
    say(alone, "go")
    now = wait_for(lambda: (found := sample(source, ranks)[1])[0] - before[0] >= 3_000_000 and found)  # type: ignore
    assert (now[0] - before[0], now[1] - before[1]) == (3_000_000, 3_000_000)
    assert why_unseen("/proc", alone.pid) == ""
    descriptors = len(os.listdir("/proc/self/fd"))
    sample(source, ranks[:1])
    left = descriptors - 2  # its netlink socket, and its count of connections
    assert len(os.listdir("/proc/self/fd")) == left, "a namespace is left when its ranks have gone"


def test_namespace_that_may_not_be_entered_costs_the_others_nothing(
    source: TcpSource, alone: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(namespace: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(sock_diag, "enter_namespace", refuse)
    ranks = [Rank("j", "ps", 0, os.getpid(), 1), Rank("j", "worker", 0, alone.pid, 1)]
    CLOCK.advance(1)
    assert {row.rank for row in source.sample(ranks)} == {ranks[0]}
    why = why_unseen("/proc", alone.pid)
    assert "another network namespace (Operation not permitted)" in why and "as root" in why
    assert why_unseen("/proc", os.getpid()) == why_unseen("/proc", 2**22 + 5) == ""


def test_answer_to_another_request_is_not_ours() -> None:
    assert parse_dump(connection(7, 1, 1) + message(3, bytes(4)), 5) == ([], False)


def test_who_is_not_the_kernel_is_not_believed(listener: socket.socket) -> None:
    """Another process sends a made-up connection to our netlink socket, and the end of the list."""
    link = socket.create_connection(listener.getsockname())
    diag = Diag()
    diag._link.bind((0, 0))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as liar, link:
        data = bytearray(connection(4_000_000_000, 2**60, 5) + message(3, bytes(4)))
        at = 0
        while at < len(data):  # an answer to the first request
            struct.pack_into("=I", data, at + 8, 1)
            at += (struct.unpack_from("=I", data, at)[0] + 3) & ~3
        try:
            liar.sendto(data, (diag._link.getsockname()[0], 0))
        except OSError:
            pytest.skip("this user may not send to netlink sockets of others")
        found = diag.connections()
    diag.close()
    assert found and 4_000_000_000 not in {one.inode for one in found}


def test_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sock_diag, "PATIENCE_S", 0.2)
    monkeypatch.setattr(sock_diag, "_DONE", 99)
    with pytest.raises(TimeoutError):
        list_connections()


def test_list_without_bounds_is_given_up(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    monkeypatch.setattr(sock_diag, "MAX_ROWS", 1)
    with socket.create_connection(listener.getsockname()), pytest.raises(OSError, match="more than 1 conn"):
        list_connections()


class Diags:
    """What each namespace lists, or how it fails, in the place of netlink."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __call__(self, _: str) -> Diags:
        return self

    def connections(self) -> object:
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    def ask(self, known: object) -> None: ...

    def close(self) -> None: ...


def test_namespace_that_failed_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    diags = Diags(TimeoutError())
    monkeypatch.setattr(namespaces, "Diag", diags)
    now = 100 * 10**9
    lists = Lists("/proc", lambda: now)
    assert (lists.connections({1: 1}), lists.listed) == ({}, set())
    diags.answer = [made(5, 1)]
    assert lists.connections({1: 1}) == {}
    now += 11 * 10**9
    assert lists.connections({1: 1}).keys() == {5}
    assert lists.listed == {1}


def test_our_own_namespace_wins_over_what_another_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    own = namespace_of("/proc", os.getpid())
    monkeypatch.setattr(namespaces, "Diag", Diags([made(5, 2**60)]))
    monkeypatch.setattr(namespaces, "list_connections", lambda: [made(5, 7)])
    for places in ({own: 1, 1: 1}, {1: 1, own: 1}):
        assert Lists("/proc").connections(places)[5].sent == 7
