"""Hardware counters of each rank through `perf stat -p`: FLOPs by precision and width, cycles, cache misses.

One perf process per rank counts all threads it has and all it starts later, its child processes included,
in groups that fit the CPU's counters. A multiplexed value is already scaled by perf, or by
perf_stat/hybrid.py where there are two kinds of core; the share of time it really counted is kept next to it
as a coverage gauge. Counts are sums of perf's intervals; their times are off by what perf_stat/child.py
explains.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Sequence

from ..events import Family, HardwareEvent, for_cpu
from ..events.cpu import identify
from ..records import Rank, Sample, SourceSettings, SourceStatus
from .perf_stat import permission, probe
from .perf_stat.complaints import Complaints
from .perf_stat.groups import Group, grouped, spelled
from .perf_stat.pace import Pace
from .perf_stat.probe import PER_PROCESS, WITNESS, Counted
from .perf_stat.totals import CounterRow, Totals, counter_set
from .perf_stat.watch import Watch

_MOST_PARANOID = 2  # at which a user may still count user space of own processes


class PerfSource:
    """Counter set "perf": one row per rank and perf interval."""

    name = "perf"
    fills = "measured FLOPs, cycles and instructions per step; lower bound of DRAM bytes"
    measures = True  # it tries its events with perf, which may hang

    def __init__(self, settings: SourceSettings) -> None:
        self._perf = settings.environ.get("ROOFLINE_PERF", "perf")
        self._proc = settings.proc
        self._pace = Pace(settings.interval_ns)
        self._watches: dict[tuple[int, int], tuple[Rank, Watch]] = {}
        self._complaints: Complaints[Sample] = Complaints()
        self.use((), [])

    def probe(self) -> SourceStatus:
        if shutil.which(self._perf) is None:
            advice = "install your kernel's perf package, or name perf in ROOFLINE_PERF"
            return SourceStatus(self.name, False, "perf is not installed", advice)
        try:
            family = self._read_family()
            answers = probe.ask(self._perf, PER_PROCESS, family.events, family.hybrid)
            if not answers.counted:
                refused = permission.refusal(self._proc, answers.texts, _MOST_PARANOID)
                reason, advice = refused or (
                    "no hardware PMU: perf reports its events as not supported (usual in virtual machines)",
                    "run on bare metal or let the hypervisor pass the PMU through (vPMU)",
                )
                return SourceStatus(self.name, False, reason, advice)
            self.use(answers.counted, self._choose_groups(family, answers.counted), family.hybrid)
        except (OSError, subprocess.SubprocessError) as error:
            return SourceStatus(self.name, False, f"perf cannot be run: {error}")

        notes, advice = [], ""
        found = {one.event.metric for one in answers.counted}
        missing = dict.fromkeys(event.metric for event in family.events if event.metric not in found)
        if missing:
            notes.append(f"not counted here: {', '.join(missing)}")
        if family.note:
            notes.append(family.note)
        if answers.user_only:
            level = permission.paranoid(self._proc)
            notes.append(
                f"user space only: kernel.perf_event_paranoid is {level}, kernel cycles and DRAM need 0"
            )
            advice = f"sysctl kernel.perf_event_paranoid=0, {permission.CAPABLE}"
        return SourceStatus(self.name, True, "; ".join(notes), advice)

    def use(self, counted: Sequence[Counted], groups: Sequence[Group], hybrid: bool = False) -> None:
        """Count these events, in these groups, from now on."""
        self.counted = tuple(counted)
        self.events = spelled([*groups, (HardwareEvent(WITNESS, WITNESS),)])  # as perf's -e wants them
        self._hybrid = hybrid
        self.counter_set = counter_set(self.name, counted)

    def _read_family(self) -> Family:
        """The events of this CPU."""
        with open(f"{self._proc}/cpuinfo") as file:
            family = for_cpu(identify(file.read()))
        try:
            # Bytes; what processes start with, and few ever change (linux Documentation/arm64/sve.rst).
            with open(f"{self._proc}/sys/abi/sve_default_vector_length") as file:
                vector_bytes = int(file.read())
        except (OSError, ValueError):
            return family  # a kernel without SVE: nothing of it is ever counted
        events = []
        for event in family.events:
            if event.scalable:
                event = event._replace(factor=event.factor * vector_bytes // 16)
            events.append(event)
        return family._replace(events=tuple(events))

    def _choose_groups(self, family: Family, counted: Sequence[Counted]) -> list[Group]:
        events = [one.event for one in counted]
        counters = family.counters
        with contextlib.suppress(OSError), open(f"{self._proc}/sys/kernel/nmi_watchdog") as file:
            if file.read().strip() == "1":
                counters -= 1  # the watchdog keeps one
        if family.hybrid:
            # `true` runs on one kind of core, so what the other counts cannot be tried.
            return grouped(events, counters)
        return probe.groups_that_count(self._perf, events, counters)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        wanted = {(rank.pid, rank.start_ns): rank for rank in ranks}
        rows: list[Sample] = []
        for key in self._watches.keys() - wanted.keys():
            rank, watch = self._watches.pop(key)
            rows += _samples(rank, watch.end())
        for key in wanted.keys() - self._watches.keys():
            self._watches[key] = (wanted[key], self._watch(wanted[key]))
        another_pace = self._pace.asked(time.monotonic_ns())
        complaint = ""
        for rank, watch in self._watches.values():
            if another_pace:
                rows += _samples(rank, watch.end())
            rows += _samples(rank, watch.take(self._pace.interval_ms))
            text, watch.complaint = watch.complaint, ""
            if text and not complaint and not self._has_ended(rank):
                complaint = f"a rank is not counted: {text}"
        return self._complaints.give(rows, complaint)

    def _watch(self, rank: Rank) -> Watch:
        def command(interval_ms: int) -> list[str]:
            scaling = ["--no-scale"] if self._hybrid else []
            events = [*scaling, "-I", str(interval_ms), "-e", self.events]
            return [self._perf, "stat", "-x", ";", *events, "-p", str(rank.pid)]

        return Watch(command, Totals(self.counted, self._hybrid), len(self.counted) + 1)

    def _has_ended(self, rank: Rank) -> bool:
        # perf ends with its rank, and may be seen to before the rank is missed.
        try:
            with open(f"{self._proc}/{rank.pid}/stat", "rb") as file:
                return file.read().rpartition(b") ")[2][:1] in b"ZX"
        except OSError:
            return True

    def close(self) -> None:
        for _, watch in self._watches.values():
            watch.end()
        self._watches.clear()


def _samples(rank: Rank, rows: Sequence[CounterRow]) -> list[Sample]:
    return [Sample(rank, row.time_ns, row.values, row.instance) for row in rows]
