"""What is known of every step of a rank: what its account is made of."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from ...records import Bools, Floats, Ints
from ..columns import known_mean


class _SignalColumns(NamedTuple):
    rank: str
    role: str
    host: str
    step: Ints  # numbers
    begin_ns: Ints  # server time
    end_ns: Ints
    duration: Floats  # on the clock of the rank's own node
    cores: float | None = None  # CPUs that the rank may use as its own: its part of the node's
    input: Floats | None = None  # the training thread waited for its next batch
    held: Floats | None = None  # it was blocked in collectives
    kernels: Floats | None = None  # some kernel ran (of sampled steps, else of their like)
    kernels_most: Floats | None = None  # the same, if several GPUs, of which it is the mean, work in turns
    traced: Bools | None = None  # steps whose kernels were recorded; None: all where `kernels` is known
    on_gpu: bool = False  # it computes on GPUs; `kernels` is the time in which one of them was busy
    on_gpu_meets: bool = False  # its collectives run there too, so that they are part of that time
    kernel_threads: int | None = None  # that compute in a kernel, as the rank reported
    roof: Floats | None = None  # what the roof would need for the kernels' FLOPs, bytes and launches
    flops: Floats | None = None  # FLOP
    bytes: Floats | None = None  # byte
    examples: Floats | None = None  # number
    phases: Floats | None = None  # (3,) means a step of forward, backward and optimizer
    # The training thread, on a CPU and runnable without one: in the step, in its input, in its collectives.
    run: Floats | None = None
    delay: Floats | None = None
    input_run: Floats | None = None
    input_delay: Floats | None = None
    held_run: Floats | None = None
    held_delay: Floats | None = None
    gc: Floats | None = None  # CPU time of Python's garbage collection
    faults: Floats | None = None  # major page faults, number
    blocks: Floats | None = None  # blocks of 512 bytes that it read from storage, number
    # All threads of the process, summed.
    threads_run: Floats | None = None
    threads_delay: Floats | None = None
    # The thread that ran or waited most, where the training thread does not tell.
    busiest_run: Floats | None = None
    busiest_delay: Floats | None = None
    stopped: Floats | None = None  # by a signal or a debugger
    throttled: Floats | None = None  # by the limit of its cgroup
    waits_for_servers: bool = False  # a worker of parameter servers: it waits where nothing runs
    barrier: str = ""  # how waits are seen: communicate, kernels, join; "": not at all


class RankSignals(_SignalColumns):
    """The steps of one rank that are looked at, in order of time. All columns are (steps,), seconds a step
    unless said otherwise; NaN where it is not known, None where it is known of no step."""

    @cached_property
    def work(self) -> tuple[float | None, ...]:
        """FLOPs, bytes and examples a step, means; None where not known."""
        return tuple(map(known_mean, (self.flops, self.bytes, self.examples)))
