"""Sends packets to the agent's Unix socket. Never blocks, never raises, and counts what it had to drop."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Sequence, Tuple

from ._descriptor import File, file_of
from ._signals import raise_again
from .packets import (
    CALLS_IN_PACKET,
    MAX_SPANS,
    STARTED_WITH,
    Mark,
    Span,
    StepForm,
    pack_calls,
    pack_fact,
    pack_kernel,
    pack_mark,
    pack_spans,
    pack_steps,
)
from .sockets import socket_paths, trusted
from .variables import lost_variables

MAX_FACTS = 256  # of one process
MAX_KERNELS = 4096  # likewise
RETRY_NS = 1000000000
HOLD_NS = 25000000  # so long short steps are held, to be sent together
SURE_NS = 1000000  # so long after a look a descriptor is taken to be ours: a look takes 1 us
CONNECT_WAIT_S = 0.05  # at most so long a thread waits while another one connects
DROPPED_SPANS = "spans.dropped"  # the fact with their number

HeldStep = Tuple[StepForm, Tuple[int, ...]]  # and its numbers

_now = time.monotonic_ns


class Sender:
    """A connection that comes and goes with the agent."""

    def __init__(self, paths: Optional[List[str]] = None) -> None:
        self._paths = paths
        self._socket: Optional[socket.socket] = None
        self._file: Optional[File] = None  # what its descriptor stands for
        self._sure_ns = 0
        self.before_end: List[Callable[[], None]] = []  # called before the last of what is held is sent
        self._facts: Dict[str, str] = {}
        self._kernels: Dict[Tuple[object, ...], int] = {}
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child needs a connection of its own: the agent reads the peer's pid when it connects.
        self.close()
        self._connecting = threading.Lock()
        self._connector = 0  # the thread that connects
        self._retry_ns = 0
        self._was_connected = False
        self.dropped = 0  # marks since the last one that was sent
        self.dropped_spans = self._reported_spans = 0  # in all, and how many of them the agent knows of
        self._report_ns = 0
        self.held: Deque[HeldStep] = deque()  # steps that are sent together (_layout.py)
        self.sent_ns = 0  # when the last of those before had ended
        self.hold_ns = HOLD_NS

    @property
    def connected(self) -> bool:
        """Whether there is an agent, as far as is known."""
        return self._socket is not None

    @property
    def can_hold(self) -> bool:
        """Whether steps may be held: there is an agent, and no drops have to be reported."""
        return self._socket is not None and not self.dropped and self.dropped_spans == self._reported_spans

    def close(self) -> None:
        """Leave the agent; what is sent next looks for one again."""
        connection, self._socket = self._socket, None
        if connection is None:
            return
        if self._is_ours(connection):
            connection.close()
        else:
            connection.detach()

    def off(self, marks: int = 1, spans: int = 0) -> bool:
        """True while there is no agent; tries to find one once a second. marks, spans: how many are dropped
        then."""
        if self._socket is not None:
            if self.held:
                self.send_held()
            return False
        if _now() >= self._retry_ns:
            # When a signal's handler marks, this thread may be the one that connects: it would wait forever.
            mine = self._connector == threading.get_ident()
            if mine or not self._connecting.acquire(timeout=CONNECT_WAIT_S):
                self._count_dropped(marks, spans)
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
            self._count_dropped(marks, spans)
        return True

    def _count_dropped(self, marks: int, spans: int) -> None:
        self.dropped += marks
        self.dropped_spans += spans

    def _connect(self) -> bool:
        """Connect to the first agent that listens, and send it all facts."""
        if os.environ.get("ROOFLINE_DISABLE", "") not in ("", "0"):
            return False
        uid = os.getuid()
        for path in self._paths or socket_paths():
            if not trusted(path, uid):
                continue
            try:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            except OSError:
                raise_again()
                continue
            try:
                connection.setblocking(False)
                # As many marks as the kernel will hold until the agent reads again.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                connection.connect(path)
            except OSError:
                connection.close()
                raise_again()
                continue
            if not self._was_connected:
                self._send_at_exit()
            self._file, self._sure_ns = file_of(connection.fileno()), _now() + SURE_NS
            self._socket = connection
            self._was_connected = True
            lost = lost_variables()
            if lost is not None:
                self._put(pack_fact(STARTED_WITH, lost), 0, 0)
            for name, value in list(self._facts.items()):
                self._put(pack_fact(name, value), 0, 0)
            for description, number in list(self._kernels.items()):
                self._put(pack_kernel(number, description), 0, 0)
            return True
        return False

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
        """Send one mark; without an agent or on any trouble count it as dropped."""
        if self.off():
            return
        try:
            now = _now() if time_ns is None else time_ns
            packet = pack_mark(kind, step, examples, now, of, asynchronous, str(phase), self.dropped)
            self._send_marks(packet, 1, 0)
        except Exception:
            raise_again()
            self.dropped += 1

    def send_step(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        """Send the marks of a step and the spans between them in one packet, or count them as dropped."""
        if self.off(len(marks), len(spans)):
            return
        try:
            packet, dropped = b"", self.dropped
            for mark in marks:
                packet += pack_mark(
                    *mark[:6], phase="", dropped=dropped, like=mark[6] if len(mark) > 6 else 0
                )
                dropped = 0
            rest = spans[MAX_SPANS:] if len(spans) > MAX_SPANS else ()
            packet = packet + pack_spans(spans[:MAX_SPANS]) if spans else packet
            self._send_marks(packet, len(marks), len(spans) - len(rest))
            self.send_spans(rest)
        except Exception:
            raise_again()
            self._count_dropped(len(marks), len(spans))

    def _send_marks(self, packet: bytes, marks: int, spans: int) -> None:
        if not self._put(packet, marks, spans):
            return
        self.dropped = 0  # the packet has reported them
        if self.dropped_spans != self._reported_spans and _now() >= self._report_ns:
            self._report_ns = _now() + RETRY_NS
            self._reported_spans = self.dropped_spans
            self.send_fact(DROPPED_SPANS, self._reported_spans)

    def send_spans(self, spans: Sequence[Span]) -> None:
        """Send spans of this process; on any trouble count them as dropped."""
        for at in range(0, len(spans), MAX_SPANS):
            some = spans[at : at + MAX_SPANS]
            try:
                if not self.off(0, len(some)):
                    self._put(pack_spans(some), 0, len(some))
            except Exception:
                raise_again()
                self.dropped_spans += len(some)

    def send_fact(self, name: str, value: object) -> None:
        """Send something that holds from now on; sent again to every agent that comes later."""
        try:
            if name not in self._facts and len(self._facts) >= MAX_FACTS:
                return
            self._facts[name] = str(value)
            connected = self._socket is not None
            # A new connection sends all facts by itself.
            if not self.off(0) and connected:
                self._put(pack_fact(name, self._facts[name]), 0, 0)
        except Exception:
            raise_again()  # nothing that was measured is lost with another

    def describe_kernel(self, description: Tuple[object, ...]) -> Optional[int]:
        """The number of a kernel in `send_calls`; None where it has none. Described to every agent that comes
        later, too."""
        try:
            number = self._kernels.get(description)
            if number is None and len(self._kernels) < MAX_KERNELS:
                packet = pack_kernel(len(self._kernels), description)
                number = self._kernels[description] = len(self._kernels)
                connected = self._socket is not None
                if not self.off(0) and connected:
                    self._put(packet, 0, 0)
            return number
        except Exception:
            raise_again()
            return None

    def send_calls(self, calls: Sequence[Tuple[int, int, int]], begin_ns: int, through_ns: int) -> None:
        """Send executed kernels; time for which that fails is not claimed."""
        try:
            for at in range(0, len(calls), CALLS_IN_PACKET):
                some = calls[at : at + CALLS_IN_PACKET]
                last = at + len(some) == len(calls)
                if self.off(0) or not self._put(
                    pack_calls(some, begin_ns, through_ns if last else begin_ns), 0, 0
                ):
                    return
        except Exception:
            raise_again()  # so it is not claimed

    def send_held(self) -> None:
        """Send the steps that are held, in one packet."""
        held, alike = self.held, {}  # type: Deque[HeldStep], Dict[StepForm, List[Tuple[int, ...]]]
        while held:
            try:
                form, numbers = held.popleft()
            except IndexError:  # another thread was at it
                break
            alike.setdefault(form, []).append(numbers)
        parts, marks, spans = [], 0, 0
        for form, rows in alike.items():
            part, packed = _pack_those_that_can_be(form, rows)
            parts.append(part)
            marks, spans = marks + packed * form.marks, spans + packed * len(form.names)
            lost = len(rows) - packed
            if lost:
                self._count_dropped(lost * form.marks, lost * len(form.names))
        if marks:
            self._put(b"".join(parts), marks, spans)

    def _send_at_exit(self) -> None:
        """Have the steps that are held sent when this process ends, however Python ends it."""
        atexit.register(self._end)
        _before_exit_at_once(self._end)
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:  # its children skip what atexit does
            try:
                multiprocessing.Finalize(None, self._end, exitpriority=0)
            except Exception:
                raise_again()

    def _end(self) -> None:
        self.hold_ns = 0  # what hooks send after this goes at once
        self.finish_held()

    def finish_held(self) -> None:
        """Send all that is held, here and by the hooks."""
        for call in self.before_end:
            try:
                call()
            except Exception:
                raise_again()
        self.off(0)

    def _put(self, packet: bytes, marks: int, spans: int) -> bool:
        """Send a packet; marks, spans: how many are dropped when that fails."""
        try:
            if _now() >= self._sure_ns:
                self._make_sure()
            self._socket.send(packet)  # type: ignore[union-attr]
            return True
        except BlockingIOError:
            self._count_dropped(marks, spans)
        except Exception:
            self._count_dropped(marks, spans)
            raise_again()
            self._close_if_broken()
        return False

    def _make_sure(self) -> None:
        """What the training has closed may be its own by now: then there is to be another connection."""
        connection = self._socket
        if connection is None:
            return
        if self._is_ours(connection):
            self._sure_ns = _now() + SURE_NS
            return
        self.close()
        self.off(0)

    def _is_ours(self, connection: socket.socket) -> bool:
        return self._file is not None and file_of(connection.fileno()) == self._file

    def _close_if_broken(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            connection.getpeername()
            broken = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
            if not broken:
                # The agent never writes on this socket, so it is readable only at its end.
                connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                broken = True
        except BlockingIOError:
            broken = False
        except Exception:
            raise_again()
            broken = True
        if broken:
            self.close()


def _pack_those_that_can_be(form: StepForm, rows: Sequence[Tuple[int, ...]]) -> Tuple[bytes, int]:
    """The record of these steps without those whose numbers do not fit, and how many are in it."""
    try:
        return pack_steps(form, rows), len(rows)
    except Exception:
        raise_again()
        if len(rows) == 1:
            return b"", 0
        each = [_pack_those_that_can_be(form, [row]) for row in rows]
        return b"".join(part for part, _ in each), sum(packed for _, packed in each)


_ends: List[Tuple[int, Callable[[], None]]] = []  # process, what it calls before os._exit()


def _before_exit_at_once(end: Callable[[], None]) -> None:
    """Have this called before os._exit(), too, by which some programs end their ranks; not in forked ones,
    which end that way themselves."""
    _ends.append((os.getpid(), end))
    if len(_ends) > 1:
        return
    leave = os._exit

    @functools.wraps(leave)
    def _exit(status: int) -> None:
        for process, call in _ends:
            if process == os.getpid():
                try:
                    call()
                except Exception:  # also of a signal's handler: the process ends, whatever happens
                    continue
        leave(status)

    _exit.__module__ = "os"  # where pickle finds this one
    os._exit = _exit  # type: ignore[assignment]
