"""Plain records that the parts of the server hand to each other.

Bulk data are *tables*: dicts of equally long numpy arrays by column name. Node times are ns of a node's
CLOCK_MONOTONIC; server times are ns of UNIX time on the server's clock. Absent is NaN or ABSENT, never 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.values import Provenance, Scope

ABSENT = -(2**63)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Table = dict[str, NDArray[Any]]

NODE_JOB = ""  # rows that concern a node and not a job are kept under the empty job
RECORDED = "recorded"  # `framework` of a rank that is a file: its process is long gone
RECORDING = "recording"  # `boot` of an agent that is a file: its node time is UNIX time
NODE_RANK = -1  # in the column `rank`: the row speaks for the node, or for a part of it (column `instance`)


class MetricKind(IntEnum):
    UNSPECIFIED = 0
    CUMULATIVE = 1
    GAUGE = 2


class MarkKind(IntEnum):
    BEGIN = 1
    END = 2
    BORDER = 3
    PHASE_BEGIN = 4
    PHASE_END = 5


class EventKind(IntEnum):
    AGENT_STARTED = 1
    RANK_STARTED = 2
    RANK_EXITED = 3
    KERNELS_COVERED = 4
    LOST = 5
    REFUSED = 6
    SOURCE_FAILED = 7
    FACT = 8
    BATCH = 100  # made by the server: the agent watched its node between begin and end


class Metric(NamedTuple):
    """A named quantity of a counter set."""

    counter_set: str
    name: str
    kind: int
    unit: str
    scope: Scope
    provenance: Provenance
    is_double: bool
    coverage_of: str


class RankKey(NamedTuple):
    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


class NodeKey(NamedTuple):
    """A clock domain: one boot of one agent's machine."""

    agent: str
    boot: str


class Incarnation(NamedTuple):
    """One process that was a rank. Times are node times of its node."""

    rank: int
    node: int
    pid: int
    start_ns: int
    name: str
    world: int
    framework: str


class KernelKind(NamedTuple):
    library: str
    operation: str
    variant: str
    precision: str
    implementation: str
    problem: str
    note: str


# By their number in stored columns: new ones are appended.
PRECISIONS = (
    *("", "f32", "f64", "bf16", "f16", "s8", "u8", "tf32", "f8_e4m3", "f8_e5m2", "s4", "u4"),
    *("f8", "f4"),
)


def precision_code(name: str) -> int:
    """Position of a precision in PRECISIONS, by which columns refer to it; 0 for one not listed."""
    return PRECISIONS.index(name) if name in PRECISIONS else 0


class Frame(NamedTuple):
    """Rows of one dataset of one job.

    The metrics of samples stay one array, (metrics, rows) of int64 as they came: thousands of frames are put
    together at a sealing, and one array each is much cheaper than one for every metric.
    """

    job: str
    dataset: str
    base: Table
    metrics: tuple[Metric, ...] = ()
    values: Ints | None = None  # of samples

    @property
    def table(self) -> Table:
        """All columns."""
        return self.base if self.values is None else {**self.base, **columns(self.metrics, self.values)}


def columns(metrics: Sequence[Metric], values: Ints) -> Table:
    """Columns by metric name, views of values (metrics, rows); a double is held by its bits."""
    pairs = zip(metrics, values, strict=True)
    return {metric.name: row.view(np.float64) if metric.is_double else row for metric, row in pairs}


ARRAY_BYTES, FRAME_BYTES, TEXT_BYTES = 128, 1024, 64  # of memory that each takes in addition to its data


def memory_of(frames: Sequence[Frame]) -> int:
    """Bytes of memory that frames take: small batches are mostly what Python and numpy add."""
    found = 0
    for frame in frames:
        arrays = [*frame.base.values(), *([] if frame.values is None else [frame.values])]
        found += FRAME_BYTES + sum(ARRAY_BYTES + array.nbytes for array in arrays)
        if frame.dataset == "events":
            found += sum(TEXT_BYTES + len(text) for text in frame.base["text"].tolist())
    return found


class Limit(NamedTuple):
    """Which runs somebody may see: those of a user, of jobs whose names fit a pattern, or ("": any) both."""

    user: str = ""
    jobs: str = ""

    def allows(self, run: str, owners: Collection[str]) -> bool:
        """owners: who submitted ranks of it."""
        if self.user and self.user not in owners:
            return False
        return not self.jobs or any(fnmatchcase(name, self.jobs) for name in (run, _job_of(run)))


def _job_of(run: str) -> str:
    job, slash, number = run.rpartition("/")
    return job if slash and number.isdecimal() else run


