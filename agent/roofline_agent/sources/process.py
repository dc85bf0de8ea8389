"""CPU time, memory and storage traffic of each rank, from the kernel's own accounts.

CPU time comes from the process's CPU clock (clock_getcpuclockid(3)), which moves with the scheduler's tick or
finer (4 ms here): /proc and so psutil count it in 10 ms, too coarse for steps of 50. It costs a microsecond,
at every sample. The rest is read every two seconds, from files kept open, because a read costs a tenth of
open + read + close.

The time that runnable threads waited for a CPU is kept by the kernel for each thread alone, and a process of
TensorFlow's has a hundred: all are read every two seconds too (0.15 ms for a hundred). What a thread waited
between the last reading and its end is not seen. The busiest of them, which bounds what a server can do, is
read at every sample.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Sequence

from ..records import CounterSet, Metric, MetricKind, Rank, Sample, SourceSettings, SourceStatus
from .files import read_once
from .stops import Stops

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
    Metric("stopped_ns", _CUMULATIVE, "ns"),
    Metric("busiest_run_ns", _CUMULATIVE, "ns"),
    Metric("busiest_delay_ns", _CUMULATIVE, "ns"),
)

_MAX_THREADS = 1024  # of one rank; a file is kept open for each
OF_FILES = 4  # one in so many of the files that the agent may have open

_SCHEDSTAT_ADVICE = "a kernel with CONFIG_SCHEDSTATS tells how long threads wait for a CPU"
_AT_EACH = 4  # metrics that every sample has: the first and the last three
_NOT_NOW = (None,) * (len(METRICS) - _AT_EACH)


def accounts_waits(proc: str) -> bool:
    """Whether the kernel keeps the time that threads wait for a CPU; else all is zero or absent."""
    words = (read_once(f"{proc}/self/schedstat", 128) or b"0").split()
    return any(word != b"0" for word in words)


def _most_files() -> int:
    """How many files this process may have open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if most != resource.RLIM_INFINITY else 1 << 20


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
        self._room = Room(_most_files() // OF_FILES)
        self._stops = Stops(settings.proc, settings.clock)

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
        self._stops.watch(wanted)
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
            room = self._room if self._accounts_waits else None
            files = self._open[key] = _Files(f"{self._proc}/{rank.pid}", room)
        now = self._clock()
        cpu_ns = time.clock_gettime_ns(cpu_clock(rank.pid))
        values = (cpu_ns, *files.values(now), self._stops.stopped_ns(key), *files.busiest())
        return Sample(rank, now, values)

    def close(self) -> None:
        self._stops.close()
        for files in self._open.values():
            files.close()
        self._open.clear()


class Room:
    """For files of threads: without a file left for a new process the agent would take all for gone."""

    def __init__(self, most: int) -> None:
        self.left = most


class _Files:
    """stat, statm and io of one process, kept open; reading them after its death raises OSError."""

    def __init__(self, directory: str, room: Room | None) -> None:
        """room: None: the waits of its threads are not known."""
        self._stat = os.open(f"{directory}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._statm = os.open(f"{directory}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has just ended
            os.close(self._stat)
            raise
        try:
            self._io: int | None = os.open(f"{directory}/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._io = None  # hidden in some containers: storage traffic is then absent
        self._waits = Waits(f"{directory}/task", room=room) if room is not None else None
        self._read_ns = 0

    def values(self, now_ns: int) -> tuple[int | None, ...]:
        """What METRICS lists from the user's CPU time to `stopped`; all absent while the last
        reading is fresh."""
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

    def busiest(self) -> tuple[int | None, int | None]:
        """Time that the busiest thread ran, and that it was ready to run without a CPU."""
        return self._waits.busiest() if self._waits else (None, None)

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


class _ThreadCounts:
    """One thread: what it ran and waited until it was read last, and since all threads were read."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._run_ns, self._delay_ns = 0, 0  # what it had before it was first seen counts, too
        self.since_ns = (0, 0)

    def read(self) -> int:
        """By how much the time grew that it was ready to run without a CPU."""
        words = os.pread(self._file, 64, 0).split(b" ", 2)
        run, delay = int(words[0]), int(words[1])
        ran, delayed = max(0, run - self._run_ns), max(0, delay - self._delay_ns)
        self._run_ns, self._delay_ns = run, delay
        self.since_ns = (self.since_ns[0] + ran, self.since_ns[1] + delayed)
        return delayed

    def close(self) -> None:
        os.close(self._file)


class Waits:
    """How long the threads of one process were runnable without a CPU, and what the busiest of them had; both
    never go back.

    The busiest is the one that ran and waited most since all threads were read the last time, and what it had
    since then is added, so that the main thread, which has imported everything, is not taken for it. Until
    they are read again the previous one is used. The kernel adds a delay when it ends, and was seen to
    add half a minute at once to threads that slept: what exceeds the time that passed, and two seconds more,
    does not count.
    """

    def __init__(
        self, directory: str, clock: Callable[[], int] = time.monotonic_ns, room: Room | None = None
    ) -> None:
        """room: for the files of these threads and of others; None: there is enough."""
        self._room = Room(_MAX_THREADS) if room is None else room
        self._directory = directory
        self._clock = clock
        self._read_ns = clock()  # all threads
        self._threads: dict[str, _ThreadCounts] = {}
        self._total_ns = 0
        self._busiest: _ThreadCounts | None = None
        self._ran_ns = self._delayed_ns = 0  # the busiest
        self._counted_ns = (0, 0)  # of these, since all threads were read
        self._seen = False

    def total_ns(self) -> int | None:
        """Over all threads seen so far; None where it cannot be known of all of them."""
        names = set(os.listdir(self._directory))
        for gone in self._threads.keys() - names:
            self._forget(gone)
        if len(names) > min(_MAX_THREADS, len(self._threads) + self._room.left):
            return None
        for name in names:
            try:
                self._add(name)
            except (OSError, IndexError, ValueError):
                self._forget(name)
        self._choose_busiest()
        return self._total_ns if self._threads else None

    def _choose_busiest(self) -> None:
        most = self._clock() - self._read_ns + _FILES_EVERY_NS

        def had(thread: _ThreadCounts) -> int:
            return sum(thread.since_ns) if sum(thread.since_ns) <= most else 0

        self._busiest = max(self._threads.values(), key=had, default=None)
        if self._busiest is not None and self._seen:
            self._count(*self._busiest.since_ns)
        self._seen = True
        self._counted_ns, self._read_ns = (0, 0), self._clock()
        for thread in self._threads.values():
            thread.since_ns = (0, 0)

    def _count(self, ran: int, delayed: int) -> None:
        """The busiest had so much since all threads were read; what is counted already stays."""
        passed = self._clock() - self._read_ns + _FILES_EVERY_NS
        ran = max(self._counted_ns[0], ran)
        delayed = max(self._counted_ns[1], delayed if ran + delayed <= passed else 0)
        self._ran_ns += ran - self._counted_ns[0]
        self._delayed_ns += delayed - self._counted_ns[1]
        self._counted_ns = (ran, delayed)

    def busiest(self) -> tuple[int | None, int | None]:
        """What the busiest thread ran and waited; of a reading no older than the last of all threads."""
        if self._busiest is None:
            return None, None
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has just ended
            self._read(self._busiest)
            self._count(*self._busiest.since_ns)
        return self._ran_ns, self._delayed_ns

    def _add(self, name: str) -> None:
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = _ThreadCounts(f"{self._directory}/{name}/schedstat")
            self._room.left -= 1
        self._read(thread)

    def _read(self, thread: _ThreadCounts) -> None:
        self._total_ns += thread.read()

    def _forget(self, name: str) -> None:
        thread = self._threads.pop(name, None)
        if thread is not None:
            thread.close()
            self._room.left += 1
            if thread is self._busiest:
                self._busiest = None

    def close(self) -> None:
        for name in list(self._threads):
            self._forget(name)
