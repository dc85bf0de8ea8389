"""DRAM bytes of each socket through `likwid-perfctr -t -g MEM`, where perf may not count and LIKWID may.

LIKWID reads the counters through /dev/cpu/*/msr or its setuid access daemon, past the kernel: it would
reprogram what perf counts with, so it stays off where perf works. One CPU of each socket is watched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ..child_process import bare_environment
from ..records import CounterSet, Metric, MetricKind, Rank, Sample, Scope, SourceSettings, SourceStatus
from .likwid_timeline import RunningTimeline, VolumeReader
from .perf import PerfSource
from .perf_stat.complaints import Complaints
from .perf_system import PerfSystemSource

PROBE_TIMEOUT_S = 5.0
MIN_INTERVAL_MS = 100  # each row costs LIKWID milliseconds
_PAUSE_NS = 60_000_000_000  # before it is started again

_NO_REGISTERS = (
    "LIKWID cannot read the machine's registers (/dev/cpu/*/msr)",
    "load the msr module and run as root, or install likwid-accessD setuid root; not in virtual machines",
)


class LikwidSource:
    """Counter set "likwid": one row per socket and interval, while there are ranks."""

    name = "likwid"
    fills = "DRAM bytes per socket and so measured intensity, where perf may not count them"
    measures = True  # a tool that reads machine registers

    def __init__(self, settings: SourceSettings) -> None:
        self._likwid = settings.environ.get("ROOFLINE_LIKWID", "likwid-perfctr")
        self._settings = settings
        self._interval_ms = max(MIN_INTERVAL_MS, settings.interval_ns // 1_000_000)
        self._sockets: dict[int, int] = {}  # by the watched CPU of each
        self._timeline: RunningTimeline | None = None
        self._sums: dict[tuple[int, str], float] = {}
        self._not_before_ns = 0
        self._complaints: Complaints[Sample] = Complaints()
        self.use([])

    def probe(self) -> SourceStatus:
        if shutil.which(self._likwid) is None:
            return self._off(
                "likwid-perfctr is not installed", "install LIKWID, if perf is not allowed to count here"
            )
        for other in (PerfSystemSource(self._settings), PerfSource(self._settings)):
            if other.probe().works:
                return self._off(f"not needed: {other.name} works, and both would program the same counters")
        self._sockets = first_cpus(self._settings.sys)
        try:
            groups = self._run("-a")
            if not re.search(r"^\s*MEM\s", groups, re.MULTILINE):
                return self._off(
                    "LIKWID has no group MEM for this CPU", "see whether a newer one has (likwid-perfctr -a)"
                )
            printed = self._run(*self._options(MIN_INTERVAL_MS), "sleep", "0.5")
        except (OSError, subprocess.SubprocessError) as error:
            return self._off(f"likwid-perfctr cannot be run: {error}")
        reader = VolumeReader()
        rows = [row for line in printed.splitlines() if (row := reader.read(line)) is not None]
        if not rows or not reader.metrics:
            return self._off(*why_not(printed))
        self.use(reader.metrics)
        return SourceStatus(self.name, True, f"group MEM on {len(self._sockets)} sockets")

    def _off(self, reason: str, advice: str = "") -> SourceStatus:
        return SourceStatus(self.name, False, reason, advice)

    def _run(self, *arguments: str) -> str:
        """What likwid-perfctr prints. Raises OSError, subprocess.SubprocessError."""
        done = subprocess.run(
            [self._likwid, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            env=bare_environment("LIKWID_"),
        )
        return done.stdout.decode(errors="replace")

    def _options(self, interval_ms: int) -> list[str]:
        cpus = ",".join(map(str, self._sockets))
        return ["-c", cpus, "-g", "MEM", "-t", f"{interval_ms}ms"]

    def use(self, names: Sequence[str]) -> None:
        """Count these metrics from now on."""
        self._names = [*names]
        metrics = []
        for name in names:
            share = f"{name}.coverage"
            metrics.append(Metric(name, MetricKind.CUMULATIVE, "byte", Scope.SOCKET))
            metrics.append(
                Metric(share, MetricKind.GAUGE, "1", Scope.SOCKET, is_double=True, coverage_of=name)
            )
        self.counter_set = CounterSet(self.name, tuple(metrics))

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        if not ranks:
            self.close()
            return []
        if self._timeline is None:
            if time.monotonic_ns() < self._not_before_ns:
                return []
            # `cat` ends when our end of its pipe is closed, and LIKWID with it.
            self._timeline = RunningTimeline([self._likwid, *self._options(self._interval_ms), "cat"])
        timeline = self._timeline
        has_ended, had_rows = timeline.ended, timeline.anchor_ns is not None
        intervals = timeline.take()
        samples: list[Sample] = []
        if not had_rows and timeline.anchor_ns is not None:
            # Where counting starts: from 0; or again, after a gap that nobody counted.
            samples += self._samples(timeline.anchor_ns, 0.0 if self._sums else None)
        for time_ns, interval in intervals:
            for key, amount in interval.moved.items():
                self._sums[key] = self._sums.get(key, 0.0) + amount
            samples += self._samples(time_ns, 1.0)
        complaint = ""
        if has_ended:
            complaint = f"likwid-perfctr ended: {why_not(timeline.messages)[0]}"
            self._not_before_ns = time.monotonic_ns() + _PAUSE_NS
            self.close()
        return self._complaints.give(samples, complaint)

    def _samples(self, at_ns: int, coverage: float | None) -> list[Sample]:
        """A row for each socket, of the bytes so far."""
        rows = []
        for cpu, socket in self._sockets.items():
            values: list[int | float | None] = []
            for name in self._names:
                values += (round(self._sums.get((cpu, name), 0.0)), coverage)
            rows.append(Sample(None, at_ns, tuple(values), f"socket {socket}"))
        return rows

    def close(self) -> None:
        if self._timeline:
            self._timeline.end()
            self._timeline = None


def first_cpus(sys: str) -> dict[int, int]:
    """The socket of the first CPU of each, by that CPU; CPU 0 alone where sysfs does not list them."""
    root = f"{sys}/devices/system/cpu"
    try:
        cpus = sorted(int(name[3:]) for name in os.listdir(root) if re.fullmatch(r"cpu\d+", name))
    except OSError:
        cpus = []
    found: dict[int, int] = {}
    for cpu in cpus:
        path = Path(root) / f"cpu{cpu}/topology/physical_package_id"
        with contextlib.suppress(OSError, ValueError):
            found.setdefault(int(path.read_text()), cpu)
    return {cpu: socket for socket, cpu in found.items()} or {0: 0}


def why_not(printed: str) -> tuple[str, str]:
    """(reason, advice) from what LIKWID prints in place of a timeline."""
    if "aranoid level" in printed:
        reason = "LIKWID counts through perf_event_open here, which is not allowed"
        return reason, "sysctl kernel.perf_event_paranoid=0, or give the agent CAP_PERFMON"
    if re.search(r"\bmsrs?\b|access ?daemon", printed, re.IGNORECASE):
        return _NO_REGISTERS
    return f"it prints no timeline of group MEM: {' '.join(printed.split())[-200:]}", ""
