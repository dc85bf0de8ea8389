"""No connection is missed for want of a walk, and there is no walk while none was opened."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from roofline_agent.sources import sock_diag
from roofline_agent.sources.listing import Listing, parse_opened
from roofline_agent.sources.sock_diag import CLOSE_WAIT, MAX_ASKED, SYN_SENT, Connection, Diag

FIN_WAIT1 = 4


def made(inode: int, sent: int = 0, state: int = 1) -> Connection:
    return Connection(inode, sent, 0, b"", state=state)


class Kernel:
    """A table of connections, and how often it is asked in which way."""

    def __init__(self, snmp: Path) -> None:
        self.snmp = snmp
        self.table: dict[int, Connection] = {}
        self.answers = True
        self.walks = 0
        self.asked: list[int] = []
        self.opens(0)

    def opens(self, count: int) -> None:
        names, values = "RtoMin ActiveOpens PassiveOpens InErrs", f"200 {count} 5 1"
        self.snmp.write_text(f"Ip: Forwarding\nIp: 1\nTcp: {names}\nTcp: {values}\nUdp: InErrors\nUdp: 0\n")

    def walk(self) -> list[Connection]:
        self.walks += 1
        return list(self.table.values())

    def ask(self, known: Sequence[Connection]) -> list[Connection] | None:
        self.asked += [one.inode for one in known]
        found = [self.table[one.inode] for one in known if one.inode in self.table]
        return found if self.answers and len(found) == len(known) else None


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path / "snmp")


@pytest.fixture
def listing(kernel: Kernel) -> Iterator[Listing]:
    with closing(Listing(str(kernel.snmp), kernel.walk, kernel.ask)) as made:
        yield made


def settled(kernel: Kernel, listing: Listing) -> None:
    """Two walks without a change between them, and the count of walks starts again."""
    for _ in range(2):
        listing.connections(())
    kernel.walks = 0


def test_connections_opened_are_those_of_both_sides() -> None:
    with open("/proc/net/snmp", "rb") as file:
        before = parse_opened(file.read())
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_connection(one.getsockname()):
        pass
    with open("/proc/net/snmp", "rb") as file:
        after = parse_opened(file.read())
    assert before is not None and after is not None and after >= before + 2


@pytest.mark.parametrize(
    "text",
    [None, b"", b"Tcp: ActiveOpens\n", b"Tcp: ActiveOpens PassiveOpens\nTcp: 1\n", b"Tcp: A B\nTcp: 1 2\n"],
)
def test_count_that_cannot_be_read_is_none(text: bytes | None) -> None:
    assert parse_opened(text) is None


def test_while_none_is_opened_only_what_ranks_own_is_asked(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {1: made(1), 2: made(2), 3: made(3)}
    settled(kernel, listing)
    kernel.table[2] = made(2, 77)
    assert listing.connections((2, 9))[2].sent == 77
    assert (kernel.walks, kernel.asked) == (0, [2])
    assert listing.connections(()).keys() == {1, 2, 3}, "what is known stays known"
    assert kernel.walks == 0


def test_one_that_is_opened_is_seen_at_once(kernel: Kernel, listing: Listing) -> None:
    settled(kernel, listing)
    kernel.opens(1)
    kernel.table[5] = made(5)
    assert listing.connections(()).keys() == {5}


def test_one_that_is_counted_before_it_stands_in_the_table_is_seen_with_the_next_sample(
    kernel: Kernel, listing: Listing
) -> None:
    settled(kernel, listing)
    kernel.opens(1)
    assert listing.connections(()) == {}
    kernel.table[5] = made(5)
    assert listing.connections(()).keys() == {5}
    kernel.walks = 0
    listing.connections((5,))
    assert kernel.walks == 0


@pytest.mark.parametrize(
    "waiting", [made(5, state=SYN_SENT), made(0), made(0, state=CLOSE_WAIT)], ids=["answer", "accept", "left"]
)
def test_one_that_waits_is_looked_for_until_it_is_somebodys(
    kernel: Kernel, listing: Listing, waiting: Connection
) -> None:
    kernel.table = {0: waiting}
    for _ in range(5):
        assert listing.connections(()) == {}
    kernel.table = {5: made(5)}
    assert listing.connections(()).keys() == {5}


def test_one_that_is_closing_and_nobodys_is_no_reason_to_look(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {0: made(0, state=FIN_WAIT1)}
    settled(kernel, listing)
    assert listing.connections(()) == {}
    assert kernel.walks == 0


def test_one_that_has_gone_is_gone(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {1: made(1), 2: made(2)}
    settled(kernel, listing)
    del kernel.table[2]
    assert listing.connections((1, 2)).keys() == {1}
    listing.connections((1,))
    assert kernel.walks == 1, "and asking goes on"


def test_kernel_that_does_not_know_what_it_lists_is_not_asked_again(kernel: Kernel, listing: Listing) -> None:
    kernel.table, kernel.answers = {1: made(1, 4)}, False
    settled(kernel, listing)
    for _ in range(3):
        assert listing.connections((1,))[1].sent == 4
    assert (kernel.walks, kernel.asked) == (3, [1])


def test_all_are_listed_where_it_is_wanted_or_nothing_else_helps(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {inode: made(inode) for inode in range(1, MAX_ASKED + 2)}
    settled(kernel, listing)
    listing.connections(None)
    listing.connections(kernel.table.keys())
    assert (kernel.walks, kernel.asked) == (2, [])
    kernel.snmp.write_text("")
    listing.connections((1,))
    listing.connections((1,))
    assert (kernel.walks, kernel.asked) == (4, [])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_kernel_says_of_one_what_it_says_of_all(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = "::" if "." in host and ":" in host else host
    server = socket.create_server((bound, 0), family=family, dualstack_ipv6=bound == "::")
    with server as listener, closing(Diag()) as diag:
        links = [socket.create_connection((host, listener.getsockname()[1])) for _ in range(3)]
        others = [listener.accept()[0] for _ in links]
        mine = {os.fstat(one.fileno()).st_ino for one in (*links, *others)}
        before = [one for one in diag.connections() if one.inode in mine]
        assert len(before) == 6
        links[0].sendall(b"x" * 1000)
        others[0].recv(1000, socket.MSG_WAITALL)
        asked = diag.ask(before)
        assert asked is not None
        assert {one.inode: (one.sent, one.received, one.ends) for one in asked} == {
            one.inode: (one.sent, one.received, one.ends) for one in diag.connections() if one.inode in mine
        }
        assert max(one.sent for one in asked) >= 1000
        for one in links:
            one.close()
        for one in others:
            one.close()
        assert diag.ask(before) is None


def test_kernel_that_refuses_a_question_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Connection(1, 0, 0, bytes([socket.AF_INET]) + bytes(36), mark=bytes(12))
    with closing(Diag()) as diag:
        assert diag.ask([known]) is None, "there is no such connection"
        monkeypatch.setattr(sock_diag, "_BY_FAMILY", 99)
        assert diag.ask([known, known]) is None, "and no such question"
        assert diag.connections() is not None, "the next answer is the next question's"


def yes() -> bool:
    return True


def no() -> bool:
    return False


def test_connections_of_others_cost_no_walk(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {1: made(1, sent=4)}
    kernel.opens(1)
    listing.connections((1,), yes)
    kernel.walks = 0
    for count in range(2, 6):  # some other program's
        kernel.opens(count)
        kernel.table[1] = made(1, sent=count)
        assert listing.connections((1,), yes)[1].sent == count
    assert kernel.walks == 0
    kernel.opens(6)
    kernel.table[7] = made(7)
    assert listing.connections(None, yes).keys() == {1, 7}, "all are known when all are asked for"


def test_file_that_a_rank_has_opened_is_looked_for_twice(kernel: Kernel, listing: Listing) -> None:
    settled(kernel, listing)
    kernel.opens(1)
    assert listing.connections((), no) == {}, "counted, and not in the table yet"
    kernel.opens(2)
    kernel.table = {5: made(5)}
    assert listing.connections((), yes).keys() == {5}


def test_connection_under_way_is_looked_for_until_it_stands(kernel: Kernel, listing: Listing) -> None:
    settled(kernel, listing)
    kernel.opens(1)
    kernel.table = {5: made(5, state=SYN_SENT)}
    for _ in range(3):
        assert listing.connections((), yes) == {}
    kernel.table = {5: made(5)}
    assert listing.connections((), yes).keys() == {5}


def test_connection_in_place_of_another_is_found(kernel: Kernel, listing: Listing) -> None:
    kernel.table = {1: made(1)}
    kernel.opens(1)
    listing.connections((1,), yes)
    kernel.opens(2)
    kernel.table = {2: made(2)}
    assert listing.connections((1,), yes).keys() == {2}
