"""Batches and greetings as messages of the wire, self-contained, as they go into the spool and the stream."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2

from ..calibrate.records import Ceiling
from ..machine import Machine
from ..records import (
    ABSENT_INT,
    Batch,
    CounterSet,
    Event,
    EventKind,
    KernelShape,
    Rank,
    Sample,
    SampleBlock,
    SourceStatus,
    Span,
)
from .bounds import MAX_BATCH, printable

PROTOCOL = 1


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
    whole = pb.AgentMessage()
    message = whole.batch
    message.sequence, message.begin_ns, message.end_ns = sequence, batch.begin_ns, batch.end_ns
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
    return bytes(whole.SerializeToString())


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
    metrics = block.counter_set.metrics
    values = list(zip(*(row.values for row in rows), strict=True)) or [()] * len(metrics)
    columns = [
        doubles(column) if metric.is_double else ints(column)
        for metric, column in zip(metrics, values, strict=True)
    ]
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


@lru_cache(maxsize=64)  # told with every batch
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


@lru_cache(maxsize=4096)
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


def encode_hello(greeting: Greeting) -> pb.AgentMessage:
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
