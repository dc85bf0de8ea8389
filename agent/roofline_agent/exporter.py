"""Streams batches to the server and forgets them when they are durable. The only file that knows protobuf.

The stream comes and goes; the spool does not. After each connection the server names the highest sequence it
has, and sending continues behind it.
"""

from __future__ import annotations

import importlib
import logging
import queue
import random
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import grpc
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2

from .bounds import MAX_BATCH, printable
from .calibrate.records import Ceiling
from .machine import Machine
from .netbench import wire as net_wire
from .netbench.bench import NetBench
from .records import (
    ABSENT_INT,
    Batch,
    CounterSet,
    Event,
    EventKind,
    Rank,
    Sample,
    SampleBlock,
    SourceStatus,
    Span,
)
from .spool import Spool
from .verbose.records import KernelShape

log = logging.getLogger(__name__)

PROTOCOL = 1
WINDOW = 64  # batches on their way without an ack
WELCOME_TIMEOUT_S = 10
RETRY_S = (0.5, 15.0)
METHOD = "/roofline.v1.Ingest/Stream"
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Loopback and cluster networks are reached directly, whatever http_proxy says.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 1 << 20),
)


class Greeting(NamedTuple):
    """What Hello says of this agent."""

    agent: str
    instance: str
    boot: str
    version: str
    machine: Machine
    ceilings: Sequence[Ceiling]
    sources: Sequence[SourceStatus]
    interval_ns: int