class DecodedBatch(NamedTuple):
    """What one batch of an agent holds, checked. Times are node times."""

    sequence: int
    begin_ns: int
    end_ns: int
    frames: list[Frame]
    incarnations: list[Incarnation]  # the same object while the node's ranks are the same
    exited: dict[Incarnation, Ending]
    ranks: Collection[int]  # ids of all ranks in it, also of those that only another rank reported on
    owners: frozenset[tuple[str, str]] = frozenset()  # runs, and who submitted ranks of them


class Ending(NamedTuple):
    """How a process ended; what is None is not known."""

    status: int | None = None  # exit code, or the signal that ended it, negative
    step: int | None = None  # the last that it finished
    time_ns: int | None = None  # node time

    def with_later(self, other: Ending) -> Ending:
        """What both reports of one end say."""
        return Ending(*(b if b is not None else a for a, b in zip(self, other, strict=True)))


class Lifetime(NamedTuple):
    """When an incarnation was first and last seen, node times, and whether its exit was reported."""

    first_ns: int
    last_ns: int
    exited: bool
    ending: Ending = Ending()


class CutLevel(IntEnum):
    """How much of a job retention has removed: each level with all before it."""

    RAW = 1  # samples, marks, spans, kernel calls
    STEPS = 2  # step deltas and events too: what is left is the report that was computed before
    REPORT = 3  # that report too: what is left is the line in the list of jobs


class Removed(NamedTuple):
    """What retention removed of a job. Server times: of the newest removal, and of the newest data in it."""

    level: CutLevel
    at_ns: int
    end_ns: int
    rows: int
    bytes: int


class ClockSample(NamedTuple):
    """server time = node_ns + offset_ns around node_ns; wrong by at most rtt_ns / 2."""

    node_ns: int
    offset_ns: int
    rtt_ns: int


class Machine(NamedTuple):
    """What an agent reports of its node."""

    host: str
    cpu_model: str
    sockets: int
    cores: int
    cpus: int
    memory_bytes: int
    kernel: str
    ceilings: tuple[Ceiling, ...]
    sources: tuple[SourceStatus, ...]
    interval_ns: int


def rows(table: Table) -> int:
    """Number of rows of a table."""
    return len(next(iter(table.values()))) if table else 0


def constant(value: int, count: int) -> Ints:
    """A column that is the same in all rows; not to be written to. It takes the memory of one number."""
    # broadcast_to takes four times as long.
    found: Ints = np.ndarray((count,), np.int64, np.int64(value), strides=(0,))
    return found


def constant_float(value: float, count: int) -> Floats:
    """A column of floats that is the same in all rows; not to be written to."""
    found: Floats = np.ndarray((count,), np.float64, np.float64(value), strides=(0,))
    return found


def is_constant(column: NDArray[Any]) -> bool:
    """Whether it was made by `constant`, and has a row."""
    return column.strides == (0,) and column.dtype == np.int64 and len(column) > 0


def are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two columns are the same. Those that tables share are one object."""
    return one is other or np.array_equal(one, other)


def take(table: Table, which: NDArray[np.generic]) -> Table:
    """The rows picked by a mask or by indices."""
    # numpy takes twice as long for column[which].
    mask = which.dtype == np.bool_
    at: Ints = np.flatnonzero(which) if mask else which.astype(np.int64, copy=False)
    return {
        name: constant(int(column[0]), len(at)) if len(at) and is_constant(column) else column.take(at)
        for name, column in table.items()
    }


def concatenate(tables: list[Table]) -> Table:
    """All rows in order; a column that a table lacks is absent there (NaN, ABSENT)."""
    tables = [table for table in tables if rows(table)]
    if len(tables) < 2:
        return tables[0] if tables else {}
    found: Table = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        kind = next(table[name].dtype for table in tables if name in table)
        columns = [table[name] if name in table else absent(kind, rows(table)) for table in tables]
        found[name] = _in_a_row(columns)
    return found


def _in_a_row(columns: list[NDArray[Any]]) -> NDArray[Any]:
    if all(map(is_constant, columns)) and len({int(column[0]) for column in columns}) == 1:
        return constant(int(columns[0][0]), sum(map(len, columns)))
    return np.concatenate(columns)


def absent(kind: np.dtype[Any], count: int) -> NDArray[Any]:
    """A column without any value: NaN, ABSENT or empty text."""
    if kind.kind == "f":
        return np.full(count, np.nan)
    if kind.kind == "i":
        return np.full(count, ABSENT, np.int64)
    return np.full(count, "", object)
