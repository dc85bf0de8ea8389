"""Batches as agents send them and tables as the server holds them, with everything but the point left out."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance, Scope
from roofline.v1 import ingest_pb2 as pb
from roofline_server.correlate.steps import JobTables, correlate
from roofline_server.ingest.service import decode_entry
from roofline_server.records import (
    ABSENT,
    ClockSample,
    Frame,
    Machine,
    MarkKind,
    Metric,
    NodeKey,
    Table,
    rows,
)
from roofline_server.store.catalog.catalog import Catalog, sqlite_url
from roofline_server.store.intake.entries import Entry
from roofline_server.store.segments.frames import by_dataset
from roofline_server.store.segments.reader import on_server_clock
from roofline_server.store.store import Store

S = 1_000_000_000
MS = 1_000_000
UNIX = 1_700_000_000 * S  # a moment on the server's clock
BEGIN, END, BORDER = int(MarkKind.BEGIN), int(MarkKind.END), int(MarkKind.BORDER)
CUMULATIVE, GAUGE = 1, 2

PEAK_F32 = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e12, "FLOP/s", 0.01, "", 0)
PEAK_F64 = Ceiling("peak.f64.512", "compute", "", "f64", 512, 2e12, "FLOP/s", 0.01, "", 0)
DRAM = Ceiling("dram.triad", "memory", "dram", "", 0, 1e11, "byte/s", 0.01, "", 0)

PROCESS = (("cpu_ns", CUMULATIVE, False), ("rss_bytes", GAUGE, False))
TCP = (("tcp_sent_bytes", CUMULATIVE, False), ("tcp_received_bytes", CUMULATIVE, False))


def machine(host: str = "node1", ceilings: Sequence[Ceiling] = (PEAK_F32, DRAM), **changes: Any) -> Machine:
    works = tuple(SourceStatus(name, True, "", "") for name in ("process", "tcp"))
    made = Machine(host, "a CPU", 2, 24, 48, 1 << 37, "6.1", tuple(ceilings), works, S)
    return made._replace(**changes)


def rank(job: str = "job", role: str = "worker", index: int = 0, pid: int = 100, **more: Any) -> pb.Rank:
    return pb.Rank(job=job, role=role, index=index, pid=pid, **{"start_ns": 5, **more})


def packed(values: Iterable[float], double: bool = False) -> bytes:
    kept = list(values)
    return struct.pack(f"<{len(kept)}{'d' if double else 'q'}", *kept)


def counter_set(name: str, metrics: Iterable[tuple[str, int, bool]]) -> pb.CounterSet:
    return pb.CounterSet(
        name=name,
        metrics=[
            pb.Metric(name=n, kind=kind, unit="1", scope=1, provenance=1, is_double=double)
            for n, kind, double in metrics
        ],
    )


def samples(
    which: int, rows_: Sequence[tuple[int, int, Sequence[float]]], metrics: Sequence[tuple[str, int, bool]]
) -> pb.Samples:
    """rows_: (rank, time_ns, values)."""
    return pb.Samples(
        counter_set=which,
        rank=packed(r[0] for r in rows_),
        time_ns=packed(r[1] for r in rows_),
        columns=[packed((r[2][i] for r in rows_), m[2]) for i, m in enumerate(metrics)],
    )


def marks(
    found: Sequence[tuple[int, int, int, int, int]],
    asynchronous: bool = False,
    likes: Mapping[int, int] | None = None,
) -> pb.Marks:
    """found: (rank, kind, step, examples, time_ns). likes: of a step, of all ranks; 0 where it has none."""
    n = len(found)
    return pb.Marks(
        rank=packed(m[0] for m in found),
        sender=packed(m[0] for m in found),
        kind=packed(m[1] for m in found),
        step=packed(m[2] for m in found),
        examples=packed(m[3] for m in found),
        time_ns=packed(m[4] for m in found),
        phase=packed([-1] * n),
        flags=packed([int(asynchronous)] * n),
        like=packed(likes.get(m[2], 0) for m in found) if likes else b"",
    )


def calls(found: Sequence[tuple[int, int, int, int]]) -> pb.Calls:
    """found: (rank, kernel, start_ns, duration_ns)."""
    columns = [packed(c[i] for c in found) for i in range(4)]
    return pb.Calls(rank=columns[0], kernel=columns[1], start_ns=columns[2], duration_ns=columns[3])


def spans(found: Sequence[tuple[int, str, int, int, int, int]]) -> pb.Spans:
    """found: (rank, name, begin_ns, end_ns, bytes, count)."""
    names = list(dict.fromkeys(s[1] for s in found))
    return pb.Spans(
        rank=packed(s[0] for s in found),
        name=packed(names.index(s[1]) for s in found),
        begin_ns=packed(s[2] for s in found),
        end_ns=packed(s[3] for s in found),
        bytes=packed(s[4] for s in found),
        count=packed(s[5] for s in found),
        names=names,
    )


def kernel(flops: int | None = 1000, traffic: int | None = 100, precision: str = "f32") -> pb.Kernel:
    return pb.Kernel(library="onednn", operation="matmul", precision=precision, flops=flops, bytes=traffic)


def batch(sequence: int = 1, begin_ns: int = 10 * S, end_ns: int = 11 * S, **parts: Any) -> pb.Batch:
    return pb.Batch(sequence=sequence, begin_ns=begin_ns, end_ns=end_ns, **parts)


def full_batch() -> pb.Batch:
    """One of everything, two rows each."""
    return batch(
        ranks=[rank(), rank(role="ps", pid=101)],
        counter_sets=[counter_set("process", PROCESS), counter_set("perf", [("load", GAUGE, True)])],
        samples=[
            samples(0, [(0, 10 * S, (7, 70)), (1, 10 * S, (ABSENT, 80))], PROCESS),
            samples(1, [(0, 10 * S, (0.5,)), (1, 10 * S, (float("nan"),))], [("load", GAUGE, True)]),
        ],
        marks=marks([(0, BEGIN, 1, ABSENT, 10 * S), (0, END, 1, 32, 10 * S + MS)]),
        kernels=[kernel(), kernel(None, None, "bf16")],
        calls=calls([(0, 0, 10 * S, 50), (0, 1, 10 * S + 60, 50)]),
        events=[
            pb.Event(kind=pb.EVENT_KIND_LOST, rank=-1, begin_ns=10 * S, end_ns=11 * S, count=3, text="marks"),
            pb.Event(kind=pb.EVENT_KIND_RANK_EXITED, rank=1, begin_ns=11 * S, end_ns=11 * S),
        ],
    )


# -- tables ----------------------------------------------------------------------------------------


def table(**columns: Sequence[float]) -> Table:
    return {
        name: np.array(c, np.float64 if any(isinstance(v, float) for v in c) else np.int64)
        for name, c in columns.items()
    }


def mark_table(found: Sequence[tuple[int, int, int, int]], examples: int = 1, asynchronous: int = 0) -> Table:
    """found: (rank, kind, step, time_ns)."""
    columns = [np.array([m[i] for m in found], np.int64) for i in range(4)]
    same = np.ones(len(found), np.int64)
    return {
        **dict(zip(("rank", "kind", "step", "time_ns"), columns, strict=True)),
        "examples": same * examples,
        "asynchronous": same * asynchronous,
    }


def window_table(found: Sequence[tuple[int, int, int, int]], examples: int = 1) -> Table:
    """found: (rank, step, begin_ns, end_ns)."""
    columns = [np.array([w[i] for w in found], np.int64) for i in range(4)]
    return {
        **dict(zip(("rank", "step", "begin_ns", "end_ns"), columns, strict=True)),
        "examples": np.full(len(found), examples, np.int64),
        "asynchronous": np.zeros(len(found), np.int64),
    }


def triples(windows: Table) -> list[tuple[int, int, int, int]]:
    """(rank, step, begin_ns, end_ns) of windows."""
    return list(zip(*(windows[n].tolist() for n in ("rank", "step", "begin_ns", "end_ns")), strict=True))


def metric(name: str, kind: int = CUMULATIVE, is_double: bool = False) -> Metric:
    return Metric("process", name, kind, "1", Scope.PROCESS, Provenance.MEASURED, is_double, "")


def canonical(found: Mapping[str, Table]) -> dict[str, list[tuple[Any, ...]]]:
    """Tables as sorted rows that compare equal whatever their order; absent values are None."""
    result = {}
    for name, one in found.items():
        if rows(one):
            columns = [[None if v != v else v for v in one[c].tolist()] for c in sorted(one)]
            result[name] = sorted(zip(*columns, strict=True), key=repr)
    return result


# -- stores ----------------------------------------------------------------------------------------


def open_store(root: Path) -> Store:
    return Store(root, decode_entry)


@contextmanager
def catalog_of(root: Path) -> Iterator[Catalog]:
    """The catalog of a data directory, also while a store works with it."""
    catalog = Catalog(sqlite_url(root / "catalog.db"))
    try:
        yield catalog
    finally:
        catalog.close()


def crash(store: Store) -> None:
    """Let go of the files as a killed process would: nothing is finished."""
    store._inbox.close()
    store._catalog.close()


def connections(monkeypatch: pytest.MonkeyPatch) -> dict[str, sqlite3.Connection]:
    """File name -> the newest connection to it, of all that SQLite opens from now on."""
    opened: dict[str, sqlite3.Connection] = {}
    connect = sqlite3.connect

    def recorded(path: Any, *given: Any, **named: Any) -> sqlite3.Connection:
        opened[Path(path).name] = connection = connect(path, *given, **named)
        return connection

    monkeypatch.setattr(sqlite3, "connect", recorded)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", recorded)  # which SQLAlchemy calls
    return opened


class Node:
    """An agent's machine as the store sees it. Its node time is the server's less offset_ns."""

    def __init__(self, agent: str, offset_ns: int = UNIX, host: str = "", boot: str = "boot") -> None:
        self.agent, self.offset_ns, self.boot = agent, offset_ns, boot
        self.host = host or f"host-{agent}"

    def greet(self, store: Store, rtt_ns: int = 100_000) -> int:
        """Make the node known, with exchanges every ten seconds of its first five minutes."""
        number = self.number(store)
        for node_ns in range(0, 300 * S, 10 * S):
            store.add_clock_sample(number, ClockSample(node_ns, self.offset_ns, rtt_ns))
        return number

    def number(self, store: Store) -> int:
        return store.hello(NodeKey(self.agent, self.boot), machine(self.host))

    def entry(self, store: Store, sent: pb.Batch) -> Entry:
        data = pb.AgentMessage(batch=sent).SerializeToString()
        return Entry(0, self.agent, sent.sequence, self.number(store), sent.end_ns + self.offset_ns, data)

    def put(self, store: Store, *sent: pb.Batch) -> None:
        entries = [self.entry(store, one) for one in sent]
        store.commit([(entry, decode_entry(entry, store.name_ids)) for entry in entries])


def steps_of_all(store: Store, job: str, sent: Iterable[tuple[Node, pb.Batch]]) -> dict[str, Table]:
    """What correlate() gives over all raw data at once."""
    frames: list[Frame] = []
    for node, one in sent:
        frames += decode_entry(node.entry(store, one), store.name_ids).frames
    raw = {
        name: on_server_clock(found, store.clocks())
        for name, found in by_dataset(f for f in frames if f.job == job).items()
    }
    sets = {n.removeprefix("samples_"): t for n, t in raw.items() if n.startswith("samples_")}
    tables = JobTables(
        store.name_ids.ranks_of(job),
        raw.get("marks", {}),
        sets,
        raw.get("calls", {}),
        raw.get("events", {}),
        spans=raw.get("spans", {}),
    )
    return correlate(tables, store.name_ids.metrics_by_set(job))


STEP_NS = 700 * MS


def training(
    ranks: Sequence[pb.Rank],
    batches: int = 8,
    batch_ns: int = 5 * S,
    sample_ns: int = S,
    first_ns: int = 100 * S,
    stepping: Sequence[int] = (0,),
    step_ns: int = STEP_NS,
    first_sequence: int = 1,
    bordered: Sequence[int] = (),
) -> list[pb.Batch]:
    """Batches of one node: every rank sampled, those in `stepping` mark steps and call one kernel in each.

    Step k begins at first_ns + k * step_ns of node time and takes nine tenths of that. bordered: of the
    stepping ranks those that report a step when it is done, by a border and its begin before that.
    """
    made = []
    for number in range(batches):
        begin = first_ns + number * batch_ns
        end = begin + batch_ns
        moments = range(begin, end, sample_ns)
        seen = [(r, t, ((t - first_ns) // 2 + r, 1000 + r)) for t in moments for r in range(len(ranks))]
        sent = [(r, t, ((t - first_ns) * (r + 1) // 1000, 5)) for t in moments for r in range(len(ranks))]
        said, called, covered = [], [], []
        for r in stepping:
            covered.append(pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=r, begin_ns=begin, end_ns=end))
            for k in range((begin - first_ns) // step_ns, (end - first_ns) // step_ns + 1):
                start = first_ns + k * step_ns
                finish = start + step_ns * 9 // 10
                if r in bordered:
                    done = [(r, BEGIN, k, ABSENT, start), (r, BORDER, k, 32, finish)]
                    said += done if begin <= finish < end else []
                else:
                    said += [(r, BEGIN, k, ABSENT, start)] if begin <= start < end else []
                    said += [(r, END, k, 32, finish)] if begin <= finish < end else []
                called += [(r, 0, start + step_ns // 3, 1000)] if begin <= start + step_ns // 3 < end else []
        made.append(
            batch(
                first_sequence + number,
                begin,
                end,
                ranks=ranks,
                counter_sets=[counter_set("process", PROCESS), counter_set("tcp", TCP)],
                samples=[samples(0, seen, PROCESS), samples(1, sent, TCP)],
                marks=marks(said, likes={k: k % 3 for _, _, k, _, _ in said}),
                kernels=[kernel()],
                calls=calls(called),
                events=covered,
            )
        )
    return made