class _Table:
    """Numbers things in the order they are first asked for."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


def ints(values: Iterable[int | None]) -> bytes:
    """Little-endian int64 column; None becomes the absent value."""
    return _little(array("q", [ABSENT_INT if v is None else int(v) for v in values]))


def doubles(values: Iterable[float | None]) -> bytes:
    """Little-endian double column; None becomes NaN."""
    return _little(array("d", [float("nan") if v is None else float(v) for v in values]))


def _little(column: array[Any]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def encode(batch: Batch, sequence: int) -> bytes:
    """One AgentMessage with this batch, self-contained, as it goes into the spool and over the wire."""
    ranks, sets, kernels, phases, instances = _Table(), _Table(), _Table(), _Table(), _Table()
    for rank in batch.ranks:
        ranks(rank)
    message = pb.Batch(sequence=sequence, begin_ns=batch.begin_ns, end_ns=batch.end_ns)
    message.samples.extend(
        _samples(block, sets(block.counter_set), ranks, instances) for block in batch.samples
    )
    if batch.marks:
        message.marks.CopyFrom(_marks(batch, ranks, phases))
    if batch.calls:
        message.calls.CopyFrom(
            pb.Calls(
                rank=ints(ranks(c.rank) for c in batch.calls),
                kernel=ints(kernels(c.shape) for c in batch.calls),
                start_ns=ints(c.start_ns for c in batch.calls),
                duration_ns=ints(c.duration_ns for c in batch.calls),
            )
        )
    if batch.spans:
        message.spans.CopyFrom(_spans(batch.spans, ranks))
    for event in batch.events:
        message.events.add(
            kind=event.kind.value,
            rank=-1 if event.rank is None else ranks(event.rank),
            begin_ns=event.begin_ns,
            end_ns=event.end_ns,
            count=event.count,
            text=event.text,
        )
    message.counter_sets.extend(_counter_set(counter_set) for counter_set in sets.numbers)
    message.kernels.extend(_kernel(shape) for shape in kernels.numbers)
    message.ranks.extend(_rank(rank) for rank in ranks.numbers)
    message.instances.extend(printable(name) for name in instances.numbers)
    return bytes(pb.AgentMessage(batch=message).SerializeToString())


def encode_within(batch: Batch, sequence: int, limit: int = MAX_BATCH) -> bytes:
    """The same, and never more than the server takes: where that is too little, the samples are lost."""
    data = encode(batch, sequence)
    if len(data) <= limit:
        return data
    # Everything else is bounded already (bounds.py).
    count = sum(len(block.rows) for block in batch.samples)
    what = "samples (more than a batch holds)"
    lost = Event(EventKind.LOST, batch.begin_ns, batch.end_ns, None, count, what)
    return encode(batch._replace(samples=(), events=[*batch.events, lost]), sequence)


def _samples(block: SampleBlock, number: int, ranks: _Table, instances: _Table) -> pb.Samples:
    rows: list[Sample] = block.rows
    columns = []
    for at, metric in enumerate(block.counter_set.metrics):
        column = (row.values[at] for row in rows)
        columns.append(doubles(column) if metric.is_double else ints(column))  # type: ignore[arg-type]
    parts = any(row.instance for row in rows)
    return pb.Samples(
        counter_set=number,
        rank=ints(-1 if row.rank is None else ranks(row.rank) for row in rows),
        time_ns=ints(row.time_ns for row in rows),
        columns=columns,
        instance=ints(instances(row.instance) if row.instance else -1 for row in rows) if parts else b"",
    )


def _marks(batch: Batch, ranks: _Table, phases: _Table) -> pb.Marks:
    marks = batch.marks
    message = pb.Marks(
        rank=ints(ranks(m.rank) for m in marks),
        sender=ints(ranks(m.sender) for m in marks),
        kind=ints(m.kind for m in marks),
        step=ints(m.step for m in marks),
        examples=ints(m.examples for m in marks),
        time_ns=ints(m.time_ns for m in marks),
        phase=ints(phases(m.phase) if m.phase else -1 for m in marks),
        flags=ints(int(m.asynchronous) for m in marks),
    )
    message.phases.extend(phases.numbers)
    return message


def _spans(spans: Sequence[Span], ranks: _Table) -> pb.Spans:
    names = _Table()
    message = pb.Spans(
        rank=ints(ranks(s.rank) for s in spans),
        name=ints(names(s.name) for s in spans),
        begin_ns=ints(s.begin_ns for s in spans),
        end_ns=ints(s.end_ns for s in spans),
        bytes=ints(s.bytes for s in spans),
        count=ints(s.count for s in spans),
    )
    message.names.extend(names.numbers)
    return message


def _counter_set(counter_set: CounterSet) -> pb.CounterSet:
    return pb.CounterSet(
        name=counter_set.name,
        metrics=[
            pb.Metric(
                name=m.name,
                kind=m.kind.value,  # type: ignore[arg-type]
                unit=m.unit,
                scope=m.scope.value,  # type: ignore[arg-type]
                provenance=m.provenance.value,  # type: ignore[arg-type]
                is_double=m.is_double,
                coverage_of=m.coverage_of,
            )
            for m in counter_set.metrics
        ],
    )


def _kernel(shape: KernelShape) -> pb.Kernel:
    return pb.Kernel(**{name: value for name, value in shape._asdict().items() if value is not None})


def _rank(rank: Rank) -> pb.Rank:
    return pb.Rank(
        # From environment variables, which may hold anything; the server wants names that can be read.
        job=printable(rank.job),
        role=printable(rank.role),
        index=rank.index,
        pid=rank.pid,
        start_ns=rank.start_ns,
        name=printable(rank.name),
        world=rank.world,
        framework=rank.framework,
    )


def _hello(greeting: Greeting) -> pb.AgentMessage:
    machine = machine_pb2.Machine(**greeting.machine._asdict())
    machine.ceilings.extend(machine_pb2.Ceiling(**c._asdict()) for c in greeting.ceilings)
    return pb.AgentMessage(
        hello=pb.Hello(
            protocol=PROTOCOL,
            agent=greeting.agent,
            instance=greeting.instance,
            boot=greeting.boot,
            version=greeting.version,
            machine=machine,
            sources=[machine_pb2.SourceStatus(**s._asdict()) for s in greeting.sources],
            interval_ns=greeting.interval_ns,
        )
    )


class Exporter(threading.Thread):
    """The stream to one server, in a thread of its own."""

    def __init__(
        self,
        server: str,
        spool: Spool,
        greeting: Callable[[], Greeting],
        set_interval: Callable[[int], None] = lambda interval_ns: None,
        clock: Callable[[], int] = time.monotonic_ns,
        net_bench: NetBench | None = None,
    ) -> None:
        """clock: node time, in which the batches speak. net_bench: None where there is no node to measure."""
        super().__init__(name="exporter", daemon=True)
        self._clock = clock
        self._server = server
        self._spool = spool
        self._greeting = greeting
        self._set_interval = set_interval
        self._net_bench = net_bench
        self._halt = threading.Event()
        self._lock = threading.Lock()
        self._outgoing: queue.SimpleQueue[bytes | None] | None = None
        self._sent = 0
        self._acked = 0
        self.connected = False
        self._call: Any = None

    @property
    def acked(self) -> int:
        """The highest sequence that the server is known to have."""
        return self._acked

    def run(self) -> None:
        _wait_quietly()
        delay, said = RETRY_S[0], False
        while not self._halt.is_set():
            began = time.monotonic()
            try:
                self._session()
                why = "the server ended the stream"
            except grpc.RpcError as error:
                why = _explain(error)
            except Exception as error:
                log.exception("the stream failed")
                why = str(error)
            was_up, self.connected = self.connected, False
            if self._halt.is_set():
                return
            if was_up or not said:
                log.warning("server %s: %s; batches wait in the spool, trying again", self._server, why)
                said = True
            delay = (
                RETRY_S[0] if time.monotonic() - began > RETRY_S[1] or was_up else min(delay * 2, RETRY_S[1])
            )
            self._halt.wait(delay * random.uniform(0.7, 1.3))

    def _session(self) -> None:
        outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with grpc.insecure_channel(self._server, options=CHANNEL_OPTIONS) as channel:
            stream = channel.stream_stream(
                METHOD,
                request_serializer=None,  # the spool holds serialized messages
                response_deserializer=pb.ServerMessage.FromString,
            )
            outgoing.put(_hello(self._greeting()).SerializeToString())
            call = self._call = stream(_drain(outgoing))
            timer = threading.Timer(WELCOME_TIMEOUT_S, call.cancel)
            timer.start()
            try:
                for message in call:
                    timer.cancel()
                    self._handle(message, outgoing)
            finally:
                timer.cancel()
                with self._lock:
                    self._outgoing = None
                outgoing.put(None)
                call.cancel()
                # Whoever asked for it cannot hear of it any more.
                if self._net_bench:
                    self._net_bench.stop()

    def _handle(self, message: Any, outgoing: queue.SimpleQueue[bytes | None]) -> None:
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self._welcome(message.welcome.acked, outgoing)
        elif kind == "ack":
            self._acked = max(self._acked, message.ack.sequence)
            self._spool.ack(message.ack.sequence)
            self.push()
        elif kind == "ping":
            received = self._clock()
            pong = pb.Pong(
                id=message.ping.id,
                server_ns=message.ping.server_ns,
                received_ns=received,
                sent_ns=self._clock(),
            )
            outgoing.put(pb.AgentMessage(pong=pong).SerializeToString())
        elif kind == "rejection":
            log.error("the server refused batch %d: %s", message.rejection.sequence, message.rejection.reason)
            self._spool.reject(message.rejection.sequence)
            self._acked = max(self._acked, message.rejection.sequence)
            self.push()
        elif kind == "command":
            self._obey(message.command, outgoing)

    def _welcome(self, acked: int, outgoing: queue.SimpleQueue[bytes | None]) -> None:
        self._spool.ack(acked)
        self._spool.skip_to(acked)
        with self._lock:
            self._sent = self._acked = acked
            self._outgoing = outgoing
        self.connected = True
        log.info("connected to server %s", self._server)
        self.push()

    def _obey(self, command: Any, outgoing: queue.SimpleQueue[bytes | None]) -> None:
        """Do what the server asks for; what takes its time answers later, and more than once."""

        def answer(result: Any) -> None:
            outgoing.put(pb.AgentMessage(result=result).SerializeToString())

        kind = command.WhichOneof("kind")
        if kind == "set_interval":
            self._set_interval(command.set_interval.interval_ns)
            answer(pb.CommandResult(id=command.id, done=True))
        elif self._net_bench and kind == "stop_net":
            # Elsewhere: an end takes a moment, and pings want an answer.
            threading.Thread(target=self._net_bench.stop, args=(command.stop_net.key,), daemon=True).start()
            answer(pb.CommandResult(id=command.id, done=True))
        elif self._net_bench and (order := net_wire.order(command, self._greeting().machine.host)):
            number = command.id
            self._net_bench.begin(order, lambda said: answer(net_wire.result(number, said)))
        else:
            reason = "this agent does not know the command"
            answer(pb.CommandResult(id=command.id, done=False, reason=reason))

    def push(self) -> None:
        """Send what waits, as far as the window allows. Called when there is something new."""
        with self._lock:
            if self._outgoing is None:
                return
            room = WINDOW - (self._sent - self._acked)
            if room <= 0:
                return
            for pending in self._spool.pending(self._sent, room):
                self._outgoing.put(pending.data)
                self._sent = pending.sequence

    def greet_again(self) -> None:
        """Send Hello anew: ceilings or sources have changed."""
        with self._lock:
            if self._outgoing is not None:
                self._outgoing.put(_hello(self._greeting()).SerializeToString())

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything in the spool is durable at the server; False when it took too long."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.is_alive() and self.connected:
            if self._spool.bytes_waiting == 0:
                return True
            time.sleep(0.01)
        return self._spool.bytes_waiting == 0

    def stop(self) -> None:
        self._halt.set()
        if self._call is not None:
            self._call.cancel()
        self.join(timeout=3)


def _wait_quietly() -> None:
    """Have gRPC wake a waiting thread less often.

    Its Python wakes ten times a second to let signals through, a fifth of what an idle agent costs; no signal
    comes to this thread. Where a newer gRPC names it otherwise, nothing changes.
    """
    common = importlib.import_module("grpc._common")
    if hasattr(common, "MAXIMUM_WAIT_TIMEOUT"):
        setattr(common, "MAXIMUM_WAIT_TIMEOUT", 5.0)  # noqa: B010


def _drain(outgoing: queue.SimpleQueue[bytes | None]) -> Iterator[bytes]:
    while (item := outgoing.get()) is not None:
        yield item


def _explain(error: grpc.RpcError) -> str:
    code = error.code() if hasattr(error, "code") else None
    if code == grpc.StatusCode.UNAVAILABLE:
        return "does not answer"
    if code == grpc.StatusCode.CANCELLED:
        return "did not say welcome in time"
    return f"{error.details() if hasattr(error, 'details') else error}"
