"""What the cgroups of the ranks use and may use: CPU time, throttling, memory, kills for lack of memory.

Limits hold for everything below the cgroup that sets them (cgroups(7), Documentation/admin-guide/
cgroup-v2.rst): Slurm limits the job, Kubernetes the container, and the rank's own cgroup, further down, may
have none. So CPU and memory are each read where the lowest limit above the rank is set, and use and limit
speak of the same tasks; without any limit they are read at the rank's own cgroup. The root has no limits and
gives no row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .cgroup_tree import (
    CgroupLevel,
    Mount,
    cpu_limit,
    holding,
    levels,
    memory_limit,
    parse_membership,
    parse_mounts,
)
from .files import KeptFile, numbers_by_word, read_once, within

METRICS = (
    Metric("cgroup_cpu_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("cgroup_throttled_ns", MetricKind.CUMULATIVE, "ns", Scope.NODE),
    Metric("cgroup_throttled_periods", MetricKind.CUMULATIVE, "1", Scope.NODE),
    Metric("cgroup_cpu_limit", MetricKind.GAUGE, "core", Scope.NODE, is_double=True),
    Metric("cgroup_memory_bytes", MetricKind.GAUGE, "byte", Scope.NODE),
    Metric("cgroup_memory_limit_bytes", MetricKind.GAUGE, "byte", Scope.NODE),
    Metric("cgroup_oom_kills", MetricKind.CUMULATIVE, "1", Scope.NODE),
)
_EVERY_NS = 900_000_000  # for each reading the kernel adds up what all CPUs have counted
_LOOK_EVERY_NS = 4_900_000_000
_MAX_NAME = 120
_LONG_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{20,}")  # of a container


class _Use(NamedTuple):
    """A row: one value for each of METRICS."""

    cpu_ns: int | None = None
    throttled_ns: int | None = None
    throttled_periods: int | None = None
    cpu_limit: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    oom_kills: int | None = None

    def of_cpus(self) -> _Use:
        return self._replace(memory_bytes=None, memory_limit_bytes=None, oom_kills=None)


class _Group:
    """The files of one cgroup, or of one for CPU time and another for memory."""

    def __init__(self, cpu: CgroupLevel | None, memory: CgroupLevel | None, accounts: str) -> None:
        """accounts: the directory of v1's CPU time; "" with v2."""
        self.cpu_limit: float | None = None
        self.memory_limit: float | None = None
        self.path = max((level.path for level in (cpu, memory) if level), key=len, default="/")
        self.cpu_path = cpu.path if cpu else "/"
        self._v2 = cpu is not None and cpu.unified
        self._stat = _file(cpu, "cpu.stat")
        self._usage = KeptFile(f"{accounts}/cpuacct.usage", 32) if accounts else None
        v2 = memory is not None and memory.unified
        self._memory = _file(memory, "memory.current" if v2 else "memory.usage_in_bytes")
        self._kills = _file(memory, "memory.events" if v2 else "memory.oom_control")

    def read(self) -> _Use:
        stat = numbers_by_word(self._stat.read() if self._stat else None)
        kills = numbers_by_word(self._kills.read() if self._kills else None)
        used = _times(stat.get(b"usage_usec"), 1000)
        throttled = _times(stat.get(b"throttled_usec"), 1000) if self._v2 else stat.get(b"throttled_time")
        return _Use(
            self._usage.number() if self._usage else used,
            throttled,
            stat.get(b"nr_throttled"),
            self.cpu_limit,
            self._memory.number() if self._memory else None,
            None if self.memory_limit is None else int(self.memory_limit),
            kills.get(b"oom_kill"),
        )

    def close(self) -> None:
        for file in (self._stat, self._usage, self._memory, self._kills):
            if file is not None:
                file.close()


def _file(level: CgroupLevel | None, name: str) -> KeptFile | None:
    return KeptFile(f"{level.directory}/{name}") if level else None


def _times(number: int | None, factor: int) -> int | None:
    return None if number is None else within(number * factor)


class _Throttled:
    """One rank's part of the time throttled: what its cgroup adds, over the number of ranks that share it.

    The kernel adds that time up over CPUs, of which ranks that compute side by side have one each at least.
    """

    def __init__(self) -> None:
        self._ns = 0.0
        self._last: tuple[str, int] | None = None  # directory and total of the cgroup

    def add(self, directory: str, total_ns: int | None, ranks: int) -> int | None:
        """The part so far; in another directory than before nothing is added yet."""
        if total_ns is None:
            return None
        before, self._last = self._last, (directory, total_ns)
        if before is None:
            self._ns = total_ns / ranks
        elif before[0] == directory:
            self._ns += max(0, total_ns - before[1]) / ranks
        return round(self._ns)


