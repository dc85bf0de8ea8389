"""Lists TCP connections with the kernel's own counts for each, by netlink's sock_diag(7)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .peers import Endpoint, endpoint

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, linux/tcp.h
_NETLINK_SOCK_DIAG = 4
_KERNEL = (0, 0)  # port and groups
_TCPDIAG_GETSOCK = 18  # the older request, which lists IPv4 and IPv6 in one walk through the kernel's table
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY, here for one socket at a time
_REQUEST, _REQUEST_DUMP = 0x1, 0x301  # NLM_F_REQUEST, and that with NLM_F_DUMP
_DONE, _ERROR = 3, 2
_INET_DIAG_INFO = 2
ESTABLISHED, SYN_SENT, CLOSE_WAIT = 1, 2, 8  # net/tcp_states.h
# These, FIN_WAIT1, FIN_WAIT2, LAST_ACK and CLOSING: whatever has bytes of someone's, or will have.
_STATES = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_HEADER = struct.Struct("=IHHII")
_DUMP = struct.Struct("=BBBB48xII")
_ASK = struct.Struct("=BBBxI48s")  # struct inet_diag_req_v2
_ATTRIBUTE = struct.Struct("=HH")
_BYTES = struct.Struct("=QQ")
_RATE = struct.Struct("=QQQ")
_DIAG_SIZE, _INODE_AT = 72, 68
_ENDS_AT, _ENDS_END = 4, 40  # of struct inet_diag_sockid: two ports, two addresses of up to 16 bytes
_ID_END = (
    52  # of it all: behind them an interface and what distinguishes a socket from a later one with these ends
)
_STATE_AT = 1
_BYTES_ACKED_AT = 120  # in struct tcp_info; bytes_received follows
_RATE_AT = 160  # delivery_rate, byte/s; busy_time and rwnd_limited follow, microseconds; from Linux 4.10 on
_UNREAD_AT = 56  # idiag_rqueue
PATIENCE_S = 2.0  # for a whole list
MAX_ROWS = 200_000
_ANSWER = 1 << 13  # bytes at most, to one question
MAX_ASKED = 64  # at a time: the answers have room in a socket's buffer


class Connection(NamedTuple):
    inode: int
    sent: int
    received: int
    ends: bytes  # family and both addresses, as the kernel has them
    unread: int = 0  # bytes that have come and that the process has not taken yet
    busy_ns: int | None = None  # in which data were on their way or waited to be; None: an old kernel
    limited_ns: int | None = None  # of it, in which the far end had no room for more
    state: int = ESTABLISHED
    mark: bytes = b""  # with `ends` the kernel's name for it
    rate: int = 0  # byte/s at which the far end acknowledged what was sent last; 0: not known, or no link

    def addresses(self) -> tuple[Endpoint, Endpoint]:
        """The rank's own end and the far one."""
        ports, size = self.ends[1:5], 4 if self.ends[0] == socket.AF_INET else 16
        own, far = self.ends[5 : 5 + size], self.ends[21 : 21 + size]
        return (
            endpoint(own, int.from_bytes(ports[:2], "big")),
            endpoint(far, int.from_bytes(ports[2:], "big")),
        )


def parse_dump(data: bytes, sequence: int) -> tuple[list[Connection], bool]:
    """The connections in one netlink datagram that answers request `sequence`, and whether the dump is
    complete.

    Raises OSError with the kernel's error number when the kernel refused.
    """
    found: list[Connection] = []
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, answers, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            raise OSError(errno.EBADMSG, "netlink message cut short")
        if answers != sequence:
            at += (length + 3) & ~3
            continue
        if kind == _DONE:
            return found, True
        if kind == _ERROR:
            number = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
            raise OSError(number, os.strerror(number))
        found.extend(_connection(data, at + _HEADER.size, at + length))
        at += (length + 3) & ~3
    return found, False


