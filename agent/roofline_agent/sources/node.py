"""How busy the node itself is: its CPUs, its memory, its clock rate, and for what its tasks wait.

Busy time is the sum over all CPUs of user, nice, system, irq and softirq in /proc/stat (proc_stat(5)), in
ticks of 10 ms for each of the five: the shares of ranks in it are good over windows of a few hundred
milliseconds and more. Steal, time in which the hypervisor ran someone else, is apart from it. Waiting is
"some" of /proc/pressure (Documentation/accounting/psi.rst): at least one task waited.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .files import MOST, KeptFile, as_number, names_in

METRICS = (
    Metric("node_cpu_busy_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_cpu_iowait_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_cpu_steal_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_memory_available_bytes", MetricKind.GAUGE, "byte", Scope.NODE),
    Metric("node_cpu_pressure_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_memory_pressure_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_io_pressure_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("node_cpu_hz", MetricKind.GAUGE, "Hz", Scope.NODE),
)
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# The kernel writes /proc/stat again for each reader, with a number per interrupt: a third of a millisecond on
# a machine with a hundred CPUs.
_STAT_EVERY_NS = 190_000_000
_SLOW_EVERY_NS = 1_900_000_000
_CLOCKS_EVERY_NS = 9_900_000_000
_CLOCKS = 16  # CPUs asked for their clock rate: each may be woken by the question
_MOST_TICKS = MOST // (8 * _TICK_NS)
_PRESSURES = ("cpu", "memory", "io")
_BUSY = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq; guest time is within user


def parse_cpu_times(text: bytes | None) -> tuple[int, int, int] | None:
    """(busy, iowait, steal) of all CPUs in ns from /proc/stat's first line; None where it counts nothing."""
    words = (text or b"").split(b"\n", 1)[0].split()
    try:
        ticks = [int(word) for word in words[1:9]]
    except ValueError:
        return None
    # Some sandboxes show a line of zeros.
    if words[:1] != [b"cpu"] or len(ticks) < 8 or not any(ticks):
        return None
    busy = sum(ticks[field] for field in _BUSY)
    return (busy * _TICK_NS, ticks[4] * _TICK_NS, ticks[7] * _TICK_NS) if max(ticks) < _MOST_TICKS else None


def parse_available(text: bytes | None) -> int | None:
    """Bytes a new program could have without swapping, from /proc/meminfo."""
    for line in (text or b"").splitlines():
        if line.startswith(b"MemAvailable:"):
            return as_number(line[13:].strip().removesuffix(b"kB"), 1024)
    return None


def parse_pressure(text: bytes | None) -> int | None:
    """ns in which some task waited, from a file of /proc/pressure."""
    first = (text or b"").split(b"\n", 1)[0]
    return as_number(first.rpartition(b"total=")[2], 1000) if first.startswith(b"some ") else None


class NodeSource:
    """Counter set "node": a row for the node, five times a second at most."""

    name = "node"
    fills = "how busy the node is, time the hypervisor took, waiting for CPU, memory and disk"
    measures = False
    counter_set = CounterSet("node", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._stat = KeptFile(f"{settings.proc}/stat", 256)
        self._memory = KeptFile(f"{settings.proc}/meminfo", 512)
        self._pressure = [KeptFile(f"{settings.proc}/pressure/{name}", 128) for name in _PRESSURES]
        directory = f"{settings.sys}/devices/system/cpu"
        cpus = sorted(
            int(name[3:]) for name in names_in(directory) if name[:3] == "cpu" and name[3:].isdigit()
        )
        evenly_spread = cpus[:: max(1, -(-len(cpus) // _CLOCKS))]
        self._clocks = [
            KeptFile(f"{directory}/cpu{cpu}/cpufreq/scaling_cur_freq", 32) for cpu in evenly_spread
        ]
        self._floor = (0, 0, 0)
        self._stat_ns = self._slow_ns = self._clocks_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        if parse_cpu_times(self._stat.read()) is None:
            return SourceStatus(self.name, False, f"{self._stat.path} counts no CPU time (a sandbox?)")
        lacks = []
        if all(file.read() is None for file in self._pressure):
            lacks.append("time spent waiting (the kernel was started without psi=1)")
        if all(file.number() is None for file in self._clocks):
            lacks.append("clock rate (no cpufreq here)")
        return SourceStatus(self.name, True, "without " + " and ".join(lacks) if lacks else "")

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = self._clock()
        if now - self._stat_ns < _STAT_EVERY_NS:
            return []
        self._stat_ns = now
        times = parse_cpu_times(self._stat.read())
        if times is None:
            return []
        # The kernel's iowait may fall (proc_stat(5)), and all may when a CPU is taken offline.
        busy, iowait, steal = map(max, times, self._floor)
        self._floor = (busy, iowait, steal)

        memory_and_pressure: tuple[int | None, ...] = (None,) * 4
        if now - self._slow_ns >= _SLOW_EVERY_NS:
            self._slow_ns = now
            pressures = [parse_pressure(file.read()) for file in self._pressure]
            memory_and_pressure = (parse_available(self._memory.read()), *pressures)

        clock_hz = None
        if now - self._clocks_ns >= _CLOCKS_EVERY_NS:
            self._clocks_ns = now
            rates = [hertz for file in self._clocks if (hertz := file.number(1000))]
            if rates:
                clock_hz = sum(rates) // len(rates)

        return [Sample(None, now, (busy, iowait, steal, *memory_and_pressure, clock_hz))]

    def close(self) -> None:
        for file in (self._stat, self._memory, *self._pressure, *self._clocks):
            file.close()
