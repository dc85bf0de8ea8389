"""Packets of training processes: whatever a receiver takes, the server takes too."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from typing import Any, cast

from roofline_agent.marks.listener import MarkListener, PeerProcess
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.marks.receiver import MarkReceiver
from roofline_agent.marks.refusals import MALFORMED
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import Batch, EventKind
from roofline_agent.uplink.encoding import encode
from roofline_server.ingest.decode import decode, parse
from roofline_step.packets import (
    FACT,
    VARIABLES,
    StepForm,
    pack_calls,
    pack_fact,
    pack_kernel,
    pack_mark,
    pack_spans,
    pack_steps,
)

from tests.fakes import add_process

from .ingest import RENEW, SECOND, _Stored, memory_folder
from .mutate import mutated
from .running import Reach

PACKETS = 64  # in one input
IDENTITY = {"ROOFLINE_JOB": "j", "ROOFLINE_ROLE": "chief", "ROOFLINE_RANK": "0"}
OWN, WRAPPER, CHILD = 11, 12, 13  # processes


class Link:
    """A connection on which the agent may say something; nobody listens."""

    def send(self, data: bytes, flags: int = 0) -> int:
        return len(data)


class SentPackets:
    """Stands for a listener: two processes are connected, and what they sent waits."""

    surplus = 0

    def __init__(self) -> None:
        self._links = {Link(): PeerProcess(OWN, os.getuid()), Link(): PeerProcess(WRAPPER, os.getuid())}
        self._are_new = True
        self.waiting: list[bytes] = []

    def accept(self) -> list[tuple[object, PeerProcess]]:
        new, self._are_new = (list(self._links.items()) if self._are_new else []), False
        return new

    def users(self) -> int:
        return 1

    def read(self) -> Iterator[tuple[object, PeerProcess, bytes]]:
        links = list(self._links.items())
        for at, data in enumerate(self.waiting):
            yield *links[at % 2], data or b"?"  # nothing at all is the end of a connection


class Marks:
    """Some packets of two processes, one of them a wrapper."""

    def __init__(self) -> None:
        form = StepForm(2, ("phase.input", "engine.allreduce"), 1, 3)
        spans: list[Any] = [("phase.input", 5, 9, None, 1), ("asked.allreduce", 6, 8, 4096, 3)]
        shape = ["onednn", "convolution", "", "f32", "jit", "mb1", 10, 20]
        mark = pack_mark(3, 1, 32, 77)
        self._good = [
            mark,
            pack_mark(1, 2, None, 80, ("worker", 1), True, "forward", 3, 7),
            mark + pack_spans(spans) + mark,
            pack_spans(spans),
            pack_steps(form, [(1, 32, 10, 20, 11, 12, 13, 14, 5), (2, 32, 20, 30, 21, 22, 23, 24, 6)]),
            pack_fact("setting.OMP_NUM_THREADS", "4"),
            FACT + f'{VARIABLES}={{"ROOFLINE_JOB": "k", "ROOFLINE_RANK": "1"}}'.encode(),
            FACT + b"exit=3 123456",
            pack_kernel(0, shape),
            pack_calls([(0, 10, 5), (0, 20, 5)], 5, 50),
            WRAPPED.pack(b"W", CHILD),
        ]
        self._fed = 0
        self._open()

    def _open(self) -> None:
        self._stored, self._folder = _Stored(), memory_folder()
        proc = self._folder / "proc"
        add_process(proc, OWN, IDENTITY)
        add_process(proc, WRAPPER, {})
        add_process(proc, CHILD, {**IDENTITY, "ROOFLINE_RANK": "1"}, parent=WRAPPER)
        self._proc = str(proc)

    def make(self, chance: random.Random) -> list[bytes]:
        parts = [WRAPPED.pack(b"W", CHILD), *self._good[8:9]] if chance.random() < 0.8 else []
        while len(parts) < PACKETS:
            good = chance.choice(self._good)
            parts.append(good if chance.random() < 0.15 else mutated(good, self._good, chance, most=3))
        return parts

    def feed(self, parts: list[bytes]) -> Reach:
        self._fed += 1
        if self._fed % (RENEW // PACKETS) == 0:
            self.close()
            self._open()
        packets = SentPackets()
        receiver = MarkReceiver(cast(MarkListener, packets), Discovery(self._proc), clock=lambda: 1)
        receiver.accept()
        packets.waiting = parts
        receiver.receive()
        marks, spans, calls, events, steps = receiver.take(SECOND)
        batch = Batch(SECOND, 2 * SECOND, marks=marks, spans=spans, calls=calls, events=events, steps=steps)
        # Refused by the server, BadBatch comes out of here: the agent should have left that out.
        decode(parse(encode(batch, 1)).batch, self._stored.node, self._stored.store.name_ids)
        refused = [event for event in events if event.kind is EventKind.REFUSED]
        malformed = sum(event.count for event in refused if event.text == MALFORMED)
        taken = max(0, len(parts) - sum(event.count for event in refused))
        return Reach(len(parts) - malformed, taken)

    def close(self) -> None:
        self._stored.close()
        shutil.rmtree(self._folder, ignore_errors=True)
