"""Which work is done, and which metrics of which sources should show how much of it. Pure.

A tolerance is what a source can be off by for reasons that are known: ticks of 10 ms in works of half a
second, headers of packets, lines that a prefetcher fetches and nobody reads, a clock that changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

ANY = "*"  # instance: the sum over all
HOOKS, SOFTWARE, NCU = "hooks", "perf_software", "ncu"  # what is checked in addition to the sources
GPU = "gpu 0"


class Expectation(NamedTuple):
    """A metric that should show a quantity of a work."""

    source: str
    metric: str
    quantity: str  # as the worker names it
    tolerance: float
    instance: str = ""  # "": the row of the rank or node as a whole
    shared: bool = (
        False  # it also counts what others do: that is measured while nothing is done, and taken off
    )
    sign: int = 1  # -1: it falls by the quantity
    lower_bound: bool = False  # it is documented to count less
    is_power: bool = False  # no amount is known: the watts must be plausible


class KnownWork(NamedTuple):
    """Something to do, and what should show it."""

    name: str  # as the worker knows it
    text: str
    expectations: tuple[Expectation, ...]
    here: bool = False  # done by the process that samples


class FlopForm(NamedTuple):
    """A kernel of known FLOPs that the worker has."""

    precision: str  # "f32"
    width: str  # "scalar", "512"
    fused: bool

    @property
    def work(self) -> str:
        return f"flops.{self.precision}.{self.width}{'' if self.fused else '.mul_add'}"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that count its FLOPs, on one CPU or another."""
        return (f"flops.{self.precision}.{self.width}", f"flops.{self.precision}.all", "flops.all.all")


WORKS = (
    KnownWork(
        "spin",
        "a thread computes for 0.5 s",
        (
            Expectation("process", "cpu_ns", "cpu_ns", 0.02),
            Expectation("process", "cpu_user_ns", "cpu_ns", 0.05),
            Expectation("process", "busiest_run_ns", "cpu_ns", 0.05),
            Expectation("node", "node_cpu_busy_ns", "cpu_ns", 0.10, shared=True),
            Expectation("cgroup", "cgroup_cpu_ns", "cpu_ns", 0.05, ANY, shared=True),
            Expectation(SOFTWARE, "cpu_clock_ns", "cpu_ns", 0.02),
        ),
    ),
    KnownWork("sleep", "a process sleeps for 0.5 s", (Expectation("process", "cpu_ns", "cpu_ns", 0.02),)),
    KnownWork(
        "steps",
        "20 steps, each sleeps for 10 to 30 ms",
        (
            Expectation(HOOKS, "steps", "steps", 0.0),
            Expectation(HOOKS, "step_ns", "step_ns", 0.01),
        ),
    ),
    KnownWork(
        "storage",
        "16 MiB are written and synced, 16 MiB read past the page cache",
        (
            Expectation("process", "storage_written_bytes", "written_bytes", 0.02),
            Expectation("process", "storage_read_bytes", "read_bytes", 0.02),
        ),
    ),
    KnownWork(
        "tcp",
        "32 MiB are sent and 16 MiB received over loopback",
        (
            Expectation("tcp", "tcp_sent_bytes", "sent_bytes", 0.01),
            Expectation("tcp", "tcp_received_bytes", "received_bytes", 0.01),
            Expectation("network", "nic_sent_bytes", "moved_bytes", 0.05, "lo", shared=True),
            Expectation("network", "nic_received_bytes", "moved_bytes", 0.05, "lo", shared=True),
        ),
    ),
    KnownWork(
        "unread",
        "64 KiB arrive and are not read",
        (Expectation("tcp", "tcp_unread_bytes", "unread_bytes", 0.0),),
    ),
    KnownWork(
        "memory",
        "64 MiB are touched page by page, 6 threads start",
        (
            Expectation("process", "rss_bytes", "memory_bytes", 0.05),
            Expectation("process", "minor_faults", "faults", 0.05),
            Expectation("process", "threads", "threads", 0.0),
            Expectation("cgroup", "cgroup_memory_bytes", "memory_bytes", 0.05, ANY, shared=True),
            Expectation("node", "node_memory_available_bytes", "memory_bytes", 0.10, shared=True, sign=-1),
            Expectation(SOFTWARE, "page_faults", "faults", 0.05),
        ),
    ),
    # A single stop is known to a tenth of a second or two, many are right in the mean (sources/stops.py).
    KnownWork(
        "stop",
        "a process is stopped for 1 s",
        (Expectation("process", "stopped_ns", "stopped_ns", 0.15),),
        here=True,
    ),
    KnownWork(
        "own",
        "the agent itself computes for 0.3 s",
        (Expectation("agent", "agent_cpu_ns", "cpu_ns", 0.05, shared=True),),
        here=True,
    ),
    KnownWork(
        "busy",
        "all CPUs compute for 1 s: 1 to 1,000 W a socket, and no less than idle",
        (Expectation("rapl", "energy_package_joules", "busy_s", 0.0, ANY, is_power=True),),
    ),
)

