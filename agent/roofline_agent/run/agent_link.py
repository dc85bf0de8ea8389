"""Sends the kernel calls, spans, marks and facts of a wrapped command to the agent.

It never blocks for long, and claims to know only those stretches of time whose kernels it has sent.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline_step.packets import CALLS, FACT, KERNEL, MAX_SPANS, Span, pack_fact, pack_mark, pack_spans
from roofline_step.sockets import trusted

from ..marks.packets import FEWER, SEEN, STEP_US, TRACE, WRAPPED
from ..records import KernelShape, MarkKind
from ..verbose import KernelStretch, TimedCall

RECONNECT_S = 1.0
CALLS_PER_PACKET = 2000
MAX_WAITING = 200_000
MAX_PACKETS = 20_000  # marks and spans that wait for an agent which does not read
DROPPED = "wrapper.dropped"  # the fact with the number of those that did not reach one
DRAIN_S, DRAIN_EVERY_S = 5.0, 0.005
_CREDENTIALS = struct.Struct("3i")  # of the peer: pid, uid, gid


class Border(NamedTuple):
    """A step ended here and the next began."""

    step: int
    examples: int | None
    time_ns: int  # node time


class AgentLink:
    """A connection that comes and goes with the agent."""

    def __init__(self, pid: int, paths: Sequence[str]) -> None:
        """pid: of the wrapped command. paths: where an agent may listen, first choice first."""
        self._pid = pid
        self._paths = paths
        self._socket: socket.socket | None = None
        self._retry = 0.0
        self._kernels: dict[KernelShape, int] = {}  # the numbers this agent knows them by
        self._waiting: list[TimedCall] = []
        self._covered_ns = 0
        self._packets: deque[bytes] = deque()
        self._dropped = 0
        self._facts: dict[str, str] = {}
        self._fewer = 1
        self._traces: list[tuple[int, int]] = []
        self._step_us = 0
        self._seen = False
        self._connect()

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def agent(self) -> int:
        """The process of the agent; 0: none, or it is not known here."""
        if self._socket is None:
            return 0
        try:
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return 0
        return int(_CREDENTIALS.unpack(credentials)[0])

    def take_fewer(self) -> int:
        """How many times fewer steps the agent wants kernels of; 1: it does not ask, or there is none."""
        self._receive()
        return self._fewer

    def take_traces(self) -> list[tuple[int, int]]:
        """How many of the next steps the agent wants traced, each time it has asked since the last call, and
        how long one usually lasts, us; 0: that is not known."""
        self._receive()
        traces, self._traces = self._traces, []
        return traces

    def is_seen(self, wait_s: float) -> bool:
        """Whether the agent knows a rank of the command; it has so long to say so."""
        until = time.monotonic() + wait_s
        self._receive()
        while not self._seen and self.connected and time.monotonic() < until:
            time.sleep(DRAIN_EVERY_S)
            self._receive()
        return self._seen

    def _receive(self) -> None:
        """What the agent asks for."""
        try:
            while self._socket is not None:
                data = self._socket.recv(FEWER.size)
                if not data:
                    self.close()
                elif len(data) == FEWER.size and data[:1] == b"N":
                    self._fewer = max(1, int(FEWER.unpack(data)[1]))
                elif data == SEEN.pack(b"R"):
                    self._seen = True
                elif len(data) == STEP_US.size and data[:1] == b"D":
                    self._step_us = int(STEP_US.unpack(data)[1])
                elif len(data) == TRACE.size and data[:1] == b"P":
                    self._traces.append((int(TRACE.unpack(data)[1]), self._step_us))
        except BlockingIOError:
            pass  # that was all
        except OSError:
            self.close()

    @property
    def waiting_packets(self) -> int:
        """Packets of marks, spans and facts that the agent has not taken yet."""
        return len(self._packets)

    def introduce(self) -> None:
        """Let the agent find the rank of these kernels, while it is alive; claims nothing."""
        self.claim_nothing_before(time.monotonic_ns())
        self.send_calls([], self._covered_ns)

    def send_all(self, calls: list[TimedCall], begin_ns: int, end_ns: int, complete: bool) -> bool:
        """Send all kernels between two moments of the past, waiting for the agent if need be; False when it
        does not take them. complete: there have been no others."""
        self.claim_nothing_before(begin_ns)
        until = time.monotonic() + DRAIN_S
        through = end_ns if complete else begin_ns
        self.send_calls(calls, through)
        while self._waiting and self.connected and time.monotonic() < until:
            time.sleep(DRAIN_EVERY_S)
            self.send_calls([], through)
        return self.connected and not self._waiting

    def send_calls(self, calls: list[TimedCall], through_ns: int) -> None:
        """Send calls; all that ended before `through_ns` (node time) have been given by now."""
        if not self._connect_if_due():
            return
        self._waiting += calls
        try:
            self._send_waiting(through_ns)
        except BlockingIOError:
            if len(self._waiting) > MAX_WAITING:
                self.claim_nothing_before(through_ns)
        except OSError:
            self.close()
        except (struct.error, OverflowError):  # times that cannot be
            self.claim_nothing_before(through_ns)

    def send_stretches(self, stretches: Sequence[KernelStretch]) -> None:
        """Send the calls of stretches of which every kernel is known; of the time between them nothing is."""
        for stretch in stretches:
            if self._waiting:  # the agent does not read: what waits is no longer whole
                self.claim_nothing_before(stretch.begin_ns)
            self._covered_ns = stretch.begin_ns
            self.send_calls(stretch.calls, stretch.end_ns)

    def claim_nothing_before(self, node_ns: int) -> None:
        """Kernels before this moment were missed: drop those that wait, and claim only what follows."""
        self._waiting, self._covered_ns = [], node_ns

    def send_spans(self, spans: Sequence[Span]) -> None:
        """Send spans of the command (node time)."""
        self._send_packets([pack_spans(spans[at : at + MAX_SPANS]) for at in range(0, len(spans), MAX_SPANS)])

    def send_borders(self, borders: Sequence[Border]) -> None:
        """Send where steps of the command ended."""
        self._send_packets([pack_mark(MarkKind.BORDER, *border) for border in borders])

    def send_fact(self, name: str, value: str) -> None:
        """Send something that holds from now on; sent again to every agent that comes later."""
        if self._facts.get(name) != value:
            self._facts[name] = value
            connected = self._socket is not None
            if self._connect_if_due() and connected:  # a new connection sends all facts by itself
                self._send_packets([pack_fact(name, value)])

    def close(self) -> None:
        """End the connection; the next thing that is sent looks for an agent again."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._fewer = None, 1

    def _connect_if_due(self) -> bool:
        """Whether there is an agent; tries to find one once a second."""
        if self._socket is None and time.monotonic() >= self._retry:
            self._connect()
        return self._socket is not None

    def _connect(self) -> None:
        self._retry = time.monotonic() + RECONNECT_S
        for path in self._paths:
            if not trusted(path, os.getuid()):
                continue
            try:
                link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            except OSError:
                return
            try:
                link.setblocking(False)
                link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                link.connect(path)
                link.send(WRAPPED.pack(b"W", self._pid))
                self._count_dropped(self._packets)  # of the agent that was here before
                self._packets.clear()
                for name, value in self._facts.items():
                    link.send(pack_fact(name, value))
            except OSError:
                link.close()
                continue
            self._socket, self._kernels, self._waiting = link, {}, []
            self._covered_ns = time.monotonic_ns()
            return

    def _send_packets(self, packets: Sequence[bytes]) -> None:
        if not self._connect_if_due():
            self._count_dropped(packets)
            return
        self._packets += packets
        too_many = len(self._packets) - MAX_PACKETS
        if too_many > 0:
            self._count_dropped([self._packets.popleft() for _ in range(too_many)])
            if DROPPED in self._facts:
                self._packets.append(pack_fact(DROPPED, self._facts[DROPPED]))
        try:
            while self._packets:
                self._socket.send(self._packets[0])  # type: ignore[union-attr]
                self._packets.popleft()
        except BlockingIOError:
            pass  # the agent reads a few times a second; what waits goes with the next packets
        except OSError:
            self.close()

    def _count_dropped(self, packets: Iterable[bytes]) -> None:
        """Count packets that no agent will receive; facts are sent again."""
        count = sum(packet[:1] != FACT[:1] for packet in packets)
        if count:
            self._dropped += count
            self._facts[DROPPED] = f"{self._dropped} packets of marks and spans"

    def _send_waiting(self, through_ns: int) -> None:
        """Send the calls that wait, each after the description of its kernel. Raises OSError."""
        assert self._socket is not None
        to_node_time = time.monotonic_ns() - time.time_ns()
        while True:
            some = self._waiting[:CALLS_PER_PACKET]
            last = len(some) == len(self._waiting)
            # Coverage is claimed only once the last of these calls is on its way.
            until = through_ns if last else self._covered_ns
            for call in some:
                if call.shape not in self._kernels:
                    number = len(self._kernels)
                    self._socket.send(KERNEL.pack(b"K", number) + _described(call.shape))
                    self._kernels[call.shape] = number
            kernels = [self._kernels[call.shape] for call in some]
            starts = [call.start_ns + to_node_time for call in some]
            durations = [call.duration_ns for call in some]
            columns = struct.pack(f"<{3 * len(some)}q", *kernels, *starts, *durations)
            self._socket.send(CALLS.pack(b"C", len(some), self._covered_ns, until) + columns)
            del self._waiting[: len(some)]
            self._covered_ns = until
            if last:
                return


def _described(shape: KernelShape) -> bytes:
    """As JSON. An agent of an earlier release does not know the last two fields, which are rarely set."""
    is_plain = shape.on_gpu is None and shape.counted is None
    return json.dumps(shape[:-2] if is_plain else shape).encode()
