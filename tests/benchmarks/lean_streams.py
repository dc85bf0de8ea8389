"""Agents' streams that take little of the machine that they share with the server: HTTP/2 by hand.

A connection each, in open loop: a batch a second, whatever the server does. What is the same in all (times,
values) is packed once a second, what is the agent's own (its ranks) once; behind one another they are one
message, as protobuf merges the parts of a field. Only what gRPC needs of HTTP/2 (RFC 9113) is here.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from typing import NamedTuple

from roofline.v1 import ingest_pb2 as pb

from .site import hello, ranks, sample_batch

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_HEADERS = 1, 4
FIRST_WINDOW, LARGE_WINDOW = 65535, 1 << 30
INITIAL_WINDOW_SIZE = 4  # of SETTINGS
RANKS = 8
CONNECTING_S, PATIENCE_S = 4.0, 20.0


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(authority: str) -> bytes:
    """The request of Ingest.Stream, each header literally (RFC 7541, 6.2.2)."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/roofline.v1.Ingest/Stream",
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


def message(data: bytes) -> bytes:
    """The DATA frame of one gRPC message, uncompressed."""
    return frame(DATA, 0, 1, struct.pack(">BI", 0, len(data)) + data)


class LeanStream(asyncio.Protocol):
    """One agent."""

    def __init__(self, number: int, authority: str) -> None:
        self._hello = hello(f"agent-{number}").SerializeToString()
        own = pb.Batch(ranks=ranks("bench", RANKS * number, RANKS))
        self.own = pb.AgentMessage(batch=own).SerializeToString()
        self._authority = authority
        self.acked = 0
        self.latency: list[float] = []  # of its batches in their order
        self.failed = ""
        self.welcome = asyncio.Event()
        self._sent_at: dict[int, float] = {}
        self._in, self._body = bytearray(), bytearray()
        self._waiting: list[bytes] = []
        self._window = FIRST_WINDOW

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, LARGE_WINDOW))
        more = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGE_WINDOW))
        request = frame(HEADERS, END_HEADERS, 1, headers(self._authority))
        transport.write(PREFACE + settings + more + request + message(self._hello))

    def connection_lost(self, error: Exception | None) -> None:
        self.failed = self.failed or f"the connection was lost: {error}"
        self.welcome.set()

    def data_received(self, data: bytes) -> None:
        self._in += data
        while len(self._in) >= 9:
            size = int.from_bytes(self._in[:3], "big")
            if len(self._in) < 9 + size:
                return
            kind, flags, stream = struct.unpack_from(">BBI", self._in, 3)
            payload = bytes(self._in[9 : 9 + size])
            del self._in[: 9 + size]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._body += payload
            self._read_messages()
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._transport.write(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and not stream:
            self._window += struct.unpack(">I", payload)[0]
            waiting, self._waiting = self._waiting, []
            for data in waiting:
                self._write(data)
        elif kind in (RESET, GOAWAY):
            self.failed = f"the server ended the stream ({payload!r})"

    def _read_messages(self) -> None:
        while len(self._body) >= 5:
            size = int.from_bytes(self._body[1:5], "big")
            if len(self._body) < 5 + size:
                return
            found = pb.ServerMessage.FromString(bytes(self._body[5 : 5 + size]))
            del self._body[: 5 + size]
            kind = found.WhichOneof("kind")
            if kind == "welcome":
                self.welcome.set()
            elif kind == "ack":
                for sequence in range(self.acked + 1, found.ack.sequence + 1):
                    self.latency.append(time.monotonic() - self._sent_at.pop(sequence))
                self.acked = found.ack.sequence
            elif kind == "ping":
                now = time.monotonic_ns()
                pong = pb.Pong(id=found.ping.id, server_ns=found.ping.server_ns, received_ns=now, sent_ns=now)
                self._write(message(pb.AgentMessage(pong=pong).SerializeToString()))

    def send(self, sequence: int, batch: bytes) -> None:
        self._sent_at[sequence] = time.monotonic()
        self._write(message(batch + self.own))

    def _write(self, data: bytes) -> None:
        if len(data) > self._window or self._waiting:
            self._waiting.append(data)
        else:
            self._window -= len(data)
            self._transport.write(data)

    def close(self) -> None:
        self._transport.abort()


class Sent(NamedTuple):
    """What became of the batches of all streams."""

    sent: int
    acked: int
    latency: list[list[float]]  # s from the sending of a batch to its ack, of all streams, second by second
    welcomed_s: float  # from the first connection to the last welcome
    failed: list[str]


async def stream_openly(address: str, streams: int, seconds: int, metrics: int, first: int = 0) -> Sent:
    """So many agents that come within some seconds and then send a batch a second each, spread over it.

    first: number of the first of them, where others have been there before."""
    loop, (host, port) = asyncio.get_running_loop(), address.rsplit(":", 1)
    begin = time.monotonic()
    agents: list[LeanStream] = []
    for number in range(streams):
        await asyncio.sleep(max(0.0, begin + number * CONNECTING_S / streams - time.monotonic()))
        _, agent = await loop.create_connection(
            lambda n=first + number: LeanStream(n, address), host, int(port)
        )  # type: ignore[misc]
        agents.append(agent)
    for agent in agents:
        await agent.welcome.wait()
    welcomed_s = time.monotonic() - begin
    order = random.Random(1).sample(agents, len(agents))
    begin = time.monotonic()
    for sequence in range(1, seconds + 1):
        now = time.monotonic_ns()
        batch = sample_batch(sequence, RANKS, metrics, now - 1_000_000_000)
        batch.batch.ClearField("ranks")
        data = batch.SerializeToString()
        for number, agent in enumerate(order):
            due = begin + sequence - 1 + number / len(order)
            if due > time.monotonic():
                await asyncio.sleep(due - time.monotonic())
            elif number % 20 == 0:
                await asyncio.sleep(0)
            agent.send(sequence, data)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and any(agent.acked < seconds for agent in agents):
        await asyncio.sleep(0.05)
    found = Sent(
        seconds * streams,
        sum(agent.acked for agent in agents),
        [[agent.latency[at] for agent in agents if at < len(agent.latency)] for at in range(seconds)],
        welcomed_s,
        [agent.failed for agent in agents if agent.failed],
    )
    for agent in agents:
        agent.close()
    return found
