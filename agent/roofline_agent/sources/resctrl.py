"""Bytes between each socket's last-level cache and memory, from the cache's own monitors (resctrl).

Linux shows Intel's and AMD's memory-bandwidth monitoring in /sys/fs/resctrl
(Documentation/filesystems/resctrl.rst): a monitor per cache domain and group of tasks. A group's number holds
that of the monitoring groups below it, but not of other control groups, so a socket's traffic is the sum over
all control groups. "total" is all memory, "local" that of the same NUMA node.
"""

from __future__ import annotations

import os
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


class _Monitors:
    """Those of one socket, or of one cache whose socket is unknown."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[CounterFile, CounterFile]] = {}  # by directory
        self._of_gone = [0, 0]

    def values(self) -> tuple[int | None, ...]:
        """Total and local bytes over all groups; None for what one of them does not tell."""
        sums = []
        for column, counted_by_gone in enumerate(self._of_gone):
            counts = [files[column].count() for files in self.files.values()]
            known = [count for count in counts if count is not None]
            complete = bool(counts) and len(known) == len(counts)
            sums.append(within(counted_by_gone + sum(known)) if complete else None)
        return tuple(sums)

    def keep_only(self, directories: set[str]) -> None:
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
        self._clock = settings.clock
        self._root = f"{settings.sys}/fs/resctrl"
        self._proc = settings.proc
        self._sockets = sockets_of_caches(f"{settings.sys}/devices/system/cpu")
        self._monitors: dict[str, _Monitors] = {}  # by instance
        self._looked_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        if not os.path.isdir(self._root):
            return SourceStatus(self.name, False, "this CPU, virtual machine or kernel has no resctrl", NEEDS)
        if not os.path.isdir(f"{self._root}/info"):
            flags = cpu_flags(self._proc)
            if flags and b"cqm_mbm_total" not in flags:
                reason = "this CPU does not count memory traffic (no flag cqm_mbm_total)"
                return SourceStatus(self.name, False, reason, NEEDS)
            return SourceStatus(self.name, False, "resctrl is not mounted", MOUNT)
        self._find_monitors()
        if not self._monitors:
            reason = "this CPU does not count memory traffic (no L3 monitoring)"
            return SourceStatus(self.name, False, reason, NEEDS)
        if all(value is None for one in self._monitors.values() for value in one.values()):
            return SourceStatus(self.name, False, f"the monitors in {self._root}/mon_data cannot be read now")
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = self._clock()
        if now - self._looked_ns > _GROUPS_EVERY_NS:
            self._looked_ns = now
            self._find_monitors()
        rows = []
        for name, monitors in list(self._monitors.items()):
            now, values = self._clock(), monitors.values()
            if None in values and not all(map(os.path.isdir, monitors.files)):
                # A control group was removed: those that are left can still be added up.
                self._find_monitors()
                now, values = self._clock(), monitors.values()
            if any(value is not None for value in values):
                rows.append(Sample(None, now, values, name))
        return rows

    def _find_monitors(self) -> None:
        """List those of all control groups."""
        found: dict[str, set[str]] = {}
        for group in (self._root, *(f"{self._root}/{name}" for name in names_in(self._root))):
            for domain in names_in(f"{group}/mon_data"):
                directory = f"{group}/mon_data/{domain}"
                number = domain.removeprefix("mon_L3_")
                if number.isdigit() and os.path.exists(f"{directory}/{_FILES[0]}"):
                    socket = self._sockets.get(int(number))
                    name = f"L3 {int(number)}" if socket is None else f"socket {socket}"
                    found.setdefault(name, set()).add(directory)
        for name, directories in found.items():
            monitors = self._monitors.setdefault(name, _Monitors())
            for directory in directories - monitors.files.keys():
                total, local = (CounterFile(f"{directory}/{file}") for file in _FILES)
                monitors.files[directory] = (total, local)
        for name, monitors in self._monitors.items():
            monitors.keep_only(found.get(name, set()))

    def close(self) -> None:
        for monitors in self._monitors.values():
            monitors.keep_only(set())
        self._monitors.clear()
