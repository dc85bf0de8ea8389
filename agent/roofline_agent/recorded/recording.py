"""What a recorded file holds, as plain records. Always FLOP, byte, second; None: not in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .cells import Array

LEVELS = ("dram", "l2", "l1")  # always shown; a reader may add others ("l3", "minimum")


class Launch(NamedTuple):
    """One execution of a kernel, or several alike put together (`count`, with their sums)."""

    name: str
    time_s: float | None
    flops: float | None = None
    bytes: Mapping[str, float] = {}  # memory level -> bytes moved; a level nobody measured is not in it
    start_s: float | None = None  # since the recording's time zero
    precision: str = ""  # of most of the FLOPs: "f32", "f64", "f16", "bf16", ...
    library: str = ""  # "onednn", "mkl", "cuda"
    variant: str = ""
    problem: str = ""  # shapes, grid
    note: str = ""
    count: int = 1  # type: ignore[assignment]
    layer: str = ""  # of the model, as a framework's profiler was told; "" not known
    on_gpu: bool | None = None  # or another accelerator; None: as the library says
    counted: bool | None = None  # whether the FLOPs were counted; None: on a GPU they were


class LaunchColumns(NamedTuple):
    """Launches in columns, that differ in nothing else. None: no launch has it."""

    like: Launch
    names: Sequence[str]  # of kernels
    which: Array  # of the names is each launch's
    places: Array  # of each among all launches that are handed on together
    times_s: Array | None
    flops: Array | None = None
    bytes: Mapping[str, Array] = {}
    starts_s: Array | None = None
    problems: Sequence[str] = ()  # of each launch, or none

    @property
    def launches(self) -> Iterator[tuple[int, Launch]]:
        """Each with its place."""
        lists = {"time_s": self.times_s, "flops": self.flops, "start_s": self.starts_s}
        fields = {name: one.tolist() for name, one in lists.items() if one is not None}
        moved = {level: one.tolist() for level, one in self.bytes.items()}
        for at, (place, kernel) in enumerate(zip(self.places.tolist(), self.which.tolist(), strict=True)):
            own: dict[str, Any] = {name: column[at] for name, column in fields.items()}
            if moved:
                own["bytes"] = {level: column[at] for level, column in moved.items()}
            if self.problems:
                own["problem"] = self.problems[at]
            yield place, self.like._replace(name=self.names[kernel], **own)


class Kernel(NamedTuple):
    """All launches of one kernel. A sum is None unless every launch has the value."""

    name: str
    launches: int
    time_s: float | None
    flops: float | None
    bytes: Mapping[str, float]
    precision: str = ""
    note: str = ""
    on_gpu: bool | None = None  # as of Launch
    counted: bool | None = None

    @property
    def flops_per_s(self) -> float | None:
        return self.flops / self.time_s if self.flops is not None and self.time_s else None

    @property
    def intensity(self) -> dict[str, float]:
        """FLOP per byte at each level that has bytes."""
        if self.flops is None:
            return {}
        return {level: self.flops / moved for level, moved in self.bytes.items() if moved}


class Counter(NamedTuple):
    """One value that a tool counted.

    value is in `unit`, a base unit ("byte", "s", "FLOP", "J", "Hz", "1"); printed is the number as the file
    has it, in printed_unit. value None: the tool did not count it. A FLOP event's value is FLOPs.
    """

    metric: str  # our name where the event is known ("flops.f64.256", "dram_read_bytes"), else the tool's
    event: str  # the tool's name, as printed
    value: float | None
    unit: str
    scope: str = ""  # "process", "node", "socket 0", "core S0-C1", "cpu 3", "gpu 0", "cgroup NAME", ...
    coverage: float | None = None  # share of the time it really counted, 0..1
    t_s: float | None = None  # since the recording's time zero; None: the whole run
    kind: str = "total"  # "total" of the run, "delta" since the reading before, or "gauge" at t_s
    printed: float | None = None
    printed_unit: str = ""


class Phase(NamedTuple):
    """A named activity: how often and how long in all."""

    name: str
    count: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    time_s: float
    bytes: float | None = None


class StepLine(NamedTuple):
    """A line in which a training printed how fast it is."""

    step: int
    examples_per_s: float | None
    t_s: float | None = None
    loss: float | None = None
    step_time_s: float | None = None


class Throughput(NamedTuple):
    """The speed in a training's log. examples_per_s: the printed total, or the mean over steps."""

    unit: str  # "images", "examples"
    examples_per_s: float | None
    last_examples_per_s: float | None
    step_lines: int
    batch: int | None = None  # examples of one step of one rank
    speaks_for: str = ""  # "all ranks", "this rank"; "" where the log does not show it


class RecordedCeiling(NamedTuple):
    """A limit that a benchmark measured. Names as `calibrate` gives them: "dram.triad", "peak.f64.512"."""

    name: str
    kind: str  # "memory", "compute" or "network"
    level: str  # "dram", "l3", ...; "" for compute
    precision: str  # "f64", ...; "" for memory
    value: float
    unit: str  # "byte/s" or "FLOP/s"
    method: str
    width: int = 0
    device: str = ""  # "" the CPUs, "gpu 0"
