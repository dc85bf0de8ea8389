"""What the server takes: durable rows a second, a long job's report, memory under load."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from roofline.v1 import ingest_pb2 as pb
from roofline.v1.machine_pb2 import Machine

from .site import COMMANDS, SECOND, Node, Result, hello, ints, node, ranks, sample_batch

ROWS, METRICS = 80, 30
INGEST_STREAMS, INGEST_BATCHES, WINDOW = 8, 1500, 64
LOAD_ROWS_PER_SECOND, LOAD_SECONDS = 80_000, 60
REPORT_RANKS, REPORT_STEPS, STEP_NS = 64, 10_000, 100_000_000


class Stream:
    """One agent's stream from the inside: sends serialized messages, knows what is acknowledged."""

    def __init__(self, channel: grpc.aio.Channel, agent: str, machine: Machine | None = None) -> None:
        self.acked = 0
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queue.put_nowait(hello(agent, machine).SerializeToString())
        self._changed = asyncio.Event()
        method = channel.stream_stream(
            "/roofline.v1.Ingest/Stream",
            request_serializer=None,
            response_deserializer=pb.ServerMessage.FromString,
        )
        self._call = method(self._outgoing())
        self._reader = asyncio.create_task(self._read())

    async def _outgoing(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._queue.get()

    async def _read(self) -> None:
        async for message in self._call:
            kind = message.WhichOneof("kind")
            if kind == "ack":
                self.acked = message.ack.sequence
            elif kind == "ping":
                now = time.monotonic_ns()
                pong = pb.Pong(
                    id=message.ping.id, server_ns=message.ping.server_ns, received_ns=now, sent_ns=now
                )
                self._queue.put_nowait(pb.AgentMessage(pong=pong).SerializeToString())
            elif kind == "rejection":
                raise RuntimeError(message.rejection.reason)
            self._changed.set()

    def send(self, sequence: int, data: bytes) -> None:
        self._queue.put_nowait(data)

    async def wait_for(self, sequence: int) -> None:
        while self.acked < sequence:
            if self._reader.done():
                await self._reader
                raise RuntimeError("the stream ended")
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        self._reader.cancel()
        self._call.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


def durable_ingest() -> Result:
    """Rows acknowledged per second, client on the same cores, from the first byte to the last ack."""
    messages = ingest_messages()
    with node() as here, here.server():
        seconds = asyncio.run(ingest(here, messages))
        bare = _fsynced_file(here.folder / "bare", messages[0], INGEST_STREAMS * INGEST_BATCHES)
    rows = INGEST_STREAMS * INGEST_BATCHES * ROWS
    rate, bare_rate = rows / seconds, rows / bare
    beside = f"{rate / bare_rate:.2f} of the same bytes appended to a file, fsynced every {WINDOW} batches"
    what = f"durable ingest, {METRICS} counters, {ROWS}-row batches"
    values = rate * METRICS / 1e6
    return Result(
        what, "150,000 rows/s", f"{rate:,.0f} rows/s ({values:.1f} M values/s)", rate >= 150_000, beside
    )


def ingest_messages() -> list[bytes]:
    """The batches of one stream."""
    numbers = range(1, INGEST_BATCHES + 1)
    return [sample_batch(s, ROWS, METRICS, s * SECOND).SerializeToString() for s in numbers]


async def ingest(here: Node, messages: list[bytes], agents: str = "agent") -> float:
    """Seconds from the first byte to the last acknowledgement. agents: how their names begin."""
    async with grpc.aio.insecure_channel(here.address) as channel:
        streams = [Stream(channel, f"{agents}-{i}") for i in range(INGEST_STREAMS)]
        begin = time.monotonic()
        await asyncio.gather(*(_feed(stream, messages) for stream in streams))
        seconds = time.monotonic() - begin
        for stream in streams:
            await stream.close()
    return seconds


async def _feed(stream: Stream, messages: list[bytes]) -> None:
    for sequence, message in enumerate(messages, 1):
        await stream.wait_for(sequence - WINDOW)
        stream.send(sequence, message)
    await stream.wait_for(len(messages))


def _fsynced_file(path: Path, message: bytes, count: int) -> float:
    begin = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for number in range(count):
            file.write(message)
            if number % WINDOW == WINDOW - 1:
                os.fsync(file.fileno())
    return time.monotonic() - begin


def memory_under_load() -> Result:
    """Resident memory of the server over a minute at a steady rate, sealing included."""
    with node() as here, here.server() as server:
        seen, rate = asyncio.run(_load(here, server))
    peak = max(seen) / 2**20
    half = len(seen) // 2
    growth = (max(seen[half:]) - max(seen[:half])) / 2**20
    met = peak < 1000 and growth < 0.2 * peak
    beside = f"{rate:,.0f} rows/s kept for {LOAD_SECONDS} s; second half {growth:+.0f} MB against the first"
    return Result("server memory at 80,000 rows/s", "flat, 1 GB", f"{peak:.0f} MB peak", met, beside)


async def _load(here: Node, server: Any) -> tuple[list[int], float]:
    per_second = LOAD_ROWS_PER_SECOND // ROWS
    seen: list[int] = []
    async with grpc.aio.insecure_channel(here.address) as channel:
        streams = [Stream(channel, f"agent-{i}") for i in range(20)]
        begin = time.monotonic()
        sequence = 0
        while time.monotonic() - begin < LOAD_SECONDS:
            sequence += 1
            message = sample_batch(sequence, ROWS, METRICS, sequence * SECOND // 50).SerializeToString()
            for stream in streams:
                await stream.wait_for(sequence - WINDOW)
                stream.send(sequence, message)
            if sequence % 25 == 0:
                seen.append(server.memory_info().rss)
            await asyncio.sleep(max(0.0, begin + sequence * len(streams) / per_second - time.monotonic()))
        for stream in streams:
            await stream.wait_for(sequence)
        rate = sequence * len(streams) * ROWS / (time.monotonic() - begin)
        for stream in streams:
            await stream.close()
    return seen, rate


def long_report() -> Result:
    """A report over 64 ranks x 10,000 steps: in the server, and as the whole command."""
    with node() as here, here.server():
        asyncio.run(_long_job(here))
        time.sleep(40)  # a sealing stores the step deltas, as it does in any job of this length
        served = _served(here)
        whole = _command(here)
        bare = _bare_import(here)
    met = served <= 0.3 and whole <= 1.0
    beside = f"importing gRPC and rich alone takes {bare:.2f} s"
    what = f"report, {REPORT_RANKS} ranks x {REPORT_STEPS:,} steps"
    return Result(
        what, "0.3 s served, 1 s in all", f"{served:.2f} s served, {whole:.2f} s in all", met, beside
    )


async def _long_job(here: Node) -> None:
    async with grpc.aio.insecure_channel(here.address) as channel:
        nodes = [Stream(channel, f"node-{n}") for n in range(8)]
        per_node = REPORT_RANKS // len(nodes)
        for sequence in range(1, REPORT_STEPS // 10 + 1):
            for number, stream in enumerate(nodes):
                await stream.wait_for(sequence - WINDOW)
                batch = _training_second(sequence, number * per_node, per_node)
                stream.send(sequence, batch.SerializeToString())
        for stream in nodes:
            await stream.wait_for(REPORT_STEPS // 10)
            stream.send(REPORT_STEPS // 10 + 1, _idle_second(REPORT_STEPS // 10 + 1).SerializeToString())
            await stream.wait_for(REPORT_STEPS // 10 + 1)
            await stream.close()


def _idle_second(sequence: int) -> pb.AgentMessage:
    """Long after the job: says that nothing of it is still to come."""
    begin = (sequence + 60) * SECOND
    return pb.AgentMessage(batch=pb.Batch(sequence=sequence, begin_ns=begin, end_ns=begin + SECOND))


def _described(name: str, *metrics: str) -> pb.CounterSet:
    kind = pb.METRIC_KIND_CUMULATIVE
    return pb.CounterSet(name=name, metrics=[pb.Metric(name=m, kind=kind, unit="1") for m in metrics])


PROCESS = _described(
    "process", "cpu_ns", "cpu_user_ns", "cpu_system_ns", "minor_faults", "storage_read_bytes"
)
TCP = _described("tcp", "tcp_sent_bytes", "tcp_received_bytes")


def _training_second(sequence: int, first: int, count: int) -> pb.AgentMessage:
    """One second of `count` ranks: ten steps each, one sample of each of two counter sets."""
    begin = sequence * SECOND
    steps = [(r, (sequence - 1) * 10 + k) for r in range(count) for k in range(10)]
    at = [begin + (step % 10) * STEP_NS for _, step in steps]
    marks = pb.Marks(
        rank=ints(r for r, _ in steps for _ in (0, 1)),
        sender=ints(r for r, _ in steps for _ in (0, 1)),
        kind=ints(kind for _ in steps for kind in (1, 2)),
        step=ints(step for _, step in steps for _ in (0, 1)),
        examples=ints(32 for _ in steps for _ in (0, 1)),
        time_ns=ints(t for start in at for t in (start, start + STEP_NS - 1000)),
        phase=ints(-1 for _ in steps for _ in (0, 1)),
        flags=ints(0 for _ in steps for _ in (0, 1)),
    )
    batch = pb.Batch(
        sequence=sequence, begin_ns=begin, end_ns=begin + SECOND, ranks=ranks("64", first, count)
    )
    batch.counter_sets.extend([PROCESS, TCP])
    for number, counter_set in enumerate(batch.counter_sets):
        columns = [
            ints(begin // 1000 * (m + 1) for _ in range(count)) for m in range(len(counter_set.metrics))
        ]
        rank, at_ns = ints(range(count)), ints([begin] * count)
        batch.samples.add(counter_set=number, rank=rank, time_ns=at_ns, columns=columns)
    batch.marks.CopyFrom(marks)
    return pb.AgentMessage(batch=batch)


def _served(here: Node) -> float:
    from roofline_client import connect

    spent = []
    with connect(here.address) as client:
        for _ in range(5):
            begin = time.monotonic()
            report = client.report("64")
            spent.append(time.monotonic() - begin)
    assert len(report.ranks) == REPORT_RANKS
    assert report.ranks[0].summary.values["steps"].value == REPORT_STEPS
    return sorted(spent)[2]


def _command(here: Node) -> float:
    return median_seconds([str(COMMANDS / "roofline-client"), "report", "--job", "64"], here)


def _bare_import(here: Node) -> float:
    return median_seconds([sys.executable, "-c", "import grpc, rich.console, rich.table"], here)


def median_seconds(command: list[str], here: Node) -> float:
    spent = []
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run(command, env=here.environ, stdout=subprocess.DEVNULL, check=True)
        spent.append(time.monotonic() - begin)
    return sorted(spent)[1]
