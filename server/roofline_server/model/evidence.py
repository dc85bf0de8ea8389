"""What is known of one rank, as plain arrays: what the models turn into values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..records import Bools, Floats, Ints

NS = 1e9


def total_of(numbers: Ints) -> float:
    """Sum; that of a long job's FLOPs leaves int64. Of single steps nothing is rounded."""
    return float(numbers.sum(dtype=np.float64))


class _StepColumns(NamedTuple):
    step: Ints
    begin_ns: Ints
    end_ns: Ints
    examples: Ints  # ABSENT where not reported
    like: Ints | None = None  # steps with the same number did the same work; 0, or None: not known
    apart: Ints | None = None  # 1 where it did not begin when the one before ended; None: of none


class StepEvidence(_StepColumns):
    """Step windows of a rank, in order of end; server times, ns."""

    @cached_property
    def runs(self) -> Ints:
        """Stretches of consecutive step numbers, (stretches, begin and end): time in which no step is
        missing, and nothing that is no part of a step lies between two."""
        if not len(self.step):
            return np.zeros((0, 2), np.int64)
        new = self.step[1:] != self.step[:-1] + 1
        if self.apart is not None:
            new = new | (self.apart[1:] > 0)
        if not np.count_nonzero(new):
            return np.array([[self.begin_ns[0], self.end_ns[-1]]])
        # A step begins a stretch where there is a break before it, and ends one where there is a break behind
        # it.
        begins, ends = np.concatenate(([True], new)), np.concatenate((new, [True]))
        return np.stack([self.begin_ns[begins], self.end_ns[ends]], axis=1)

    def some(self, which: Bools) -> StepEvidence:
        """This evidence of some of the steps."""
        step, begin_ns, end_ns, examples = (column[which] for column in self[:4])
        like, apart = (None if column is None else column[which] for column in self[4:])
        return StepEvidence(step, begin_ns, end_ns, examples, like, apart)


class _KernelColumns(NamedTuple):
    flops: Ints
    bytes: Ints
    duration_ns: Ints  # of the window
    kernel_ns: Ints
    complete: Bools  # every kernel of the window was recorded, or is known by its like, or estimated
    unmodelled: Ints
    dram: Ints  # bytes that a profiler counted; ABSENT where it did not count every call
    by_precision: Mapping[str, Ints]  # FLOPs of each precision that any has
    has_flops: bool = True  # of any call the FLOPs are known
    has_bytes: bool = True
    on_gpu: bool = False  # some of the kernels ran on a GPU
    counted: bool = False  # of some kernels a profiler counted the FLOPs
    step: Ints | None = None  # number of the window's step; None: not known
    levels: Mapping[str, Ints] = {}  # as `dram`, of levels that a profiler counted somewhere: "l1", "l2"
    calls: Ints | None = None  # how many kernels; None: not known
    unsized_flops: Ints | None = None  # of `flops` those of calls whose bytes are not known; None: none
    idle_bytes: Ints | None = None  # of `bytes` those of calls without FLOPs that anybody counts; None: none
    profiled: bool = False  # of runs that a profiler drew out: `duration_ns` is that of the other steps
    recorded: Bools | None = None  # of `complete` those whose kernels were recorded; None: all
    estimated: Bools | None = None  # of `complete` those that are like no recorded one; None: none
    rule: str = ""  # FLOPs and bytes are those of updates by this rule of an optimizer: nothing was timed


class KernelEvidence(_KernelColumns):
    """Kernel sums per window of a rank; only windows of which the kernels are known count."""

    @property
    def is_sampled(self) -> bool:
        """Whether some windows have the kernels of others."""
        return self.recorded is not None

    @property
    def seen(self) -> int:
        """How many windows are known because their kernels were recorded."""
        return int(np.count_nonzero(self.complete if self.recorded is None else self.recorded))

    @cached_property
    def flops_by_precision(self) -> dict[str, float]:
        """FLOPs of all windows, of each precision that any has."""
        return {precision: total_of(flops) for precision, flops in self.by_precision.items()}

    @cached_property
    def total_flops(self) -> float:
        """FLOPs of all windows."""
        return self.total("flops") if self._is_complete else total_of(self.flops)

    def total(self, name: str) -> float:
        """Sum of a column over the windows that were watched from begin to end."""
        if name not in self._totals:
            self._totals[name] = total_of(self.watched(name))
        return self._totals[name]

    @cached_property
    def _totals(self) -> dict[str, float]:
        return {}

    @cached_property
    def is_timed(self) -> bool:
        """Whether windows of which the kernels are known lasted any time."""
        return bool(np.count_nonzero(self.watched("duration_ns") > 0))

    @cached_property
    def _is_complete(self) -> bool:
        return bool(np.count_nonzero(self.complete) == len(self.complete))

    def watched(self, name: str) -> Ints:
        """A column of the windows that were watched from begin to end."""
        column: Ints = getattr(self, name)
        return column if self._is_complete else column[self.complete]

    @cached_property
    def sized_flops(self) -> Ints:
        """FLOPs that go with `bytes`: of calls of which both are known."""
        if not self.has_bytes:
            return np.zeros_like(self.flops)
        return self.flops if self.unsized_flops is None else self.flops - self.unsized_flops


