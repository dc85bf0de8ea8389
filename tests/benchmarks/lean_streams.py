"""Agents' streams that take little of the machine that they share with the server: HTTP/2 by hand.

A connection each, in open loop: samples of 8 ranks a second, gathered and sent when an agent would (its own
rules: uplink/batching.py, which follow what the server asks), whatever the server does. What is the same in
all (times, values) is packed once, what is the agent's own (its ranks) once; behind one another they are one
message, as protobuf merges the parts of a field. Only what gRPC needs of HTTP/2 (RFC 9113) is here.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from functools import lru_cache
from typing import NamedTuple

from roofline.v1 import ingest_pb2 as pb
from roofline_agent.daemon import BUSY, HELD
from roofline_agent.uplink.batching import Batching

from .site import SECOND, counter_set, hello, ints, ranks

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_HEADERS = 1, 4
FIRST_WINDOW, LARGE_WINDOW = 65535, 1 << 30
INITIAL_WINDOW_SIZE = 4  # of SETTINGS
MAX_FRAME = 16_384
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
    """The DATA frames of one gRPC message, uncompressed."""
    whole = struct.pack(">BI", 0, len(data)) + data
    parts = range(0, len(whole), MAX_FRAME)
    return b"".join(frame(DATA, 0, 1, whole[at : at + MAX_FRAME]) for at in parts)


class Acked(NamedTuple):
    """A batch that the server has. Times are node time, ns."""

    held_ns: int  # from its begin to its end
    sent_ns: int
    acked_ns: int

    @property
    def seconds(self) -> float:
        """From its sending to its ack."""
        return (self.acked_ns - self.sent_ns) / SECOND

    @property
    def age_s(self) -> float:
        """Of the oldest that it can hold, when it is durable."""
        return self.seconds + self.held_ns / SECOND


class LeanStream(asyncio.Protocol):
    """One agent. Its node time is CLOCK_MONOTONIC of this machine."""

    def __init__(self, number: int, authority: str, metrics: int, after: int = 0) -> None:
        """after: what it had sent before it came; metrics: counters of a sample."""
        lineage, boot = f"{number:032x}", f"boot-agent-{number}"
        greeting = hello(f"agent-{number}")
        greeting.hello.protocol, greeting.hello.lineage, greeting.hello.exact_acks = 2, lineage, True
        self._hello = greeting.SerializeToString()
        own = pb.Batch(ranks=ranks("bench", RANKS * number, RANKS))
        self._own = pb.AgentMessage(batch=own, lineage=lineage, boot=boot).SerializeToString()
        self._authority, self._metrics, self._chance = authority, metrics, random.Random(number).random
        self._sequence = after
        self._begin_ns = 0
        self._batching: Batching | None = None  # while it makes batches
        self._hold_ns = 0
        self.sent = 0
        self.acked: list[Acked] = []
        self.failed = ""
        self.welcome = asyncio.Event()
        self._on_their_way: dict[int, tuple[int, int]] = {}  # number -> held, sent
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
            self._answer(found)

    def _answer(self, found: pb.ServerMessage) -> None:
        kind, now = found.WhichOneof("kind"), time.monotonic_ns()
        if kind == "welcome":
            self._follow(found.welcome.hold_ms)
            self.welcome.set()
        elif kind == "ack":
            self._follow(found.ack.hold_ms)
            self.acked += [Acked(*self._on_their_way.pop(number), now) for number in found.ack.kept]
        elif kind == "ping":
            pong = pb.Pong(id=found.ping.id, server_ns=found.ping.server_ns, received_ns=now, sent_ns=now)
            self._write(message(pb.AgentMessage(pong=pong).SerializeToString()))

    def _follow(self, hold_ms: int) -> None:
        self._hold_ns = 1_000_000 * hold_ms
        if self._batching:
            self._batching.hold_ns = self._hold_ns

    def begin(self) -> None:
        """Make batches from now on."""
        self._begin_ns = time.monotonic_ns()
        self._batching = Batching(self._begin_ns, self._chance)
        self._batching.hold_ns = self._hold_ns
        self._batching.due(self._begin_ns)  # follows that
        self._wait()

    def end(self) -> None:
        """Make no more."""
        self._batching = None

    @property
    def waits(self) -> bool:
        """Whether the server has not acknowledged all of it."""
        return bool(self._on_their_way)

    def _wait(self) -> None:
        assert self._batching
        asyncio.get_running_loop().call_at(self._batching.next_ns / SECOND, self._close_batch)

    def _close_batch(self) -> None:
        if self._batching is None or self.failed:
            return
        begin, end = self._begin_ns, time.monotonic_ns()
        if self._batching.due(end):
            self._sequence += 1
            part = pb.Batch(sequence=self._sequence, begin_ns=begin, end_ns=end)
            if held_ns := self._batching.held_ns:
                text = f"{HELD}{held_ns / 1e9:g} s: {BUSY}"
                part.events.add(kind=pb.EVENT_KIND_FACT, rank=-1, begin_ns=begin, end_ns=end, text=text)
            samples = samples_of(begin // SECOND, end // SECOND, self._metrics)
            data = samples + self._own + pb.AgentMessage(batch=part).SerializeToString()
            self._on_their_way[self._sequence] = end - begin, end
            self._write(message(data))
            self.sent += 1
            self._begin_ns = end
            self._batching.closed(end, SECOND, len(data))
        self._wait()

    def _write(self, data: bytes) -> None:
        if len(data) > self._window or self._waiting:
            self._waiting.append(data)
        else:
            self._window -= len(data)
            self._transport.write(data)

    def close(self) -> None:
        self._transport.abort()


@lru_cache(maxsize=64)
def samples_of(first: int, last: int, metrics: int) -> bytes:
    """A message with the samples of RANKS ranks at each whole second after the first, up to the last."""
    times = [second * SECOND for second in range(first + 1, last + 1) for _ in range(RANKS)]
    columns = [ints(time_ns // 1000 * (metric + 1) for time_ns in times) for metric in range(metrics)]
    batch = pb.Batch(counter_sets=[counter_set(metrics)])
    if times:
        rank = ints(number % RANKS for number in range(len(times)))
        batch.samples.add(counter_set=0, rank=rank, time_ns=ints(times), columns=columns)
    return pb.AgentMessage(batch=batch).SerializeToString()


class Sent(NamedTuple):
    """What became of the batches of all streams."""

    sent: int
    acked: list[list[Acked]]  # of all streams, by the second since they began in which they were sent
    welcomed_s: float  # from the first connection to the last welcome
    failed: list[str]

    @property
    def is_complete(self) -> bool:
        return not self.failed and sum(map(len, self.acked)) == self.sent


async def stream_openly(
    address: str,
    streams: int,
    seconds: int,
    metrics: int,
    first: int = 0,
    connecting_s: float = CONNECTING_S,
    after: int = 0,
) -> Sent:
    """So many agents that come within some seconds and then sample once a second, for so many seconds.

    first: number of the first of them, where others have been there before; after: batches that each sent
    then."""
    loop, (host, port) = asyncio.get_running_loop(), address.rsplit(":", 1)
    connecting = time.monotonic()

    async def connect(number: int) -> LeanStream:
        await asyncio.sleep(max(0.0, connecting + number * connecting_s / streams - time.monotonic()))
        _, agent = await loop.create_connection(
            lambda: LeanStream(first + number, address, metrics, after), host, int(port)
        )
        return agent

    agents = await asyncio.gather(*map(connect, range(streams)))
    for agent in agents:
        await agent.welcome.wait()
    welcomed_s, begin_ns = time.monotonic() - connecting, time.monotonic_ns()
    for agent in agents:
        agent.begin()
    await asyncio.sleep(seconds)
    for agent in agents:
        agent.end()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and any(agent.waits for agent in agents):
        await asyncio.sleep(0.05)
    by_second: list[list[Acked]] = [[] for _ in range(seconds + 1)]
    for one in (one for agent in agents for one in agent.acked):
        by_second[min(seconds, (one.sent_ns - begin_ns) // SECOND)].append(one)
    found = Sent(
        sum(agent.sent for agent in agents),
        by_second,
        welcomed_s,
        [agent.failed for agent in agents if agent.failed],
    )
    for agent in agents:
        agent.close()
    return found
