"""Checks a batch from the wire and turns it into frames of numpy columns.

Everything a batch says is checked before any of it is kept: a batch is taken whole or refused with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from roofline.v1 import ingest_pb2 as pb

from ..errors import BadBatch
from ..model.values import Provenance
from ..records import (
    ABSENT,
    NODE_JOB,
    NODE_RANK,
    RECORDED,
    Ceiling,
    EventKind,
    Frame,
    Incarnation,
    Ints,
    KernelKind,
    Machine,
    Metric,
    RankKey,
    SourceStatus,
    Table,
    precision_code,
    take,
)

MAX_RANKS = 4096
MAX_METRICS = 512
MAX_NAME = 256
MAX_TEXT = 4096
MAX_TIME_NS = 2**62
SET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
RESERVED_SETS = ("kernels", "spans")
SPAN_NAME = re.compile(r"[a-z]+(\.[a-z0-9_-]+)+")  # becomes a part of names of columns
MAX_SPAN_NAMES, MAX_SPAN_NAME = 256, 64
RESERVED_COLUMNS = frozenset(
    ("rank_at", "rank", "node", "start_ns", "time_ns", "end_ns", "begin_ns", "window", "step", "samples")
) | {"instance"}
MAX_INSTANCES = 65_536
MAX_RANK_TABLES = 8192
# Column of calls -> field of Kernel. The last three are traffic that a profiler may have counted.
SIZES = {"flops": "flops", "bytes": "bytes", "dram": "dram_bytes", "l1": "l1_bytes", "l2": "l2_bytes"}
GPU_LIBRARIES = ("cuda", "hip", "sycl", "mtia")


class Numbers(Protocol):
    """Gives out the small integers by which rows refer to ranks and kernels."""

    rank_tables: dict[Any, Any]  # rank tables that were decoded before; kept here as their numbers are

    def rank(self, key: RankKey) -> int: ...

    def kernel(self, kind: KernelKind) -> int: ...

    def metrics(self, metrics: Sequence[Metric]) -> None: ...

    def allows(self, job: str, span: str) -> bool: ...


class Decoded(NamedTuple):
    """One batch, checked."""

    sequence: int
    begin_ns: int
    end_ns: int
    frames: list[Frame]
    incarnations: list[Incarnation]  # the same object while the node's ranks are the same
    exited: list[Incarnation]


def parse(data: bytes) -> Any:
    """The AgentMessage in these bytes. Raises BadBatch."""
    try:
        return pb.AgentMessage.FromString(data)
    except Exception as error:
        raise BadBatch(f"not a message of an agent ({error})") from None


def decode(batch: Any, node: int, numbers: Numbers) -> Decoded:
    """Frames of a batch from `node`. Raises BadBatch saying what is wrong; nothing is kept then."""
    if not 0 < batch.sequence < 2**63:
        raise BadBatch(f"sequence {batch.sequence} must be 1 to 2^63 - 1")
    if not 0 < batch.begin_ns <= batch.end_ns < MAX_TIME_NS:
        raise BadBatch(f"begin_ns {batch.begin_ns} and end_ns {batch.end_ns} are no stretch of time")
    ranks = _ranks(node, tuple(r.SerializeToString() for r in batch.ranks), numbers)
    schemas = [_schema(counter_set.SerializeToString()) for counter_set in batch.counter_sets]
    instances = _instances(batch.instances)
    samples = [_samples(block, schemas, ranks, instances) for block in batch.samples]
    marks, calls, events = _marks(batch, ranks), _calls(batch, ranks), _events(batch, ranks)
    spans = _spans(batch, ranks)
    # All is checked: only now do names get numbers that outlive the batch.
    ranks.number(numbers)
    for schema in schemas:
        numbers.metrics(schema.metrics)
    frames = [
        frame
        for schema, base, values in samples
        for frame in ranks.split(f"samples_{schema.name}", base, schema.metrics, values)
    ]
    if marks is not None:
        frames += ranks.split("marks", marks)
    if spans is not None:
        frames += ranks.split("spans", spans)
    if calls is not None:
        frames += ranks.split("calls", _with_kernels(calls, batch.kernels, numbers))
    for frame in frames:
        _bound_names(frame, numbers)
    frames += ranks.split("events", events)
    exited = [
        ranks.incarnations[e.rank] for e in batch.events if e.kind == EventKind.RANK_EXITED and e.rank >= 0
    ]
    return Decoded(batch.sequence, batch.begin_ns, batch.end_ns, frames, ranks.present, exited)


def _name(text: str, what: str, empty: bool = False) -> str:
    if len(text) > MAX_NAME or not text.isprintable() or not (text or empty):
        raise BadBatch(f"{what} {text[:40]!r} must be 1 to {MAX_NAME} printable characters")
    return text


class _Schema(NamedTuple):
    """A counter set, checked."""

    name: str
    metrics: tuple[Metric, ...]


@lru_cache(maxsize=1024)
def _schema(data: bytes) -> _Schema:
    """The counter set in these bytes; agents send the same ones every second. Raises BadBatch."""
    counter_set = pb.CounterSet.FromString(data)
    name = counter_set.name
    if not SET_NAME.fullmatch(name) or name in RESERVED_SETS:
        raise BadBatch(
            f"counter set {name[:40]!r} must be 1 to 64 letters, digits and _, and not {RESERVED_SETS}"
        )
    if not 0 < len(counter_set.metrics) <= MAX_METRICS:
        raise BadBatch(f"counter set {name!r} has {len(counter_set.metrics)} metrics; 1 to {MAX_METRICS}")
    names = [_name(m.name, "metric") for m in counter_set.metrics]
    # The reader does not tell upper from lower case in the names of columns.
    folded = [n.casefold() for n in names]
    if len(set(folded)) < len(folded):
        raise BadBatch(f"counter set {name!r} names a metric twice")
    if taken := RESERVED_COLUMNS.intersection(folded):
        raise BadBatch(f"counter set {name!r}: no metric may be called {min(taken)!r}")
    return _Schema(name, tuple(_metric(name, m) for m in counter_set.metrics))


@lru_cache(maxsize=65536)
def _rank(data: bytes) -> tuple[RankKey, Incarnation]:
    """Key and incarnation (numbers still -1) of the Rank message in these bytes. Raises BadBatch."""
    r = pb.Rank.FromString(data)
    _name(r.name, "rank name", empty=True)
    _name(r.framework, "framework", empty=True)
    key = RankKey(_name(r.job, "job"), _name(r.role, "role"), r.index)
    return key, Incarnation(-1, -1, r.pid, r.start_ns, r.name, r.world, r.framework)


class _Ranks:
    """The rank table of a batch; its last extra entry stands for the node (index -1)."""

    def __init__(self, node: int, ranks: Sequence[bytes]) -> None:
        if len(ranks) > MAX_RANKS:
            raise BadBatch(f"{len(ranks)} ranks in one batch; at most {MAX_RANKS}")
        described = [_rank(data) for data in ranks]
        self.count = len(ranks)
        self.node = node
        self.keys = [key for key, _ in described]
        self.incarnations = [who for _, who in described]
        self.present: list[Incarnation] = []  # without those that only a coordinator spoke of
        self._starts = np.array([who.start_ns for who in self.incarnations] + [0], np.int64)
        self._jobs = np.array([key.job for key in self.keys] + [NODE_JOB], object)
        self._only_job = self.keys[0].job if len({key.job for key in self.keys}) == 1 else None
        self._ids: Ints | None = None

    def number(self, numbers: Numbers) -> None:
        """Give the ranks their numbers, once."""
        if self._ids is None:
            ids = [numbers.rank(key) for key in self.keys]
            named = zip(ids, self.incarnations, strict=True)
            self.incarnations = [who._replace(rank=number, node=self.node) for number, who in named]
            self.present = [who for who in self.incarnations if who.pid or who.framework == RECORDED]
            self._ids = np.array([*ids, -1], np.int64)

    def column(self, data: bytes, what: str, least: int = 0) -> Ints:
        """Indices into this table, -1 for the node where `least` allows it. Raises BadBatch when one points
        nowhere."""
        column = ints(data, what)
        if len(column) and not (column.min() >= least and column.max() < self.count):
            raise BadBatch(f"{what} points outside the {self.count} ranks of the batch")
        return column

    def split(
        self, dataset: str, table: Table, metrics: tuple[Metric, ...] = (), values: Ints | None = None
    ) -> list[Frame]:
        """One frame per job; indices become rank numbers, node and incarnation are added."""
        assert self._ids is not None
        at = table.pop("rank_at")
        table["rank"] = self._ids[at]
        if "sender" in table:
            sender = table["sender"]
            table["sender"], table["start_ns"] = self._ids[sender], self._starts[sender]
        table["node"] = np.full(len(at), self.node, np.int64)
        if dataset != "marks":
            table["start_ns"] = self._starts[at]
        if self._only_job is not None and dataset != "events":
            return [Frame(self._only_job, dataset, table, metrics, values)]
        if dataset.startswith("samples_"):
            return self._of_each_job(dataset, at, table, metrics, values)
        jobs = self._jobs[at]
        present = dict.fromkeys(jobs.tolist())
        if len(present) == 1:
            return [Frame(jobs[0], dataset, table, metrics, values)]
        return [Frame(job, dataset, take(table, jobs == job)) for job in present]

    def _of_each_job(
        self, dataset: str, at: Ints, table: Table, metrics: tuple[Metric, ...], values: Ints | None
    ) -> list[Frame]:
        """Samples by job. What speaks for the node is kept with every job that has ranks there."""
        frames, jobs, of_node = [], self._jobs[at], at < 0
        for job in dict.fromkeys(self._jobs[:-1].tolist()) or (NODE_JOB,):
            mine = (jobs == job) | of_node
            if mine.any():
                some = None if values is None else values[:, mine]
                frames.append(Frame(job, dataset, take(table, mine), metrics, some))
        return frames


def _ranks(node: int, ranks: tuple[bytes, ...], numbers: Numbers) -> _Ranks:
    """The rank table of these messages; an agent sends the same one until a rank comes or goes."""
    found = numbers.rank_tables.get((node, ranks))
    if found is None:
        if len(numbers.rank_tables) >= MAX_RANK_TABLES:
            numbers.rank_tables.clear()
        found = numbers.rank_tables[node, ranks] = _Ranks(node, ranks)
    return found


def ints(data: bytes, what: str) -> Ints:
    """A column of little-endian int64. Raises BadBatch when the bytes are no whole number of values."""
    if len(data) % 8:
        raise BadBatch(f"{what} has {len(data)} bytes, not a multiple of 8")
    return np.frombuffer(data, "<i8").astype(np.int64, copy=False)


def _same_length(columns: dict[str, NDArray[np.generic]], what: str) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadBatch(f"{what} has columns of different lengths: {lengths}")


def _times(column: Ints, what: str) -> Ints:
    if len(column) and not (column.min() > -MAX_TIME_NS and column.max() < MAX_TIME_NS):
        raise BadBatch(f"{what} holds times out of range")
    return column


def _metric(counter_set: str, m: Any) -> Metric:
    return Metric(counter_set, m.name, m.kind, m.unit, m.scope, m.provenance, m.is_double, m.coverage_of)


def _instances(names: Sequence[str]) -> NDArray[np.generic]:
    """Names of parts; the last, which -1 picks, is the whole."""
    if len(names) > MAX_INSTANCES:
        raise BadBatch(f"{len(names)} instances in one batch; at most {MAX_INSTANCES}")
    return np.array([*(_name(name, "instance") for name in names), ""], object)


def _samples(
    block: Any, schemas: Sequence[_Schema], ranks: _Ranks, instances: NDArray[np.generic]
) -> tuple[_Schema, Table, Ints]:
    if block.counter_set >= len(schemas):
        raise BadBatch(f"samples of counter set {block.counter_set}, but the batch describes {len(schemas)}")
    schema = schemas[block.counter_set]
    what = f"counter set {schema.name!r}"
    if len(block.columns) != len(schema.metrics):
        raise BadBatch(f"{what} has {len(schema.metrics)} metrics but {len(block.columns)} columns")
    rank = ranks.column(block.rank, "samples.rank", least=NODE_RANK)
    time_ns = _times(ints(block.time_ns, "samples.time_ns"), "samples.time_ns")
    lengths = {len(block.rank), len(block.time_ns), *map(len, block.columns)}
    if len(lengths) > 1:
        raise BadBatch(f"{what} has columns of different lengths: {sorted(lengths)} bytes")
    values = ints(b"".join(block.columns), what).reshape(len(schema.metrics), len(rank))
    table: Table = {"rank_at": rank, "time_ns": time_ns}
    if block.instance:
        part = ints(block.instance, "samples.instance")
        if len(part) != len(rank) or not (part.min() >= -1 and part.max() < len(instances) - 1):
            raise BadBatch(f"{what}: samples.instance points outside the instances of the batch")
        table["instance"] = instances[part]
    return schema, table, values


def _marks(batch: Any, ranks: _Ranks) -> Table | None:
    marks = batch.marks
    if not batch.HasField("marks"):
        return None
    flags = ints(marks.flags, "marks.flags")
    table: Table = {
        "rank_at": ranks.column(marks.rank, "marks.rank"),
        "sender": ranks.column(marks.sender, "marks.sender"),
        "kind": ints(marks.kind, "marks.kind"),
        "step": ints(marks.step, "marks.step"),
        "examples": ints(marks.examples, "marks.examples"),
        "time_ns": _times(ints(marks.time_ns, "marks.time_ns"), "marks.time_ns"),
        "asynchronous": (flags & 1).astype(np.int64),
        "phase": _phases(ints(marks.phase, "marks.phase"), marks.phases),
    }
    _same_length(table, "marks")
    return table if len(flags) else None


def _phases(at: Ints, names: Sequence[str]) -> NDArray[np.generic]:
    if len(at) and at.max() >= len(names):
        raise BadBatch("marks.phase points outside the phases of the batch")
    known = np.array([*(_name(n, "phase", empty=True) for n in names), ""], object)
    return known[np.maximum(at, -1)]


def _calls(batch: Any, ranks: _Ranks) -> Table | None:
    calls = batch.calls
    if not batch.HasField("calls"):
        return None
    kernel = ints(calls.kernel, "calls.kernel")
    if not (kernel.min(initial=0) >= 0 and kernel.max(initial=-1) < len(batch.kernels)):
        raise BadBatch(f"calls.kernel points outside the {len(batch.kernels)} kernels of the batch")
    for described in batch.kernels:
        if min(getattr(described, field) for field in SIZES.values()) < 0:
            raise BadBatch(f"a kernel {described.operation[:40]!r} has counts below zero")
    table: Table = {
        "rank_at": ranks.column(calls.rank, "calls.rank"),
        "kernel": kernel,
        "time_ns": _times(ints(calls.start_ns, "calls.start_ns"), "calls.start_ns"),
        "duration_ns": ints(calls.duration_ns, "calls.duration_ns"),
    }
    _same_length(table, "calls")
    durations = table["duration_ns"]
    if len(durations) and not (durations.min() >= 0 and durations.max() < MAX_TIME_NS // 2):
        raise BadBatch("calls.duration_ns holds durations out of range")
    return table if len(durations) else None


def _spans(batch: Any, ranks: _Ranks) -> Table | None:
    spans = batch.spans
    if not batch.HasField("spans"):
        return None
    if len(spans.names) > MAX_SPAN_NAMES:
        raise BadBatch(f"{len(spans.names)} names of spans in one batch; at most {MAX_SPAN_NAMES}")
    for name in spans.names:
        if len(name) > MAX_SPAN_NAME or not SPAN_NAME.fullmatch(name):
            raise BadBatch(f"span {name[:MAX_SPAN_NAME]!r} must be named as 'phase.input' is")
    at = ints(spans.name, "spans.name")
    if not (at.min(initial=0) >= 0 and at.max(initial=-1) < len(spans.names)):
        raise BadBatch(f"spans.name points outside the {len(spans.names)} names of the batch")
    table: Table = {
        "rank_at": ranks.column(spans.rank, "spans.rank"),
        "time_ns": _times(ints(spans.begin_ns, "spans.begin_ns"), "spans.begin_ns"),
        "end_ns": _times(ints(spans.end_ns, "spans.end_ns"), "spans.end_ns"),
        "bytes": ints(spans.bytes, "spans.bytes"),
        "count": ints(spans.count, "spans.count"),
        "name": np.array(list(spans.names), object)[at],
    }
    _same_length(table, "spans")
    if (table["end_ns"] < table["time_ns"]).any():
        raise BadBatch("a span ends before it begins")
    if len(at) and not (table["count"].min() >= 0 and table["count"].max() < 2**31):
        raise BadBatch("spans.count holds counts out of range")
    if ((table["bytes"] < 0) & (table["bytes"] != ABSENT)).any() or (table["bytes"] > 2**50).any():
        raise BadBatch("spans.bytes holds sizes out of range")
    return table if len(at) else None


def _bound_names(frame: Frame, numbers: Numbers) -> None:
    """Names of phases and spans that are too many for one job become "other"."""
    column = {"marks": "phase", "spans": "name"}.get(frame.dataset)
    if column is None:
        return
    names = frame.base[column]
    for name in set(names.tolist()) - {""}:
        span = name if column == "name" else f"phase.{name}"
        if not numbers.allows(frame.job, span):
            other = f"{name.partition('.')[0]}.other" if column == "name" else "other"
            names[names == name] = other


def _with_kernels(calls: Table, kernels: Sequence[Any], numbers: Numbers) -> Table:
    at = calls["kernel"].astype(np.int64)
    kinds = [
        KernelKind(k.library, k.operation, k.variant, k.precision, k.implementation, k.problem, k.note)
        for k in kernels
    ]
    calls["kernel"] = np.array([numbers.kernel(kind) for kind in kinds], np.int64)[at]
    for name, field in SIZES.items():
        known = [getattr(k, field) if k.HasField(field) else ABSENT for k in kernels]
        if name in ("flops", "bytes") or any(size != ABSENT for size in known):
            calls[name] = np.array(known, np.int64)[at]
    on_gpu = np.array([k.library in GPU_LIBRARIES for k in kernels], np.int64)
    if on_gpu.any():
        calls["on_gpu"] = on_gpu[at]
    calls["precision"] = np.array([precision_code(k.precision) for k in kernels], np.int64)[at]
    return calls


def _events(batch: Any, ranks: _Ranks) -> Table:
    events = [e for e in batch.events if e.kind in EventKind._value2member_map_]
    for event in events:
        if not -1 <= event.rank < ranks.count:
            raise BadBatch("events.rank points outside the ranks of the batch")
    watched = (-1, int(EventKind.BATCH), batch.begin_ns, batch.end_ns, 0, "")
    listed = [(e.rank, e.kind, e.begin_ns, e.end_ns, e.count, e.text[:MAX_TEXT]) for e in events]
    at, kind, begin, end, count, text = zip(watched, *listed, strict=True)
    return {
        "rank_at": np.array(at, np.int64),
        "kind": np.array(kind, np.int64),
        "time_ns": _times(np.array(begin, np.int64), "events.begin_ns"),
        "end_ns": _times(np.array(end, np.int64), "events.end_ns"),
        "count": np.array([min(c, MAX_TIME_NS) for c in count], np.int64),
        "text": np.array(text, object),
    }


def decode_machine(hello: Any) -> Machine:
    """What a Hello says of its node."""
    m = hello.machine
    ceilings = tuple(decode_ceiling(c) for c in m.ceilings)
    sources = tuple(SourceStatus(s.name, s.works, s.reason, s.advice, s.fills) for s in hello.sources)
    host = _name(m.host, "host")
    return Machine(
        host,
        m.cpu_model,
        m.sockets,
        m.cores,
        m.cpus,
        m.memory_bytes,
        m.kernel,
        ceilings,
        sources,
        hello.interval_ns,
    )


def decode_ceiling(c: Any) -> Ceiling:
    """A ceiling as an agent said it; what it did not say is None, a provenance it did not say measured."""
    said = {name: getattr(c, name) for name in Ceiling._fields}
    said |= {name: None for name in ("threads", "median", "clock_hz") if not c.HasField(name)}
    return Ceiling(**{**said, "provenance": c.provenance or int(Provenance.MEASURED)})
