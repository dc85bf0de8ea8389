"""A receiver on a real socket, and packets as ranks and wrappers send them."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path

from roofline_agent.marks.listener import MarkListener
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.marks.receiver import MarkReceiver
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import Call, Event, EventKind, KernelShape, Mark, Span, StepRows
from roofline_step.packets import ABSENT, CALLS, KERNEL, MARK

from tests.fakes import add_process

SHAPE = KernelShape("onednn", "convolution", "", "f32", "jit", "mb1", 10, 20)
IDENTITY = {"ROOFLINE_JOB": "j", "ROOFLINE_ROLE": "chief", "ROOFLINE_RANK": "0"}


class Site:
    """A receiver on a real socket with a made-up /proc in which this test's process is a rank."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.proc.mkdir()
        add_process(self.proc, os.getpid(), IDENTITY)
        self.discovery = Discovery(str(self.proc))
        self.listener = MarkListener(root / "agent.sock", everyone=True)
        self.now_ns = 1_000_000_000
        self.receiver = MarkReceiver(self.listener, self.discovery, clock=lambda: self.now_ns)
        self.spans: list[Span] = []  # of the last take
        self.steps: list[StepRows] = []  # likewise
        self.links: list[socket.socket] = []

    def connect(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(str(self.listener.path))
        self.links.append(link)
        return link

    def take(self) -> tuple[list[Mark], list[Call], list[Event]]:
        self.receiver.accept()
        self.receiver.receive()
        received = self.receiver.take(1)
        self.spans, self.steps = received.spans, received.steps
        return received.marks, received.calls, received.events

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.listener.close()


def mark(
    kind: int = 3,
    step: int = 1,
    of: tuple[bytes, int] = (b"", -1),
    dropped: int = 0,
    examples: int = ABSENT,
    time_ns: int = 77,
    phase: bytes = b"",
) -> bytes:
    sizes = len(of[0]), len(phase)
    return MARK.pack(b"M", kind, 0, *sizes, 0, dropped, of[1], step, examples, time_ns) + of[0] + phase


def kernel(number: int = 0, body: object = SHAPE) -> bytes:
    return KERNEL.pack(b"K", number) + json.dumps(body).encode()


def calls_packet(*calls: tuple[int, int, int], begin: int = 0, through: int = 100) -> bytes:
    columns = [call[n] for n in range(3) for call in calls]
    return CALLS.pack(b"C", len(calls), begin, through) + struct.pack(f"<{len(columns)}q", *columns)


def wrapped(site: Site, pid: int | None = None) -> socket.socket:
    link = site.connect()
    link.send(WRAPPED.pack(b"W", os.getpid() if pid is None else pid))
    return link


def covered(events: list[Event]) -> list[tuple[int, int]]:
    return sorted((e.begin_ns, e.end_ns) for e in events if e.kind is EventKind.KERNELS_COVERED)


SPAN = ("phase.input", 10, 20, None, 1)


def lost(events: list[Event]) -> dict[str, int]:
    return {event.text: event.count for event in events if event.kind == EventKind.LOST}


def flood(site: Site, link: socket.socket, packet: bytes, times: int) -> None:
    site.receiver.accept()
    for _ in range(times):
        link.send(packet)
        site.receiver.receive()
