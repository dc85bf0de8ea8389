"""The way from a wrapper to the agent: never blocks for long, claims only what it sent."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline_step._sender import ABSENT, FACT, HEADER, MAX_SPANS, Span, pack_fact, pack_spans, trusted

from ..marks.packets import CALLS, KERNEL, WRAPPED
from ..records import KernelShape, MarkKind
from ..verbose import TimedCall

RECONNECT_S = 1.0
CALLS_PER_PACKET = 2000
MAX_WAITING = 200_000
MAX_PACKETS = 20_000  # marks and spans that wait for an agent which does not read
DROPPED = "wrapper.dropped"  # the fact that tells how many did not reach one
DRAIN_S, DRAIN_EVERY_S = 5.0, 0.005


class Border(NamedTuple):
    """A step ended here and the next began."""

    step: int
    examples: int | None
    time_ns: int  # node time


class AgentLink:
    """Kernel calls, spans, marks and facts of the wrapped command; comes and goes with the agent."""

    def __init__(self, pid: int, paths: Sequence[str]) -> None:
        self._pid = pid
        self._paths = paths
        self._socket: socket.socket | None = None
        self._retry = 0.0
        self._known: dict[KernelShape, int] = {}
        self._waiting: list[TimedCall] = []
        self._covered_ns = 0
        self._packets: deque[bytes] = deque()
        self._dropped = 0
        self._facts: dict[str, str] = {}
        self._connect()

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def introduce(self) -> None:
        """Let the agent find out whose kernels these are, while that rank is alive; claims nothing."""
        self.give_up_until(time.monotonic_ns())
        self.send_calls([], self._covered_ns)

    def send_all(self, calls: list[TimedCall], begin_ns: int, end_ns: int, complete: bool) -> bool:
        """Hand over all kernels between two moments of the past, waiting for the agent if need be; False when
        it does not take them. complete: the agent may count on there having been no others."""
        self.give_up_until(begin_ns)
        until = time.monotonic() + DRAIN_S
        through = end_ns if complete else begin_ns
        self.send_calls(calls, through)
        while self._waiting and self.connected and time.monotonic() < until:
            time.sleep(DRAIN_EVERY_S)
            self.send_calls([], through)
        return self.connected and not self._waiting

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
                self._drop(self._packets)  # of the agent that was here before
                self._packets.clear()
                for name, value in self._facts.items():
                    link.send(pack_fact(name, value))
            except OSError:
                link.close()
                continue
            self._socket, self._known, self._waiting = link, {}, []
            self._covered_ns = time.monotonic_ns()
            return

    def send_calls(self, calls: list[TimedCall], through_ns: int) -> None:
        """Hand over calls; all that ended before `through_ns` (node time) have been given by now."""
        if not self._ready():
            return
        self._waiting += calls
        try:
            self._send_waiting(through_ns)
        except BlockingIOError:
            if len(self._waiting) > MAX_WAITING:
                self.give_up_until(through_ns)
        except OSError:
            self._hang_up()
        except (struct.error, OverflowError):  # times that cannot be
            self.give_up_until(through_ns)

    def send_spans(self, spans: Sequence[Span]) -> None:
        """Hand over stretches of time of the command (node time)."""
        self._send_packets([pack_spans(spans[at : at + MAX_SPANS]) for at in range(0, len(spans), MAX_SPANS)])

    def send_borders(self, borders: Sequence[Border]) -> None:
        """Say where steps of the command ended."""
        self._send_packets([_mark(border) for border in borders])

    def send_fact(self, name: str, value: str) -> None:
        """Say something that holds from now on; said again to every agent that comes later."""
        if self._facts.get(name) != value:
            self._facts[name] = value
            connected = self._socket is not None
            if self._ready() and connected:  # a new connection says all facts by itself
                self._send_packets([pack_fact(name, value)])

    def _send_packets(self, packets: Sequence[bytes]) -> None:
        if not self._ready():
            self._drop(packets)
            return
        self._packets += packets
        self._drop_oldest()
        try:
            while self._packets:
                self._socket.send(self._packets[0])  # type: ignore[union-attr]
                self._packets.popleft()
        except BlockingIOError:
            pass  # the agent reads in strides; what waits goes with the next packets
        except OSError:
            self._hang_up()

    def _drop_oldest(self) -> None:
        too_many = len(self._packets) - MAX_PACKETS
        if too_many > 0:
            self._drop([self._packets.popleft() for _ in range(too_many)])
            self._packets.append(pack_fact(DROPPED, self._facts[DROPPED]))

    def _drop(self, packets: Iterable[bytes]) -> None:
        """Count what no agent will hear; facts are said again."""
        count = sum(packet[:1] != FACT[:1] for packet in packets)
        if count:
            self._dropped += count
            self._facts[DROPPED] = f"{self._dropped} packets of marks and spans"

    def _ready(self) -> bool:
        """Whether there is an agent; tries to find one once a second."""
        if self._socket is None and time.monotonic() >= self._retry:
            self._connect()
        return self._socket is not None

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def give_up_until(self, node_ns: int) -> None:
        """Claim nothing before this moment: kernels were missed."""
        self._waiting, self._covered_ns = [], node_ns

    def _send_waiting(self, through_ns: int) -> None:
        to_node_time = time.monotonic_ns() - time.time_ns()
        while True:
            some = self._waiting[:CALLS_PER_PACKET]
            last = len(some) == len(self._waiting)
            # Coverage is claimed only once the last of these calls is on its way.
            until = through_ns if last else self._covered_ns
            self._packet(some, to_node_time, until)
            del self._waiting[: len(some)]
            self._covered_ns = until
            if last:
                return

    def _packet(self, calls: list[TimedCall], to_node_time: int, until: int) -> None:
        assert self._socket is not None
        kernels = [self._number(call.shape) for call in calls]
        starts = [call.start_ns + to_node_time for call in calls]
        durations = [call.duration_ns for call in calls]
        columns = struct.pack(f"<{3 * len(calls)}q", *kernels, *starts, *durations)
        self._socket.send(CALLS.pack(b"C", len(calls), self._covered_ns, until) + columns)

    def _number(self, shape: KernelShape) -> int:
        number = self._known.get(shape)
        if number is None:
            assert self._socket is not None
            number = len(self._known)
            self._socket.send(KERNEL.pack(b"K", number) + json.dumps(shape).encode())
            self._known[shape] = number
        return number


def _mark(border: Border) -> bytes:
    examples = ABSENT if border.examples is None else border.examples
    return HEADER.pack(b"M", MarkKind.BORDER, 0, 0, 0, 0, -1, border.step, examples, border.time_ns)
