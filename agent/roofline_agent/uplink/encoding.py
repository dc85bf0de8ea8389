"""Batches and greetings as messages of the wire.

A batch is self-contained: it describes the ranks, counter sets and kernels that its rows name by number, so
that the server can do without any other batch.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from roofline.limits import MAX_BATCH_BYTES, MAX_NAME
from roofline.texts import printable
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2

from ..calibrate.calibration import Ceiling
from ..machine import Machine
from ..records import (
    ABSENT_INT,
    Batch,
    Call,
    CounterSet,
    Event,
    EventKind,
    Mark,
    Rank,
    Sample,
    SourceStatus,
    Span,
)

PROTOCOL = 2  # since batches hold Steps, which an older server would not see


class Greeting(NamedTuple):
    """What an agent says of itself when it connects: the message Hello."""

    agent: str
    instance: str
    boot: str
    version: str
    machine: Machine
    ceilings: Sequence[Ceiling]
    sources: Sequence[SourceStatus]
    interval_ns: int
    node_ns: int = 0  # node time now; 0: not said
    lineage: str = ""  # of the batches that this process makes; "": numbered by agent alone
    own_interval_ns: int = 0  # sampling interval that was asked for here; 0: not said
    exact_acks: bool = True  # it understands acks of single batches


class _Numbering:
    """Numbers things in the order they are first asked for."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))

    def column(self, things: Sequence[Any]) -> bytes:
        """The numbers of all these as a column, -1 for None and ""."""
        # By identity first: rows share few things, and to hash a rank for each of them takes long.
        ids = list(map(id, things))
        alike = dict(zip(ids, things, strict=True))
        numbers = {one: self(thing) if thing else -1 for one, thing in alike.items()}
        return ints(map(numbers.__getitem__, ids))


def ints(values: Iterable[int | None]) -> bytes:
    """Little-endian int64 column; None, and what int64 cannot hold, becomes the absent value."""
    numbers = list(values)
    absent = numbers.count(None)
    if absent == len(numbers):
        return _little_endian(array("q", [ABSENT_INT]) * absent)
    if absent:
        numbers = [ABSENT_INT if number is None else number for number in numbers]
    try:
        column = array("q", map(int, numbers))  # type: ignore[arg-type]
    except (OverflowError, ValueError):  # rare; one value must not cost the batch
        column = array("q", map(_held, numbers))
    return _little_endian(column)


def _held(number: float | None) -> int:
    if number is None or not -(2.0**63) <= number < 2.0**63:  # neither is NaN
        return ABSENT_INT
    return int(number)


def doubles(values: Iterable[float | None]) -> bytes:
    """Little-endian double column; None becomes NaN."""
    return _little_endian(array("d", [float("nan") if v is None else float(v) for v in values]))