def _connection(data: bytes, begin: int, end: int) -> Iterator[Connection]:
    inode = int.from_bytes(data[begin + _INODE_AT : begin + _INODE_AT + 4], "little")
    at = begin + _DIAG_SIZE
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        # Kernels before 4.2 have a shorter tcp_info without byte counts.
        if kind == _INET_DIAG_INFO and length >= 4 + _BYTES_ACKED_AT + _BYTES.size:
            sent, received = _BYTES.unpack_from(data, at + 4 + _BYTES_ACKED_AT)
            ends = data[begin : begin + 1] + data[begin + _ENDS_AT : begin + _ENDS_END]
            unread = int.from_bytes(data[begin + _UNREAD_AT : begin + _UNREAD_AT + 4], "little")
            busy, limited, rate = None, None, 0
            if length >= 4 + _RATE_AT + _RATE.size:
                rate, busy_us, limited_us = _RATE.unpack_from(data, at + 4 + _RATE_AT)
                busy, limited = 1000 * busy_us, 1000 * limited_us
                rate = 0 if _is_loopback(ends) else rate
            state, mark = data[begin + _STATE_AT], data[begin + _ENDS_END : begin + _ID_END]
            yield Connection(inode, sent, received, ends, unread, busy, limited, state, mark, rate)
        at += max(4, (length + 3) & ~3)


def _is_loopback(ends: bytes) -> bool:
    """Whether no link lies between these: what is acknowledged late there was read late."""
    own, far = ends[5:21], ends[21:37]
    return own == far or (ends[0] == socket.AF_INET and own[0] == 127)


def list_connections() -> list[Connection]:
    """All TCP connections of our network namespace. Raises OSError where sock_diag is not allowed."""
    with contextlib.closing(Diag()) as diag:
        return diag.connections()


class Diag:
    """A way to the list of one network namespace."""

    def __init__(self, namespace: str | None = None) -> None:
        """namespace: /proc/PID/ns/net of another one than ours, which takes root. Raises OSError."""
        self._link = _socket_in(namespace) if namespace else _socket()
        self._sequence = 0

    def connections(self) -> list[Connection]:
        """All TCP connections there. After an OSError this one is of no use any more."""
        found: list[Connection] = []
        self._sequence += 1
        until = time.monotonic() + PATIENCE_S
        body = _DUMP.pack(socket.AF_UNSPEC, 0, 0, 1 << (_INET_DIAG_INFO - 1), _STATES, 0)
        size = _HEADER.size + len(body)
        header = _HEADER.pack(size, _TCPDIAG_GETSOCK, _REQUEST_DUMP, self._sequence, 0)
        self._link.sendto(header + body, _KERNEL)
        complete = False
        while not complete:
            part, complete = parse_dump(self._receive(until), self._sequence)
            found.extend(part)
            if len(found) > MAX_ROWS:
                raise OSError(errno.E2BIG, f"more than {MAX_ROWS} connections")
        return found

    def ask(self, known: Sequence[Connection]) -> list[Connection] | None:
        """At most MAX_ASKED connections as they are now, without a walk through the kernel's table.

        None when it does not answer for each of them: one has gone, or it keeps still. After an OSError as
        `connections`.
        """
        first = self._sequence + 1
        self._sequence += len(known)
        questions = b""
        for sequence, one in enumerate(known, first):
            family, name = one.ends[0], one.ends[1:] + one.mark
            body = _ASK.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _STATES, name)
            size = _HEADER.size + len(body)
            questions += _HEADER.pack(size, _BY_FAMILY, _REQUEST, sequence, 0) + body
        self._link.sendto(questions, _KERNEL)
        self._link.setblocking(False)  # the kernel has answered by now
        found: list[Connection] = []
        # All answers are read, for one that is left over would be taken for that of a later question.
        for sequence in range(first, self._sequence + 1):
            found += self._receive_one(sequence)
        return found if len(found) == len(known) else None

    def _receive_one(self, sequence: int) -> list[Connection]:
        """The answer to one question of several; nothing when the kernel refuses."""
        while True:
            data, (port, _) = self._link.recvfrom(_ANSWER)
            if port == _KERNEL[0] and _HEADER.unpack_from(data)[3] == sequence:
                with contextlib.suppress(OSError):
                    return parse_dump(data, sequence)[0]
                return []

    def _receive(self, until: float) -> bytes:
        """The kernel's next datagram; any process of the namespace may send here, too."""
        while (left := until - time.monotonic()) > 0:
            self._link.settimeout(left)
            data, (port, _) = self._link.recvfrom(1 << 18)
            if port == _KERNEL[0]:
                return data
        raise TimeoutError(errno.ETIMEDOUT, f"the list took longer than {PATIENCE_S:g} s")

    def close(self) -> None:
        self._link.close()


def _socket() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)


def _socket_in(namespace: str) -> socket.socket:
    """A socket belongs to the namespace it was made in, and a thread may go elsewhere alone."""
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            enter_namespace(namespace)
            made.append(_socket())
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make, name="netns")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def enter_namespace(namespace: str) -> None:
    """Move the calling thread, and it alone, to a network namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
