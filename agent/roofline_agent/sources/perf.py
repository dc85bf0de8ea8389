"""Hardware counters of each rank through `perf stat`: FLOPs by precision and vector width, cycles.

One `perf stat -I` runs per rank and prints a line per event and interval. Events are probed one by one at
start, because one unknown event fails the whole command. A multiplexed value is already scaled by perf; the
share of time it really counted is kept beside it as a coverage gauge.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..events import Family, HardwareEvent, for_cpu
from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Settings, SourceStatus

PROBE_TIMEOUT_S = 5
MIN_INTERVAL_MS = 10  # perf's own lower bound


class Reading(NamedTuple):
    """One line of `perf stat -I -x ';'`: value None where perf did not count."""

    seconds: float
    value: float | None
    event: str
    running: float  # share of the interval the event was on a counter, 0..1


def parse_line(line: str) -> Reading | None:
    """A reading from an interval line; None for comments, summaries and what is no reading."""
    fields = line.strip().split(";")
    if len(fields) < 6 or line.startswith("#"):
        return None
    try:
        seconds = float(fields[0])
    except ValueError:
        return None
    value: float | None
    try:
        value = float(fields[1])
        running = float(fields[5].replace(",", ".")) / 100
    except ValueError:
        # <not counted> and <not supported> print 100 % beside no value: the text decides.
        value, running = None, 0.0
    return Reading(seconds, value, _without_modifier(fields[3]), running)


def _without_modifier(event: str) -> str:
    # Unprivileged perf counts in user space only and says so in the name: instructions:u, cpu/event=0xc7/u.
    return event.removesuffix(":u") if event.endswith(":u") else re.sub(r"/u$", "/", event)


def supported(line_block: str) -> bool:
    """Whether `perf stat -x ';'` really counted the one event it was given."""
    lines = [line for line in line_block.splitlines() if ";" in line]
    return bool(lines) and not any("<not" in line for line in lines)


def cpu_identity(cpuinfo: str) -> tuple[str, int, frozenset[str]]:
    """(vendor_id, cpu family, flags) of the first CPU in /proc/cpuinfo's text."""
    first: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            first.setdefault(key.strip(), value.strip())
    family = first.get("cpu family", "")
    return (
        first.get("vendor_id", ""),
        int(family) if family.isdigit() else -1,
        frozenset(first.get("flags", "").split()),
    )


def counter_set(events: Iterable[HardwareEvent]) -> CounterSet:
    """The schema for these events: per event its metric, then its coverage."""
    metrics: list[Metric] = []
    for event in events:
        metrics.append(Metric(event.metric, MetricKind.CUMULATIVE, event.unit))
        metrics.append(
            Metric(
                f"{event.metric}.coverage", MetricKind.GAUGE, "1", is_double=True, coverage_of=event.metric
            )
        )
    return CounterSet("perf", tuple(metrics))