class CgroupSource:
    """Counter set "cgroup": once a second a row per cgroup with ranks, for its only rank or for the node. Of
    a CPU limit that several share each has its part."""

    name = "cgroup"
    fills = "throttling, memory use and limits of the ranks' cgroups (containers, Slurm jobs)"
    measures = False
    counter_set = CounterSet("cgroup", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._proc, self._sys = settings.proc, settings.sys
        self._mounts: list[Mount] = []  # read by `probe`
        self._groups: dict[_Key, _Group] = {}
        self._group_of: dict[tuple[int, int], _Key] = {}  # by (pid, start)
        self._names: dict[_Key, str] = {}
        self._throttled: dict[tuple[int, int], _Throttled] = {}  # by (pid, start)
        self._known: frozenset[tuple[int, int]] = frozenset()
        self._sampled_ns = self._looked_ns = -(1 << 62)

    def probe(self) -> SourceStatus:
        self._mounts = parse_mounts(
            read_once(f"{self._proc}/self/mountinfo", 1 << 20, is_list=True), self._sys
        )
        useful = [m for m in self._mounts if m.unified or m.controllers & {"cpu", "memory"}]
        if not useful:
            return SourceStatus(
                self.name,
                False,
                "no cgroup file system is mounted here",
                "in a container: mount /sys/fs/cgroup into it, read-only",
            )
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = self._clock()
        if now - self._sampled_ns < _EVERY_NS:
            return []
        self._sampled_ns = now
        alive = frozenset((rank.pid, rank.start_ns) for rank in ranks)
        if now - self._looked_ns > _LOOK_EVERY_NS or alive != self._known:
            self._looked_ns, self._known = now, alive
            self._find_groups(ranks)
            for gone in self._throttled.keys() - alive:
                del self._throttled[gone]
        members: dict[_Key, list[Rank]] = {}
        for rank in ranks:
            key = self._group_of.get((rank.pid, rank.start_ns))
            if key is not None:
                members.setdefault(key, []).append(rank)
        rows: list[Sample] = []
        # Ranks in cgroups of their own may share the CPU limit of one further up.
        sharing = Counter(key[0] for key, inside in members.items() if key[0] for _ in inside)
        for key, inside in members.items():
            rows += self._rows(key, inside, max(len(inside), sharing[key[0]]))
        seen = {key[0] for key, inside in members.items() if len(inside) > 1}
        shared = {key[0]: key for key in members if sharing[key[0]] > 1 and key[0] not in seen}
        rows += [self._row_of_cpus(key) for key in shared.values()]
        return [row for row in rows if any(value is not None for value in row.values)]

    def _rows(self, key: _Key, ranks: Sequence[Rank], sharing: int) -> list[Sample]:
        """Those of a cgroup with these ranks. sharing: how many ranks are below its CPU limit."""
        now, use = self._clock(), self._groups[key].read()
        rows = [Sample(None, now, use, self._names[key])] if len(ranks) > 1 else []
        if rows and use.cpu_limit is None:
            return rows
        for rank in ranks:
            part = self._part_of(use, rank, key[0], sharing)
            rows.append(Sample(rank, now, part if len(ranks) == 1 else part.of_cpus()))
        return rows

    def _part_of(self, use: _Use, rank: Rank, directory: str, ranks: int) -> _Use:
        """What a rank has of its cgroup, where so many share its CPU limit."""
        known = self._throttled.setdefault((rank.pid, rank.start_ns), _Throttled())
        throttled_ns = known.add(directory, use.throttled_ns, ranks)
        if ranks == 1:
            return use._replace(throttled_ns=throttled_ns)
        limit = None if use.cpu_limit is None else use.cpu_limit / ranks
        return use._replace(cpu_ns=None, throttled_ns=throttled_ns, throttled_periods=None, cpu_limit=limit)

    def _row_of_cpus(self, key: _Key) -> Sample:
        """The node's row of a cgroup whose CPU limit is shared by ranks in cgroups of their own."""
        return Sample(None, self._clock(), self._groups[key].read().of_cpus(), self._names[key[0], ""])

    def _find_groups(self, ranks: Sequence[Rank]) -> None:
        """Find the cgroups of the ranks again, for they may be moved, and read their limits."""
        if not self._mounts:
            self.probe()
        found: dict[bytes, _Key | None] = {}
        self._group_of = {}
        for rank in ranks:
            text = read_once(f"{self._proc}/{rank.pid}/cgroup")
            if text is None:
                continue
            if text not in found:
                found[text] = self._open_group(text)
            key = found[text]
            if key is not None:
                self._group_of[rank.pid, rank.start_ns] = key
        for key in self._groups.keys() - set(found.values()):
            self._groups.pop(key).close()
        paths = {(key[0], ""): group.cpu_path for key, group in self._groups.items()}
        self._names = _short_names(paths | {key: group.path for key, group in self._groups.items()})

    def _open_group(self, text: bytes) -> _Key | None:
        """The group that a /proc/PID/cgroup speaks of, with its limits read; None without one."""
        members = parse_membership(text)
        cpu, cores = holding(levels(self._mounts, members, "cpu"), cpu_limit)
        memory, size = holding(levels(self._mounts, members, "memory"), memory_limit)
        if cpu is None and memory is None:
            return None
        key = (cpu.directory if cpu else "", memory.directory if memory else "")
        if key not in self._groups:
            accounts = ""
            if cpu is not None and not cpu.unified:
                # The CPU time of v1 may be mounted apart from its limits.
                for level in levels(self._mounts, members, "cpuacct"):
                    if level.path == cpu.path:
                        accounts = level.directory
            self._groups[key] = _Group(cpu, memory, accounts)
        self._groups[key].cpu_limit, self._groups[key].memory_limit = cores, size
        return key

    def close(self) -> None:
        for group in self._groups.values():
            group.close()
        self._groups.clear()
        self._group_of.clear()


_Key = tuple[str, str]  # directories for CPU time and for memory


def _short_names(paths: dict[_Key, str]) -> dict[_Key, str]:
    """The last two words of each path; more where that would name two alike."""
    short = {key: "/".join(path.strip("/").split("/")[-2:]) or "/" for key, path in paths.items()}
    count = Counter(short[key] for key in {path: key for key, path in paths.items()}.values())
    names = {}
    for key, name in short.items():
        unique = name if count[name] == 1 else paths[key]
        names[key] = _LONG_ID.sub(r"\1", unique)[-_MAX_NAME:]
    return names
