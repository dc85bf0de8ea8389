"""Whether a machine is quiet: what its other processes and its hypervisor take of its CPUs."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

LIMIT = 0.02  # of the machine's CPUs
BEFORE_S, PATIENCE_S = 0.03, 120.0
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """CPU time so far: of each process, and what the hypervisor took."""

    time_ns: int
    processes: dict[int, int]  # by pid
    steal_ns: int


class Noise(NamedTuple):
    """What others took between two readings, as a share of the machine."""

    others: float
    steal: float

    @property
    def is_quiet(self) -> bool:
        return self.others + self.steal < LIMIT


def parse_steal(stat: str) -> int:
    """ns of steal from the text of /proc/stat (proc_stat(5)): the eighth number of its first line."""
    return int(stat.split("\n", 1)[0].split()[8]) * _TICK_NS


def noise(before: Usage, after: Usage, ours: Collection[int], cpus: int) -> Noise:
    """What processes that are not `ours` took; one that has ended meanwhile cannot be seen any more."""
    others = sum(ns - before.processes.get(pid, 0) for pid, ns in after.processes.items() if pid not in ours)
    whole = cpus * max(1, after.time_ns - before.time_ns)
    return Noise(others / whole, (after.steal_ns - before.steal_ns) / whole)


def cpu_ns(pid: int) -> int:
    """CPU time of a process, to the nanosecond. Raises OSError when it has gone."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # the kernel's number of its CPU clock


def usage() -> Usage:
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                processes[int(name)] = cpu_ns(int(name))
    with open("/proc/stat") as file:
        return Usage(time.monotonic_ns(), processes, parse_steal(file.read()))


def wait_until_quiet() -> bool:
    """Whether the machine became quiet within the patience; everything of ours is stopped meanwhile."""
    until, cpus = time.monotonic() + PATIENCE_S, os.cpu_count() or 1
    before = usage()
    while time.monotonic() < until:
        time.sleep(BEFORE_S)
        after = usage()
        if noise(before, after, {os.getpid()}, cpus).others < 5 * LIMIT:  # of so short a time
            return True
        before = after
    return False
