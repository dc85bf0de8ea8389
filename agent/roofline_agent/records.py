"""Plain records that the parts of the agent hand to each other. Times are CLOCK_MONOTONIC in ns."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from roofline_step.packets import StepForm

ABSENT_INT = -(2**63)  # what an int64 column holds where nobody measured a value


class MetricKind(IntEnum):
    CUMULATIVE = 1
    GAUGE = 2


class Scope(IntEnum):
    PROCESS = 1
    SOCKET = 2
    NODE = 3
    GPU = 4


class Provenance(IntEnum):
    MEASURED = 1
    ESTIMATED = 2
    ANALYTIC = 3
    REPORTED = 4


class Metric(NamedTuple):
    """coverage_of: the metric of which this one is the share of time in which it was really counted."""

    name: str
    kind: MetricKind
    unit: str
    scope: Scope = Scope.PROCESS
    provenance: Provenance = Provenance.MEASURED
    is_double: bool = False
    coverage_of: str = ""


class CounterSet(NamedTuple):
    """A named list of metrics sampled together: one dataset of the store."""

    name: str
    metrics: tuple[Metric, ...]

    def estimated(self, names: Collection[str]) -> CounterSet:
        """This set, where these metrics are marked as estimated."""
        mark = Provenance.ESTIMATED
        return self._replace(
            metrics=tuple(m._replace(provenance=mark) if m.name in names else m for m in self.metrics)
        )


class Rank(NamedTuple):
    """One incarnation of one training process; pid 0: another rank speaks for it from afar.

    start_ns counts from boot and distinguishes incarnations; it is no node time.
    """

    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    pid: int = 0
    start_ns: int = 0
    name: str = ""
    world: int = 0
    framework: str = ""
    uid: int = -1
    launch: str = ""  # the process that starts it again should it fail; "": none does
    user: str = ""  # who submitted it; "": not known

    @property
    def key(self) -> str:
        return f"{self.role}:{self.index}"


class Sample(NamedTuple):
    """One row of a counter set; a value is None where nobody measured it.

    rank None: the row speaks for the node. instance: the part of the rank or node that it speaks for
    ("socket 0", "gpu 1", "eth0", a peer "ps:0"); "" is the whole.
    """

    rank: Rank | None
    time_ns: int
    values: tuple[int | float | None, ...]
    instance: str = ""


Samples = Mapping[CounterSet, Sequence[Sample]]  # the rows of each counter set


class MarkKind(IntEnum):
    BEGIN = 1
    END = 2
    BORDER = 3
    PHASE_BEGIN = 4
    PHASE_END = 5


class Mark(NamedTuple):
    rank: Rank
    sender: Rank
    kind: int
    step: int
    examples: int | None
    time_ns: int
    phase: str = ""
    asynchronous: bool = False
    like: int = 0  # steps of a rank with the same number did the same work; 0: not known


class Span(NamedTuple):
    """A named stretch of time of a rank: a phase of its steps, or what it communicated."""

    rank: Rank
    name: str
    begin_ns: int
    end_ns: int
    bytes: int | None = None
    count: int = 1  # type: ignore[assignment]  # how many things it stands for


class StepRows(NamedTuple):
    """Steps of a rank that differ in numbers only: a mark or two and the same spans each. The numbers stay as
    the rank packed them (roofline_step/packets.py), for the agent has no use for them."""

    rank: Rank
    form: StepForm
    numbers: bytes  # int64, little-endian, those of a step behind one another


class KernelShape(NamedTuple):
    """What was computed, without when and how long.

    `flops` counts a multiply-add as two operations. It is 0 for an operation that only moves data, and None
    where the line does not tell: missing is not zero. `bytes` is the least traffic the call can cause, each
    tensor touched once; None where a type or a size is not in the line.
    """

    library: str  # "onednn" or "mkl"
    operation: str  # "convolution", "matmul", "gemm", "reorder", ...
    variant: str  # "forward_training", "backward_data", ...; "" where the library prints none
    precision: str  # element type of what is computed on: "f32", "bf16", ...; "" if it is not printed
    implementation: str  # "jit:avx512_core", or the routine's name for MKL
    problem: str  # the sizes as the library writes them
    flops: int | None
    bytes: int | None
    note: str = ""  # what a reader of `flops` must know; "" if nothing
    dram_bytes: int | None = None  # of one call, as a profiler counted them; None: nobody did
    l1_bytes: int | None = None  # likewise
    l2_bytes: int | None = None
    layer: str = ""  # of the model, that it was executed for; "": not known
    on_gpu: bool | None = None  # or another accelerator; None: as the library says
    counted: bool | None = None  # whether a profiler or counters counted `flops`; None: on a GPU they were


class KernelCall(NamedTuple):
    """One call, as its line shows it. `start_ns` (epoch) is None where the line gives no usable time."""

    shape: KernelShape
    start_ns: int | None
    duration_ns: int


class TimedCall(NamedTuple):
    """One call placed in time: `start_ns` (epoch) is the line's own, or follows from the lines around it."""

    shape: KernelShape
    start_ns: int
    duration_ns: int


class Call(NamedTuple):
    """One executed kernel of a rank."""

    rank: Rank
    shape: KernelShape
    start_ns: int
    duration_ns: int


class EventKind(IntEnum):
    AGENT_STARTED = 1
    RANK_STARTED = 2
    RANK_EXITED = 3
    KERNELS_COVERED = 4
    LOST = 5
    REFUSED = 6
    SOURCE_FAILED = 7
    FACT = 8


class Event(NamedTuple):
    kind: EventKind
    begin_ns: int
    end_ns: int
    rank: Rank | None = None
    count: int = 0  # type: ignore[assignment]
    text: str = ""
    status: int | None = None  # of RANK_EXITED: exit code, or the signal that ended it, negative
    step: int | None = None  # of RANK_EXITED: the last that it finished


class Batch(NamedTuple):
    """Everything seen between begin_ns and end_ns."""

    begin_ns: int
    end_ns: int
    samples: Samples = MappingProxyType({})
    marks: Sequence[Mark] = ()
    calls: Sequence[Call] = ()
    events: Sequence[Event] = ()
    ranks: Sequence[Rank] = ()
    spans: Sequence[Span] = ()
    steps: Sequence[StepRows] = ()


class SourceStatus(NamedTuple):
    name: str
    works: bool
    reason: str = ""
    advice: str = ""
    fills: str = ""
    caveat: str = ""  # which of its values `roofline-agent validate` found off, and by how much


class Source(Protocol):
    """Where values come from. A broken source costs its own samples, never the agent."""

    name: str
    counter_set: CounterSet
    fills: str  # what of a report its values fill, in a few words
    measures: bool  # asks something that takes its time or can hang (a driver, a service), not just files

    def probe(self) -> SourceStatus:
        """Whether it can work on this node; called before the first sample, and again, now and then, while it
        cannot."""
        ...

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        """Rows for the ranks alive now and for the node; a rank that has just gone has no row."""
        ...

    def close(self) -> None: ...


class SourceSettings(NamedTuple):
    """The outside world of a source, given to it when it is made."""

    proc: str = "/proc"
    sys: str = "/sys"
    interval_ns: int = 1_000_000_000
    environ: Mapping[str, str] = {}
    clock: Callable[[], int] = time.monotonic_ns  # node time
