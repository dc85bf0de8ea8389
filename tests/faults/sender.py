"""A lean agent that knows what it sent and what was acknowledged, and forgets nothing of either.

As an agent does, it keeps a batch until it is acknowledged, never sends it again afterwards, and comes back
when the stream ends. What a batch holds follows from its number, so that a checker knows what must be there.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

import grpc
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2

DATASET, COLUMN = "faults", "row"
RANKS, STEPS = 2, 2  # of each sender; of each rank in a batch
WINDOW = 64  # batches without an ack
RETRY_S, SILENCE_S = 0.1, 4.0
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Latency(NamedTuple):
    """How long the ack of a batch took, and when it came, s."""

    at: float
    seconds: float


def row_id(sender: int, sequence: int, row: int) -> int:
    """The value of a row: no two are the same, and those of a rank only grow."""
    return sender << 48 | sequence << 16 | row


def job_of(sender: int) -> str:
    return f"faults-{sender % 2}"


def ranks_of(sender: int) -> list[int]:
    """Indices of its ranks in the role "worker" of its job."""
    return [sender * RANKS + at for at in range(RANKS)]


def ints(values: Iterable[int]) -> bytes:
    return array("q", values).tobytes()


def made_batch(sender: int, sequence: int, rows: int, begin_ns: int, end_ns: int) -> pb.AgentMessage:
    """Batch of this number: `rows` samples, and STEPS steps of each rank."""
    ranks = [
        pb.Rank(
            job=job_of(sender), role="worker", index=i, pid=1000 + i, start_ns=1, framework="faults", world=1
        )
        for i in ranks_of(sender)
    ]
    length = max(1, (end_ns - begin_ns) // rows)
    samples = pb.Samples(
        counter_set=0,
        rank=ints(row % RANKS for row in range(rows)),
        time_ns=ints(begin_ns + row * length for row in range(rows)),
        columns=[ints(row_id(sender, sequence, row) for row in range(rows))],
    )
    schema = pb.CounterSet(
        name=DATASET,
        metrics=[
            pb.Metric(
                name=COLUMN,
                kind=pb.METRIC_KIND_CUMULATIVE,
                unit="1",
                scope=machine_pb2.SCOPE_PROCESS,
                provenance=machine_pb2.PROVENANCE_MEASURED,
            )
        ],
    )
    batch = pb.Batch(
        sequence=sequence,
        begin_ns=begin_ns,
        end_ns=end_ns,
        ranks=ranks,
        counter_sets=[schema],
        samples=[samples],
        marks=_marks(sequence, begin_ns, end_ns),
    )
    return pb.AgentMessage(batch=batch)


def _marks(sequence: int, begin_ns: int, end_ns: int) -> pb.Marks:
    """Begin and end of each step, one step after the other."""
    length = (end_ns - begin_ns) // (STEPS + 1)
    marks = [
        (rank, kind, (sequence - 1) * STEPS + at, begin_ns + at * length + (kind - 1) * (length - 1))
        for rank in range(RANKS)
        for at in range(STEPS)
        for kind in (pb.MARK_KIND_BEGIN, pb.MARK_KIND_END)
    ]
    n = len(marks)
    return pb.Marks(
        rank=ints(m[0] for m in marks),
        sender=ints(m[0] for m in marks),
        kind=ints(m[1] for m in marks),
        step=ints(m[2] for m in marks),
        examples=ints([32] * n),
        time_ns=ints(m[3] for m in marks),
        phase=ints([-1] * n),
        flags=ints([0] * n),
    )


class Sender:
    """One agent; `run` is its life."""

    def __init__(self, number: int, address: Callable[[], str], rows: int = 8) -> None:
        """address: HOST:PORT where the server is to be reached now."""
        self.number, self.rows = number, rows
        self.sequence = self.acked = 0
        self.forgotten = 0  # batches that were acknowledged, and that a server did not know later
        self.refused: list[str] = []
        self.latencies: list[Latency] = []
        self.sessions = 0
        self._address = address
        self._kept: dict[int, bytes] = {}
        self._made_at: dict[int, float] = {}
        self._end_ns = time.monotonic_ns()
        self._outgoing: asyncio.Queue[bytes] | None = None
        self._sent = 0
        self._heard = 0.0
        self._gave_up = False

    @property
    def waiting(self) -> int:
        """Batches without an ack."""
        return len(self._kept)

    @property
    def name(self) -> str:
        return f"faults-{self.number}"

    def make(self) -> bool:
        """Make the next batch and send it; False where too many wait."""
        if len(self._kept) >= WINDOW:
            return False
        self.sequence += 1
        begin_ns, self._end_ns = self._end_ns, time.monotonic_ns()
        batch = made_batch(self.number, self.sequence, self.rows, begin_ns, self._end_ns)
        self._kept[self.sequence] = batch.SerializeToString()
        self._made_at[self.sequence] = time.monotonic()
        self._push()
        return True

    async def run(self) -> None:
        """Be connected, over and over, until cancelled."""
        while True:
            self._gave_up = False
            try:
                await self._session()
            except grpc.aio.AioRpcError:
                pass
            except asyncio.CancelledError:
                # A call that was given up raises what a task does that is asked to end.
                if not self._gave_up:
                    raise
            finally:
                self._outgoing = None
            await asyncio.sleep(RETRY_S)

    async def _session(self) -> None:
        address = self._address()
        if not address:
            return
        async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
            outgoing: asyncio.Queue[bytes] = asyncio.Queue()
            outgoing.put_nowait(self._hello())
            stream = channel.stream_stream(
                "/roofline.v1.Ingest/Stream",
                request_serializer=None,
                response_deserializer=pb.ServerMessage.FromString,
            )
            call = stream()
            self._heard = time.monotonic()
            beside = [asyncio.create_task(self._watch(call)), asyncio.create_task(_send(call, outgoing))]
            try:
                async for message in call:
                    self._heard = time.monotonic()
                    self._take(message, outgoing)
            finally:
                call.cancel()
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

    async def _watch(self, call: grpc.aio.StreamStreamCall) -> None:
        """A stream on which nothing comes though something should is given up."""
        while time.monotonic() - self._heard < SILENCE_S or (self._outgoing and not self._kept):
            await asyncio.sleep(0.2)
        self._gave_up = True
        call.cancel()

    def _hello(self) -> bytes:
        hello = pb.Hello(
            protocol=1,
            agent=self.name,
            instance="1",
            boot=f"boot-{self.number}",
            machine=machine_pb2.Machine(host=f"node{self.number}", cpus=2),
            node_ns=time.monotonic_ns(),
        )
        return pb.AgentMessage(hello=hello).SerializeToString()

    def _take(self, message: pb.ServerMessage, outgoing: asyncio.Queue[bytes]) -> None:
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self.sessions += 1
            known = message.welcome.acked
            self.forgotten += max(0, self.acked - known)
            self._acknowledge(known)
            self._sent, self._outgoing = known, outgoing
            self._push()
        elif kind == "ack":
            self._acknowledge(message.ack.sequence)
        elif kind == "ping":
            now, ping = time.monotonic_ns(), message.ping
            pong = pb.Pong(id=ping.id, server_ns=ping.server_ns, received_ns=now, sent_ns=now)
            outgoing.put_nowait(pb.AgentMessage(pong=pong).SerializeToString())
        elif kind == "rejection":
            self.refused.append(message.rejection.reason)

    def _acknowledge(self, sequence: int) -> None:
        now = time.monotonic()
        for number in range(self.acked + 1, sequence + 1):
            self._kept.pop(number, None)
            if number in self._made_at:
                self.latencies.append(Latency(now, now - self._made_at.pop(number)))
        self.acked = max(self.acked, sequence)

    def _push(self) -> None:
        if self._outgoing is not None:
            for number in range(max(self._sent, self.acked) + 1, self.sequence + 1):
                self._outgoing.put_nowait(self._kept[number])
            self._sent = self.sequence


async def _send(call: grpc.aio.StreamStreamCall, queue: asyncio.Queue[bytes]) -> None:
    while True:
        await call.write(await queue.get())
