"""One agent's stream, as the server keeps it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any

from roofline.v1 import ingest_pb2 as pb

from .commands import Link

log = logging.getLogger(__name__)

MAX_PINGS = 64  # unanswered ones that are remembered


class AgentStream:
    """One agent's stream."""

    def __init__(self, hello: Any, node: int, acked: int, address: str) -> None:
        self.agent: str = hello.agent
        self.instance: str = hello.instance
        self.lineage: str = hello.lineage
        self.exact_acks = bool(hello.exact_acks and hello.lineage)  # recordings have none
        self.node = node
        self.boot: str = hello.boot
        self.nodes_of_before: dict[str, int] = {}  # boot -> node, of batches that waited through a restart
        self.acked = acked  # highest sequence of its lineage when it opened
        self.outgoing: asyncio.Queue[pb.ServerMessage] = asyncio.Queue()
        self.pings: dict[int, int] = {}  # on their way: id -> when sent
        self._numbers = itertools.count(1)
        self.link = Link(hello, self.send, address)
        self.link.received.node = node

    def send(self, message: pb.ServerMessage) -> None:
        self.outgoing.put_nowait(message)

    def acknowledge(self, sequences: Sequence[int], hold_ms: int) -> None:
        """These batches are durable, and the agent should gather for that long before the next ones."""
        if self.exact_acks:
            ack = pb.Ack(kept=sequences, hold_ms=hold_ms)
        else:
            ack = pb.Ack(sequence=max(sequences), hold_ms=hold_ms)
        self.send(pb.ServerMessage(ack=ack))

    def refuse(self, sequence: int, reason: str, taken: bool = False) -> None:
        """A batch is not kept."""
        self.link.received.refused += 1
        log.warning("batch %d of agent %s refused: %s", sequence, self.agent[:8], reason)
        rejection = pb.Rejection(sequence=sequence, reason=reason, taken=taken)
        self.send(pb.ServerMessage(rejection=rejection))

    def ping_once(self) -> int:
        """Send a ping; returns its number."""
        number = next(self._numbers)
        self.pings.pop(number - MAX_PINGS, None)
        self.send(pb.ServerMessage(ping=pb.Ping(id=number)))
        return number
