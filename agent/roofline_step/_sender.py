"""Sends marks to the agent's Unix socket: one small packet each, or nothing at all.

A packet is one record, or several marks and spans behind one another. All numbers are little-endian.
A mark: b"M", kind u8, flags u8 (bit 0: asynchronous), role length u8, phase length u8, 3 bytes of padding,
marks dropped since the last packet u32, index i32 (-1: the sender itself), step i64, examples i64 (-2^63: not
said), time i64 (CLOCK_MONOTONIC, ns), then role and phase in UTF-8.
Spans (stretches of time of the sender): b"S", 3 bytes of padding, bytes of names u32, rows u32, the names in
UTF-8 with a NUL between them, then per row name, begin, end, bytes, count as i64.
Facts: b"F", 3 bytes of padding, then "name=value" in UTF-8.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

HEADER = struct.Struct("<sBBBB3xIiqqq")
SPANS = struct.Struct("<s3xII")
SPAN_VALUES = 5
MAX_SPANS = 1024  # in one packet
FACT = b"F\0\0\0"
MAX_FACTS, MAX_FACT = 256, 4096  # facts of one process, bytes of one
ABSENT = -(2**63)

Span = Tuple[str, int, int, Optional[int], int]  # name, begin and end (monotonic ns), bytes, count
# kind, step, examples, time (monotonic ns), of whom, asynchronous
Mark = Tuple[int, int, Optional[int], int, Optional[Tuple[str, int]], bool]

# What is the same in the records of spans of the same names: steps are alike.
_layouts: Dict[Tuple[str, ...], Tuple[bytes, List[int], struct.Struct]] = {}
MAX_LAYOUTS = 256
RETRY_NS = 1000000000
PATIENCE_S = 0.05  # that a thread waits for another one to have connected, at most
DROPPED_SPANS = "spans.dropped"  # the fact that tells how many

_now = time.monotonic_ns


def socket_paths(environ: Mapping[str, str] = os.environ, uid: Optional[int] = None) -> List[str]:
    """Where an agent may listen, first choice first.

    ROOFLINE_SOCKET overrides all. An agent of the same user comes before the system's.
    """
    if environ.get("ROOFLINE_SOCKET"):
        return [environ["ROOFLINE_SOCKET"]]
    uid = os.getuid() if uid is None else uid
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = os.path.join(runtime, "roofline") if runtime else "/tmp/roofline-%d" % uid
    return [os.path.join(own, "agent.sock"), "/run/roofline/agent.sock"]


def trusted(path: str, uid: int) -> bool:
    """Whether the socket at `path` belongs to this user or to root: others may not read our marks."""
    try:
        return os.stat(path).st_uid in (0, uid)
    except OSError:
        return False


class Sender:
    """A connection that comes and goes with the agent."""

    def __init__(self, paths: Optional[List[str]] = None) -> None:
        self._paths = paths
        self._socket: Optional[socket.socket] = None
        self._facts: Dict[str, str] = {}
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        # A forked child needs a connection of its own: the agent reads the peer's pid when it connects.
        inherited, self._socket = self._socket, None
        if inherited is not None:
            inherited.close()
        self._connecting = threading.Lock()
        self._connector = 0  # the thread that connects
        self._retry_ns = 0
        self._was_connected = False
        self.dropped = 0  # marks since the last one that was sent
        self.dropped_spans = self._told_spans = 0  # in all, and of them told
        self._tell_ns = 0

    def off(self, marks: int = 1, spans: int = 0) -> bool:
        """True while there is no agent to talk to; tries to find one once a second. marks, spans: how many
        are not sent then."""
        if self._socket is not None:
            return False
        if _now() >= self._retry_ns:
            # When a signal's handler marks it may be this thread that connects: waiting would be for ever.
            mine = self._connector == threading.get_ident()
            if mine or not self._connecting.acquire(timeout=PATIENCE_S):
                self._lose(marks, spans)
                return True
            self._connector = threading.get_ident()
            try:
                if self._socket is not None or (_now() >= self._retry_ns and self._connect()):
                    return False
                self._retry_ns = _now() + RETRY_NS
            finally:
                self._connector = 0
                self._connecting.release()
        if self._was_connected:
            self._lose(marks, spans)
        return True

    def _lose(self, marks: int, spans: int) -> None:
        self.dropped += marks
        self.dropped_spans += spans

    def _connect(self) -> bool:
        uid = os.getuid()
        return any(trusted(path, uid) and self._open(path) for path in self._paths or socket_paths())

    def _open(self, path: str) -> bool:
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return False
        try:
            connection.setblocking(False)
            # As many marks as the kernel will hold until the agent looks again.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            connection.connect(path)
        except OSError:
            connection.close()
            return False
        self._socket = connection
        self._was_connected = True
        for name, value in list(self._facts.items()):
            self._put(pack_fact(name, value), 0, 0)
        return True

    def send(
        self,
        kind: int,
        step: int,
        examples: Optional[int],
        time_ns: Optional[int],
        of: Optional[Tuple[str, int]],
        asynchronous: bool,
        phase: object,
    ) -> None:
        """Send one mark; on any trouble count it as dropped."""
        try:
            now = _now() if time_ns is None else time_ns
            packet = self._mark(kind, step, examples, now, of, asynchronous, str(phase), self.dropped)
            self._send_marks(packet, 1, 0)
        except Exception:
            self.dropped += 1

    def send_step(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """Send the marks of a step and what lay between them in one packet; a failure counts as dropped."""
        try:
            packet, dropped = b"", self.dropped
            for kind, step, examples, time_ns, of, asynchronous in marks:
                packet += self._mark(kind, step, examples, time_ns, of, asynchronous, "", dropped)
                dropped = 0
            rest = spans[MAX_SPANS:] if len(spans) > MAX_SPANS else ()
            packet = packet + pack_spans(spans[:MAX_SPANS]) if spans else packet
            self._send_marks(packet, len(marks), len(spans) - len(rest))
            self.send_spans(rest)
        except Exception:
            self._lose(len(marks), len(spans))

    def _mark(
        self,
        kind: int,
        step: int,
        examples: Optional[int],
        time_ns: int,
        of: Optional[Tuple[str, int]],
        asynchronous: bool,
        phase: str,
        dropped: int,
    ) -> bytes:
        role, index = (of[0].encode(), of[1]) if of is not None else (b"", -1)
        name = (
            phase.encode()[:64].decode(errors="ignore").encode() if phase else b""
        )  # cut between characters
        said = ABSENT if examples is None else examples
        flags = 1 if asynchronous else 0
        header = (b"M", kind, flags, len(role), len(name), dropped & 0xFFFFFFFF, index, step, said, time_ns)
        return HEADER.pack(*header) + role + name

    def _send_marks(self, packet: bytes, marks: int, spans: int) -> None:
        if self._put(packet, marks, spans):
            self.dropped = 0  # it has been told
            if self.dropped_spans != self._told_spans:
                self._tell_dropped_spans()

    def _tell_dropped_spans(self) -> None:
        now = _now()
        if now >= self._tell_ns:
            self._tell_ns = now + RETRY_NS
            self._told_spans = self.dropped_spans
            self.send_fact(DROPPED_SPANS, self._told_spans)

    def send_spans(self, spans: Sequence[Span]) -> None:
        """Send stretches of time of this process; on any trouble count them as dropped."""
        for at in range(0, len(spans), MAX_SPANS):
            some = spans[at : at + MAX_SPANS]
            try:
                if not self.off(0, len(some)):
                    self._put(pack_spans(some), 0, len(some))
            except Exception:
                self.dropped_spans += len(some)

    def send_fact(self, name: str, value: object) -> None:
        """Say something that holds from now on; said again to every agent that comes later."""
        try:
            if name not in self._facts and len(self._facts) >= MAX_FACTS:
                return
            self._facts[name] = str(value)
            connected = self._socket is not None
            # A new connection says all facts by itself.
            if not self.off(0) and connected:
                self._put(pack_fact(name, self._facts[name]), 0, 0)
        except Exception:
            return  # it stands for nothing that was measured

    def _put(self, packet: bytes, marks: int, spans: int) -> bool:
        """Send a packet; marks, spans: how many are lost when that fails."""
        try:
            self._socket.send(packet)  # type: ignore[union-attr]
            return True
        except BlockingIOError:
            self._lose(marks, spans)
        except Exception:
            self._lose(marks, spans)
            self._close_if_broken()
        return False

    def _close_if_broken(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            connection.getpeername()
            broken = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 or _hung_up(connection)
        except Exception:
            broken = True
        if broken:
            self._socket = None
            connection.close()


def pack_spans(spans: Sequence[Span]) -> bytes:
    """The record of these spans."""
    names = tuple([span[0] for span in spans])
    known = _layouts.get(names)
    if known is None:
        numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
        text = "\0".join(numbers).encode()
        rows = struct.Struct("<%dq" % (SPAN_VALUES * len(names)))
        known = SPANS.pack(b"S", len(text), len(names)) + text, [numbers[name] for name in names], rows
        if len(_layouts) < MAX_LAYOUTS:
            _layouts[names] = known
    head, which, rows = known
    values: List[int] = []
    for number, (_, begin, end, size, count) in zip(which, spans):  # noqa: B905 - Python 3.8
        values += (number, begin, end, ABSENT if size is None else size, count)
    return head + rows.pack(*values)


def pack_fact(name: str, value: str) -> bytes:
    """One packet."""
    return FACT + ("%s=%s" % (name, value)).encode(errors="replace")[:MAX_FACT]


def _hung_up(connection: socket.socket) -> bool:
    # The agent never writes on this socket, so a readable one has ended.
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True
