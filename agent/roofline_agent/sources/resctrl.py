"""Bytes between each socket's last-level cache and memory, from the cache's own monitors (resctrl).

Linux shows Intel's and AMD's memory-bandwidth monitoring in /sys/fs/resctrl
(Documentation/filesystems/resctrl.rst): a monitor per cache domain and group of tasks. A group's number holds
that of the monitoring groups below it, but not of other control groups, so a socket's traffic is the sum over
all control groups. "total" is all memory, "local" that of the same NUMA node.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .files import CounterFile, as_number, cpu_flags, names_in, read_once, within

METRICS = (
    Metric("dram_total_bytes", MetricKind.CUMULATIVE, "byte", Scope.SOCKET),
    Metric("dram_local_bytes", MetricKind.CUMULATIVE, "byte", Scope.SOCKET),
)
_FILES = ("mbm_total_bytes", "mbm_local_bytes")
_GROUPS_EVERY_NS = 4_900_000_000
NEEDS = "needs a CPU that monitors memory bandwidth (Intel RDT, AMD QoS), on bare metal"
MOUNT = "mount -t resctrl resctrl /sys/fs/resctrl"


def sockets_of_caches(cpus: str) -> dict[int, int]:
    """Last-level cache id -> socket, from /sys/devices/system/cpu."""
    found = {}
    for name in names_in(cpus):
        if name[:3] == "cpu" and name[3:].isdigit():
            cache = as_number(read_once(f"{cpus}/{name}/cache/index3/id", 32))
            package = as_number(read_once(f"{cpus}/{name}/topology/physical_package_id", 32))
            if cache is not None and package is not None and package >= 0:
                found[cache] = package
    return found


class _Part:
    """The monitors of one socket, or of one cache whose socket is unknown."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[CounterFile, CounterFile]] = {}  # by directory
        self._of_gone = [0, 0]

    def values(self) -> tuple[int | None, ...]:
        return tuple(self._sum(column) for column in (0, 1))

    def _sum(self, column: int) -> int | None:
        if not self.files:
            return None
        total = self._of_gone[column]
        for files in self.files.values():
            count = files[column].count()
            if count is None:
                return None
            total += count
        return within(total)

    def keep(self, directories: set[str]) -> None:
        """Forget the groups that have gone, not what they counted."""
        for directory in self.files.keys() - directories:
            for column, file in enumerate(self.files.pop(directory)):
                self._of_gone[column] += file.counted or 0
                file.close()


class ResctrlSource:
    """Counter set "resctrl": one row per socket, for the node."""

    name = "resctrl"
    fills = "bytes from and to memory (DRAM) per socket"
    measures = False
    counter_set = CounterSet("resctrl", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._root = f"{settings.sys}/fs/resctrl"
        self._proc = settings.proc
        self._sockets = sockets_of_caches(f"{settings.sys}/devices/system/cpu")
        self._parts: dict[str, _Part] = {}
        self._looked_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        if not os.path.isdir(self._root):
            return SourceStatus(self.name, False, "this CPU, virtual machine or kernel has no resctrl", NEEDS)
        if not os.path.isdir(f"{self._root}/info"):
            return SourceStatus(self.name, False, *self._why_not_mounted())
        self._look()
        if not self._parts:
            return SourceStatus(
                self.name, False, "this CPU does not count memory traffic (no L3 monitoring)", NEEDS
            )
        if all(value is None for part in self._parts.values() for value in part.values()):
            return SourceStatus(self.name, False, f"the monitors in {self._root}/mon_data cannot be read now")
        return SourceStatus(self.name, True)

    def _why_not_mounted(self) -> tuple[str, str]:
        flags = cpu_flags(self._proc)
        if flags and b"cqm_mbm_total" not in flags:
            return "this CPU does not count memory traffic (no flag cqm_mbm_total)", NEEDS
        return "resctrl is not mounted", MOUNT

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = time.monotonic_ns()
        if now - self._looked_ns > _GROUPS_EVERY_NS:
            self._looked_ns = now
            self._look()
        rows = [self._row(name, part) for name, part in self._parts.items()]
        return [row for row in rows if any(value is not None for value in row.values)]

    def _row(self, name: str, part: _Part) -> Sample:
        now, values = time.monotonic_ns(), part.values()
        if None in values and not all(map(os.path.isdir, part.files)):
            self._look()
            now, values = time.monotonic_ns(), part.values()
        return Sample(None, now, values, name)

    def _look(self) -> None:
        """Find the monitors of all control groups."""
        found: dict[str, set[str]] = {}
        for group in (self._root, *(f"{self._root}/{name}" for name in names_in(self._root))):
            for domain in names_in(f"{group}/mon_data"):
                directory = f"{group}/mon_data/{domain}"
                number = domain.removeprefix("mon_L3_")
                if number.isdigit() and os.path.exists(f"{directory}/{_FILES[0]}"):
                    found.setdefault(self._name(int(number)), set()).add(directory)
        for name, directories in found.items():
            part = self._parts.setdefault(name, _Part())
            for directory in directories - part.files.keys():
                total, local = (CounterFile(f"{directory}/{file}") for file in _FILES)
                part.files[directory] = (total, local)
        for name, part in self._parts.items():
            part.keep(found.get(name, set()))

    def _name(self, cache: int) -> str:
        socket = self._sockets.get(cache)
        return f"L3 {cache}" if socket is None else f"socket {socket}"

    def close(self) -> None:
        for part in self._parts.values():
            part.keep(set())
        self._parts.clear()