class PerfSource:
    """Counter set "perf": one row per rank and perf interval."""

    name = "perf"
    fills = "measured FLOPs, cycles and instructions per step; DRAM bytes and measured intensity"
    measures = False

    def __init__(self, settings: Settings) -> None:
        self._perf = settings.environ.get("ROOFLINE_PERF", "perf")
        self._proc = settings.proc
        self._interval_ms = max(MIN_INTERVAL_MS, settings.interval_ns // 1_000_000)
        self._events: tuple[HardwareEvent, ...] = ()
        self._running: dict[tuple[int, int], _Run] = {}
        self.counter_set = counter_set(())

    def probe(self) -> SourceStatus:
        if shutil.which(self._perf) is None:
            return SourceStatus(
                self.name, False, "perf is not installed", "install your kernel's perf package"
            )
        try:
            family = self._family()
            works = [event for event in family.events if self._counts(event.perf)]
        except (OSError, subprocess.SubprocessError) as error:
            return SourceStatus(self.name, False, f"perf cannot be run: {error}")
        if not works:
            return self._why_not()
        self.use(works)
        missing = [event.metric for event in family.events if event not in works]
        reason = f"not counted here: {', '.join(missing)}" if missing else family.note
        return SourceStatus(self.name, True, reason)

    def use(self, events: Sequence[HardwareEvent]) -> None:
        """Count these events from now on."""
        self._events = tuple(events)
        self.counter_set = counter_set(events)

    def _family(self) -> Family:
        with open(f"{self._proc}/cpuinfo") as file:
            return for_cpu(*cpu_identity(file.read()))

    def _counts(self, event: str) -> bool:
        done = subprocess.run(
            [self._perf, "stat", "-x", ";", "-e", event, "--", "true"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
        return done.returncode == 0 and supported(done.stderr)

    def _why_not(self) -> SourceStatus:
        paranoid = self._paranoid()
        if paranoid >= 3 and os.geteuid() != 0:
            return SourceStatus(
                self.name,
                False,
                f"kernel.perf_event_paranoid is {paranoid}: only privileged users may count",
                "sysctl kernel.perf_event_paranoid=1, or give the agent CAP_PERFMON",
            )
        return SourceStatus(
            self.name,
            False,
            "no hardware PMU: perf reports its events as not supported (usual in virtual machines)",
            "run on bare metal or let the hypervisor pass the PMU through (vPMU)",
        )

    def _paranoid(self) -> int:
        try:
            with open(f"{self._proc}/sys/kernel/perf_event_paranoid") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        wanted = {(rank.pid, rank.start_ns): rank for rank in ranks}
        rows = []
        for key in self._running.keys() - wanted.keys():
            gone = self._running.pop(key)
            gone.stop()
            rows += gone.take()
            gone.close()
        for key, rank in wanted.items():
            if key not in self._running:
                self._running[key] = self._start(rank)
        for run in self._running.values():
            rows += run.take()
        return rows

    def _start(self, rank: Rank) -> _Run:
        names = ",".join(event.perf for event in self._events)
        command = [self._perf, "stat", "-x", ";", "-I", str(self._interval_ms), "-e", names]
        return _Run([*command, "-p", str(rank.pid)], rank, self._events)

    def close(self) -> None:
        for run in self._running.values():
            run.stop()
            run.close()
        self._running.clear()


class _Run:
    """One perf process on one rank; sums its intervals into cumulative counters."""

    def __init__(self, command: list[str], rank: Rank, events: Sequence[HardwareEvent]) -> None:
        self._rank = rank
        self._events = events
        # perf counts seconds from its own start, which lies just after this.
        self._anchor_ns = time.monotonic_ns()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
        assert self._process.stderr is not None
        self._pipe = self._process.stderr.fileno()
        os.set_blocking(self._pipe, False)
        self._rest = ""
        self._interval: dict[str, Reading] = {}
        self._sums: dict[str, float] = {}

    def take(self) -> list[Sample]:
        """The intervals completed since the last call."""
        rows = []
        for line in self._lines():
            reading = parse_line(line)
            if reading is None:
                continue
            if any(reading.seconds != other.seconds for other in self._interval.values()):
                rows.append(self._close_interval())
            self._interval[reading.event] = reading
            if len(self._interval) == len(self._events):
                rows.append(self._close_interval())
        return rows

    def _lines(self) -> list[str]:
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 65536):
                data += part
        *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
        return lines

    def _close_interval(self) -> Sample:
        seconds = next(iter(self._interval.values())).seconds
        values: list[int | float | None] = []
        for event in self._events:
            reading = self._interval.get(event.perf)
            values.extend(self._count(event, reading))
        self._interval = {}
        return Sample(self._rank, self._anchor_ns + int(seconds * 1e9), tuple(values))

    def _count(self, event: HardwareEvent, reading: Reading | None) -> tuple[int | None, float]:
        if reading is None or reading.value is None:
            return None, 0.0
        total = self._sums.get(event.metric, 0.0) + reading.value * event.factor
        self._sums[event.metric] = total
        return int(total), reading.running

    def stop(self) -> None:
        """End perf; what it printed can still be taken."""
        self._process.terminate()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        assert self._process.stderr is not None
        self._process.stderr.close()