class GpuEvidence(NamedTuple):
    """What the GPUs that a rank alone uses did in its steps, by NVML; of several the mean of them."""

    busy: float  # share of the time in which a kernel ran
    tensor: float | None  # in which its tensor cores worked
    bytes_per_second: float | None  # of one GPU's memory
    copied_per_second: float | None = None  # bytes from the host to one GPU
    gpus: int = 1  # the most that it used at once


class CounterEvidence(NamedTuple):
    """One cumulative counter of a rank over its windows."""

    total: float  # over the stretch from the first to the last reading, all incarnations; NaN: none
    seconds: float  # length of that stretch
    windows: int  # windows that have a reading at both borders
    per_window: float  # mean over those windows; NaN: none
    coverage: float | None = None  # share of their time in which it was counted; None: not reported
    estimated: bool = False  # the agent found that it counts wrong (`roofline-agent validate`)


class CountedFlops(NamedTuple):
    """FLOPs that the CPU's own counters counted."""

    counter: CounterEvidence
    coverage: float | None = None  # share of the time the least covered event was on a counter
    estimated: bool = False  # speculative instructions, a vector length assumed, or found to be off
    amx_busy: bool = False  # the matrix unit ran, whose FLOPs no event counts
    by: Mapping[str, float] = {}  # FLOPs of each event ("f32.256"), over all windows


class RankEvidence(NamedTuple):
    """All that is known of one rank."""

    key: str
    role: str
    host: str
    steps: StepEvidence
    kernels: KernelEvidence | None
    counted_flops: CountedFlops | None
    cpu_ns: CounterEvidence | None
    sent: CounterEvidence | None
    received: CounterEvidence | None
    dram: CounterEvidence | None  # its share of what its node moved, bytes; else a lower bound of its own
    energy: CounterEvidence | None  # its share of what its node used, J
    rss_peak: float | None
    samples_per_step: float | None
    serving: bool  # its windows are the workers'
    dram_is_bound: bool  # `dram` is its cache misses, each a line of 64 bytes
    reasons: Mapping[str, str]  # why a kind of evidence is absent: steps, flops, cpu, tcp, dram, examples
    # Per step of `steps`: what else is known of it by name ("phase.input.ns", "kernels.last_ns"; ABSENT where
    # not known); seconds held at the barrier and, of these, waiting for others (NaN where not known).
    # barrier: how that was seen, "": not at all.
    columns: Mapping[str, Ints] = {}
    held: Floats | None = None
    wait: Floats | None = None
    barrier: str = ""
    energy_of: str = ""  # what `energy` is of where it is not the node's shared out
    has_gpu_energy: bool = False  # that of the GPUs it alone used is in `energy`
    between: Mapping[str, Floats] = {}  # what lay between its steps: kind -> seconds of each stretch
    left_out: float = 0.0  # s, of its steps that are not in `steps`, though nobody asked for a range
    cpu_wait: CounterEvidence | None = None  # ns that its threads waited for a CPU, summed over them
    uses_gpu: bool = False  # it computes on GPUs, whether or not anybody counted its kernels
    gpus: GpuEvidence | None = None
    # What its CPUs counted beside the GPUs that it computes on: no work to place under a roof, or to divide
    # by joules. Such a rank has no `counted_flops`.
    cpu_flops: CountedFlops | None = None
    # Stretches in which it was there and nobody watched its node, (stretches, begin and end), server time, in
    # order and apart; None: none. together: it steps with the others (synchronous training).
    unwatched: Ints | None = None
    together: bool = False


def reason_of(ranks: Sequence[RankEvidence], kind: str, default: str) -> str:
    found = dict.fromkeys(r.reasons[kind] for r in ranks if kind in r.reasons)
    return "; ".join(found) or default
