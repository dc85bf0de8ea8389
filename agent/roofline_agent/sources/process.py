"""CPU time, memory and storage traffic of each rank, from the kernel's own accounts.

CPU time comes from the process's CPU clock (clock_getcpuclockid(3)), which moves with the scheduler's tick or
finer (4 ms here): /proc and so psutil count it in 10 ms, too coarse for steps of 50. It costs a microsecond,
at every sample. The rest is read every two seconds, from files kept open, because a read costs a tenth of
open + read + close.

The time that runnable threads waited for a CPU is kept by the kernel for each thread alone, and a process of
TensorFlow's has a hundred: all are read every two seconds too (0.15 ms for a hundred). What a thread waited
between the last reading and its end is not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, SourceSettings, SourceStatus
from .files import read_once

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_FILES_EVERY_NS = 1_900_000_000
_CUMULATIVE, _GAUGE = MetricKind.CUMULATIVE, MetricKind.GAUGE

METRICS = (
    Metric("cpu_ns", _CUMULATIVE, "ns"),
    Metric("cpu_user_ns", _CUMULATIVE, "ns"),
    Metric("cpu_system_ns", _CUMULATIVE, "ns"),
    Metric("rss_bytes", _GAUGE, "byte"),
    Metric("threads", _GAUGE, "1"),
    Metric("minor_faults", _CUMULATIVE, "1"),
    Metric("major_faults", _CUMULATIVE, "1"),
    Metric("storage_read_bytes", _CUMULATIVE, "byte"),
    Metric("storage_written_bytes", _CUMULATIVE, "byte"),
    Metric("cpu_wait_ns", _CUMULATIVE, "ns"),
    Metric("stopped", _GAUGE, "1"),
)

_MAX_THREADS = 1024  # of one rank; a file is kept open for each

_SCHEDSTAT_ADVICE = "a kernel with CONFIG_SCHEDSTATS tells how long threads wait for a CPU"
_NOT_NOW = (None,) * (len(METRICS) - 1)


def accounts_waits(proc: str) -> bool:
    """Whether the kernel keeps the time that threads wait for a CPU; else all is zero or absent."""
    words = (read_once(f"{proc}/self/schedstat", 128) or b"0").split()
    return any(word != b"0" for word in words)


def cpu_clock(pid: int) -> int:
    """Clock id of a process's CPU time: what clock_getcpuclockid(3) returns on Linux."""
    return (~pid << 3) | 2


class ProcessSource:
    """Counter set "process": one row per rank and sample."""

    name = "process"
    fills = "CPU time and utilization, memory"
    measures = False
    counter_set = CounterSet("process", METRICS)

    def __init__(self, settings: SourceSettings) -> None:
        self._clock = settings.clock
        self._proc = settings.proc
        self._accounts_waits = accounts_waits(settings.proc)
        self._open: dict[tuple[int, int], _Files] = {}

    def probe(self) -> SourceStatus:
        try:
            time.clock_gettime_ns(cpu_clock(os.getpid()))
        except OSError as error:
            return SourceStatus(self.name, False, f"the kernel gives no CPU clock of a process ({error})")
        if not self._accounts_waits:
            reason = "no cpu_wait_ns: the kernel keeps no schedstat"
            return SourceStatus(self.name, True, reason, _SCHEDSTAT_ADVICE)
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        wanted = {(rank.pid, rank.start_ns) for rank in ranks}
        for key in self._open.keys() - wanted:
            self._open.pop(key).close()
        rows = []
        for rank in ranks:
            try:
                rows.append(self._row(rank))
            except (OSError, ValueError, IndexError):
                continue  # it has just gone
        return rows

    def _row(self, rank: Rank) -> Sample:
        key = (rank.pid, rank.start_ns)
        files = self._open.get(key)
        if files is None:
            files = self._open[key] = _Files(f"{self._proc}/{rank.pid}", self._accounts_waits)
        now = self._clock()
        cpu_ns = time.clock_gettime_ns(cpu_clock(rank.pid))
        return Sample(rank, now, (cpu_ns, *files.values(now)))

    def close(self) -> None:
        for files in self._open.values():
            files.close()
        self._open.clear()


class _Files:
    """stat, statm and io of one process, kept open; reading them after its death raises OSError."""

    def __init__(self, directory: str, accounts_waits: bool) -> None:
        self._stat = os.open(f"{directory}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._statm = os.open(f"{directory}/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._io: int | None = os.open(f"{directory}/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._io = None  # hidden in some containers: storage traffic is then absent
        self._waits = _Waits(f"{directory}/task") if accounts_waits else None
        self._read_ns = 0

    def values(self, now_ns: int) -> tuple[int | None, ...]:
        """What METRICS lists behind the CPU time; all absent while the last reading is fresh."""
        if now_ns - self._read_ns < _FILES_EVERY_NS:
            return _NOT_NOW
        self._read_ns = now_ns
        fields = self.stat()
        if fields[0] in b"ZX":
            raise ProcessLookupError("it has ended and waits for its parent")
        resident = int(self.statm().split(b" ", 2)[1]) * _PAGE
        user, system = int(fields[11]) * _TICK_NS, int(fields[12]) * _TICK_NS
        threads, minor, major = int(fields[17]), int(fields[7]), int(fields[9])
        stopped = int(fields[0] in b"Tt")
        waited = self._waits.total_ns() if self._waits else None
        return (user, system, resident, threads, minor, major, *self.io(), waited, stopped)

    def stat(self) -> list[bytes]:
        """Fields of /proc/PID/stat from the state on (proc(5) numbers them from 3)."""
        data = os.pread(self._stat, 1024, 0)
        return data[data.rindex(b")") + 2 :].split()

    def statm(self) -> bytes:
        return os.pread(self._statm, 128, 0)

    def io(self) -> tuple[int | None, int | None]:
        """Bytes fetched from and sent to storage."""
        if self._io is None:
            return None, None
        try:
            lines = os.pread(self._io, 512, 0).split(b"\n")
        except PermissionError:
            return None, None
        return int(lines[4].split(b" ")[1]), int(lines[5].split(b" ")[1])

    def close(self) -> None:
        for descriptor in (self._stat, self._statm, self._io):
            if descriptor is not None:
                os.close(descriptor)
        if self._waits is not None:
            self._waits.close()


class _Waits:
    """How long the threads of one process were runnable without a CPU; never goes back."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: dict[str, int] = {}  # by thread
        self._last: dict[str, int] = {}
        self._total_ns = 0

    def total_ns(self) -> int | None:
        """Over all threads seen so far; None where it cannot be known of all of them."""
        threads = set(os.listdir(self._directory))
        for gone in self._files.keys() - threads:
            self._forget(gone)
        if len(threads) > _MAX_THREADS:
            return None
        for thread in threads:
            try:
                self._add(thread)
            except (OSError, IndexError, ValueError):
                self._forget(thread)
        return self._total_ns if self._files else None

    def _add(self, thread: str) -> None:
        file = self._files.get(thread)
        if file is None:
            path = f"{self._directory}/{thread}/schedstat"
            file = self._files[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        now = int(os.pread(file, 64, 0).split(b" ")[1])
        self._total_ns += max(0, now - self._last.get(thread, 0))
        self._last[thread] = now

    def _forget(self, thread: str) -> None:
        self._last.pop(thread, None)
        if thread in self._files:
            os.close(self._files.pop(thread))

    def close(self) -> None:
        for thread in list(self._files):
            self._forget(thread)