def _little_endian(column: array[Any]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def encode(batch: Batch, sequence: int, lineage: str = "", boot: str = "") -> bytes:
    """One AgentMessage with this batch, as it goes into the spool and over the wire.

    lineage, boot: those of now; by the time it is sent the node may have been rebooted.
    """
    # One statement for each field of the message; rows first, for they number what they name.
    ranks, sets, kernels, instances = _Numbering(), _Numbering(), _Numbering(), _Numbering()
    for rank in batch.ranks:
        ranks(rank)
    whole = pb.AgentMessage(lineage=lineage, boot=boot)
    message = whole.batch
    message.sequence, message.begin_ns, message.end_ns = sequence, batch.begin_ns, batch.end_ns
    for counter_set, rows in batch.samples.items():
        if rows:
            message.samples.append(_samples(rows, counter_set, sets(counter_set), ranks, instances))
    if batch.marks:
        message.marks.CopyFrom(_marks(batch.marks, ranks))
    if batch.calls:
        message.calls.CopyFrom(_calls(batch.calls, ranks, kernels))
    if batch.spans:
        message.spans.CopyFrom(_spans(batch.spans, ranks))
    for rank, form, numbers in batch.steps:
        message.steps.add(rank=ranks(rank), numbers=numbers, **form._asdict())
    for event in batch.events:
        message.events.add(
            kind=event.kind.value,
            rank=-1 if event.rank is None else ranks(event.rank),
            begin_ns=event.begin_ns,
            end_ns=event.end_ns,
            count=event.count,
            text=event.text,
            status=event.status,
            step=event.step,
        )

    # What the rows above have numbered.
    message.counter_sets.extend(_counter_set(counter_set) for counter_set in sets.numbers)
    for shape in kernels.numbers:
        known = {name: value for name, value in shape._asdict().items() if value is not None}
        message.kernels.add(**known)
    message.ranks.extend(_rank(rank) for rank in ranks.numbers)
    message.instances.extend(_name(name) for name in instances.numbers)
    return bytes(whole.SerializeToString())


def renumbered(data: bytes, sequence: int, lineage: str) -> bytes:
    """The encoded batch with another number of another lineage."""
    whole = pb.AgentMessage.FromString(data)
    whole.batch.sequence, whole.lineage = sequence, lineage
    return bytes(whole.SerializeToString())


def lineage_of(data: bytes) -> str:
    """The lineage of an encoded batch."""
    return str(pb.AgentMessage.FromString(data).lineage)


def is_batch(data: bytes, sequence: int) -> bool:
    """Whether these bytes are an encoded batch of this number: a damaged disk gives others."""
    try:
        whole = pb.AgentMessage.FromString(data)
    except DecodeError:
        return False
    return bool(whole.WhichOneof("kind") == "batch" and whole.batch.sequence == sequence)


def extent_of(data: bytes) -> tuple[int, int]:
    """Node time at which an encoded batch begins, and at which it ends."""
    batch = pb.AgentMessage.FromString(data).batch
    return batch.begin_ns, batch.end_ns


def encode_within(
    batch: Batch, sequence: int, limit: int = MAX_BATCH_BYTES, lineage: str = "", boot: str = ""
) -> bytes:
    """An encoded batch, never more than the server takes: where that is too little, the samples are lost, and
    then the facts, of which ranks that start together may bring many. Rows are bounded before (bounds.py)."""
    data = encode(batch, sequence, lineage, boot)
    for without in (_without_samples, _without_facts):
        if len(data) <= limit:
            break
        batch = without(batch)
        data = encode(batch, sequence, lineage, boot)
    return data


def _without_samples(batch: Batch) -> Batch:
    count = sum(len(rows) for rows in batch.samples.values())
    return batch._replace(samples={}, events=[*batch.events, _lost(batch, count, "samples")])


def _without_facts(batch: Batch) -> Batch:
    kept = [event for event in batch.events if event.kind is not EventKind.FACT]
    return batch._replace(events=[*kept, _lost(batch, len(batch.events) - len(kept), "facts")])


def _lost(batch: Batch, count: int, what: str) -> Event:
    why = f"{what} (more than a batch holds)"
    return Event(EventKind.LOST, batch.begin_ns, batch.end_ns, None, count, why)


def _samples(
    rows: Sequence[Sample], counter_set: CounterSet, number: int, ranks: _Numbering, instances: _Numbering
) -> pb.Samples:
    """The rows of one counter set as columns: one per metric, in its order."""
    rank, time_ns, values, instance = zip(*rows, strict=True)
    message = pb.Samples(
        counter_set=number,
        rank=ranks.column(rank),
        time_ns=ints(time_ns),
    )
    for metric, column in zip(counter_set.metrics, zip(*values, strict=True), strict=True):
        message.columns.append(doubles(column) if metric.is_double else ints(column))
    if any(instance):
        message.instance = instances.column(instance)
    return message


def _marks(marks: Sequence[Mark], ranks: _Numbering) -> pb.Marks:
    phases = _Numbering()
    rank, sender, kind, step, examples, time_ns, phase, flags, like = zip(*marks, strict=True)
    message = pb.Marks(
        rank=ranks.column(rank),
        sender=ranks.column(sender),
        kind=ints(kind),
        step=ints(step),
        examples=ints(examples),
        time_ns=ints(time_ns),
        phase=phases.column(phase),
        flags=ints(flags),
        like=ints(like),
    )
    message.phases.extend(phases.numbers)
    return message


def _spans(spans: Sequence[Span], ranks: _Numbering) -> pb.Spans:
    names = _Numbering()
    rank, name, begin_ns, end_ns, moved, count = zip(*spans, strict=True)
    message = pb.Spans(
        rank=ranks.column(rank),
        name=names.column(name),
        begin_ns=ints(begin_ns),
        end_ns=ints(end_ns),
        bytes=ints(moved),
        count=ints(count),
    )
    message.names.extend(names.numbers)
    return message


def _calls(calls: Sequence[Call], ranks: _Numbering, kernels: _Numbering) -> pb.Calls:
    rank, shape, start_ns, duration_ns = zip(*calls, strict=True)
    return pb.Calls(
        rank=ranks.column(rank),
        kernel=kernels.column(shape),
        start_ns=ints(start_ns),
        duration_ns=ints(duration_ns),
    )


@lru_cache(maxsize=64)  # every batch describes its sets
def _counter_set(counter_set: CounterSet) -> pb.CounterSet:
    message = pb.CounterSet(name=counter_set.name)
    for metric in counter_set.metrics:
        message.metrics.add(**metric._asdict())  # the same fields on both sides
    return message


def _cut(text: str) -> str:
    """As the server takes it; names come from environment variables and from other programs, which may say
    anything."""
    return printable(text)[:MAX_NAME]


def _name(text: str) -> str:
    """A text as the server takes it where there must be one: "?" for none."""
    return _cut(text) or "?"


@lru_cache(maxsize=4096)
def _rank(rank: Rank) -> pb.Rank:
    return pb.Rank(
        job=_name(rank.job),
        role=_name(rank.role),
        index=rank.index,
        pid=rank.pid,
        start_ns=rank.start_ns,
        name=_cut(rank.name),
        world=rank.world,
        framework=rank.framework,
        launch=_cut(rank.launch),
        user=_cut(rank.user),
    )


def encode_hello(greeting: Greeting) -> pb.AgentMessage:
    fields = greeting._asdict()
    machine = machine_pb2.Machine(**fields.pop("machine")._asdict())
    machine.ceilings.extend(machine_pb2.Ceiling(**c._asdict()) for c in fields.pop("ceilings"))
    sources = [machine_pb2.SourceStatus(**s._asdict()) for s in fields.pop("sources")]
    return pb.AgentMessage(hello=pb.Hello(protocol=PROTOCOL, machine=machine, sources=sources, **fields))