# Bytes of memory: what a kernel reads and writes, from a working set beyond all caches, or within one.
_DRAM = (
    Expectation("perf_system", "dram_read_bytes", "dram_read_bytes", 0.10, ANY, shared=True),
    Expectation("perf_system", "dram_write_bytes", "dram_written_bytes", 0.10, ANY, shared=True),
    Expectation("perf_system", "dram_bytes", "dram_bytes", 0.10, ANY, shared=True),
    Expectation("likwid", "dram_read_bytes", "dram_read_bytes", 0.10, ANY, shared=True),
    Expectation("likwid", "dram_write_bytes", "dram_written_bytes", 0.10, ANY, shared=True),
    Expectation("likwid", "dram_bytes", "dram_bytes", 0.10, ANY, shared=True),
    Expectation("resctrl", "dram_total_bytes", "dram_bytes", 0.10, ANY, shared=True),
    Expectation("perf", "dram_bytes.llc_bound", "dram_read_bytes", 0.10, lower_bound=True),
)
TRAFFIC = (
    KnownWork("memory.dram.read", "a CPU reads four times its caches again and again", _DRAM),
    KnownWork("memory.dram.triad", "a CPU runs the STREAM triad through four times its caches", _DRAM),
    KnownWork("memory.l2.read", "a CPU reads half of its L2 again and again: nothing from DRAM", _DRAM),
)

# By the driver's counters, of which some are documented as estimates; the GPU may have other users.
ON_GPU = (
    KnownWork(
        "gpu.busy",
        "a GPU computes in bursts of 0.1 s, half of the time for 2 s",
        (
            Expectation("gpu", "gpu_busy_ns", "busy_ns", 0.10),
            Expectation("gpu", "energy_joules", "busy_s", 0.0, GPU, is_power=True),
        ),
    ),
    KnownWork(
        "gpu.fill",
        "a GPU fills 100 GiB of its memory",
        (Expectation("gpu", "gpu_dram_bytes", "filled_bytes", 0.20),),
    ),
    KnownWork(
        "gpu.copy",
        "1 GiB is copied to a GPU and 1 GiB back",
        (
            Expectation("gpu", "pcie_rx_bytes", "to_gpu_bytes", 0.15, GPU, shared=True),
            Expectation("gpu", "pcie_tx_bytes", "from_gpu_bytes", 0.15, GPU, shared=True),
        ),
    ),
    KnownWork(
        "gpu.memory",
        "512 MiB are allocated on a GPU",
        (Expectation("gpu", "memory_used_bytes", "memory_bytes", 0.02, GPU, shared=True),),
    ),
)


def flop_works(forms: Iterable[FlopForm]) -> Iterable[KnownWork]:
    """A work for each kernel of multiply-adds in registers."""
    for form in forms:
        how = "fused multiply-adds" if form.fused else "multiplications and additions"
        what = "scalars" if form.width == "scalar" else f"{form.width}-bit vectors"
        counted = [Expectation("perf", metric, metric, 0.02) for metric in form.metrics]
        counted.append(Expectation("perf", "instructions", "instructions", 0.03))
        # The truth is the CPU time times the clock right behind the work, which may have changed.
        counted.append(Expectation("perf", "cycles", "cycles", 0.05))
        yield KnownWork(form.work, f"{how} on {what} of {form.precision} for 0.3 s", tuple(counted))


def possible(
    works: Iterable[KnownWork], metrics: Mapping[str, Sequence[str]], only: Sequence[str] = ()
) -> list[KnownWork]:
    """The works that show something, with the expectations of metrics that there are.

    metrics: of each source that works. only: the sources that are asked for; none: all.
    """
    found = []
    for work in works:
        kept = tuple(
            one
            for one in work.expectations
            if one.metric in metrics.get(one.source, ()) and (not only or one.source in only)
        )
        if kept:
            found.append(work._replace(expectations=kept))
    return found
