"""Hardware counters of each rank through `perf stat -p`: FLOPs by precision and width, cycles, cache misses.

One perf process per rank counts all threads it has and all it starts later, its child processes included,
in groups that fit the CPU's counters. A multiplexed value is already scaled by perf; the share of time it
really counted is kept beside it as a coverage gauge. Counts are sums of perf's intervals; their times are
off by what perf_stat/child.py says.
"""

from __future__ import annotations

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
from .perf_stat.probe import PER_PROCESS, WITNESS, Answers, Counted
from .perf_stat.totals import Row, Totals, counter_set
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
            family = self._family()
            answers = probe.ask(self._perf, PER_PROCESS, family.events, family.hybrid)
            if not answers.counted:
                return self._why_not(answers)
            self.use(answers.counted, self._groups(family, answers.counted), family.hybrid)
        except (OSError, subprocess.SubprocessError) as error:
            return SourceStatus(self.name, False, f"perf cannot be run: {error}")
        return self._how(family, answers)

    def use(self, counted: Sequence[Counted], groups: Sequence[Group], hybrid: bool = False) -> None:
        """Count these events, in these groups, from now on."""
        self._counted = tuple(counted)
        self._groups_asked = spelled([*groups, (HardwareEvent(WITNESS, WITNESS),)])
        self._hybrid = hybrid
        self.counter_set = counter_set(self.name, counted)

    def _family(self) -> Family:
        with open(f"{self._proc}/cpuinfo") as file:
            family = for_cpu(identify(file.read()))
        return family._replace(events=tuple(self._of_vectors(event) for event in family.events))

    def _of_vectors(self, event: HardwareEvent) -> HardwareEvent:
        if not event.scalable:
            return event
        try:
            # Bytes; what processes start with, and few ever change (linux Documentation/arm64/sve.rst).
            with open(f"{self._proc}/sys/abi/sve_default_vector_length") as file:
                return event._replace(factor=event.factor * int(file.read()) // 16)
        except (OSError, ValueError):
            return event  # a kernel without SVE: nothing of it is ever counted

    def _groups(self, family: Family, counted: Sequence[Counted]) -> list[Group]:
        events = [one.event for one in counted]
        counters = family.counters - self._watchdog()
        if family.hybrid:
            # `true` runs on one kind of core, so what the other counts cannot be tried.
            return grouped(events, counters)
        return probe.groups_that_count(self._perf, events, counters)

    def _watchdog(self) -> int:
        try:
            with open(f"{self._proc}/sys/kernel/nmi_watchdog") as file:
                return int(file.read().strip() == "1")
        except OSError:
            return 0

    def _how(self, family: Family, answers: Answers) -> SourceStatus:
        found = {one.event.metric for one in answers.counted}
        missing = dict.fromkeys(event.metric for event in family.events if event.metric not in found)
        said = [f"not counted here: {', '.join(missing)}"] if missing else []
        said += [family.note] if family.note else []
        if answers.user_only:
            level = permission.paranoid(self._proc)
            said.append(
                f"user space only: kernel.perf_event_paranoid is {level}, kernel cycles and DRAM need 0"
            )
            advice = f"sysctl kernel.perf_event_paranoid=0, {permission.CAPABLE}"
            return SourceStatus(self.name, True, "; ".join(said), advice)
        return SourceStatus(self.name, True, "; ".join(said))

    def _why_not(self, answers: Answers) -> SourceStatus:
        refused = permission.refusal(self._proc, answers.texts, _MOST_PARANOID)
        if refused:
            return SourceStatus(self.name, False, *refused)
        return SourceStatus(
            self.name,
            False,
            "no hardware PMU: perf reports its events as not supported (usual in virtual machines)",
            "run on bare metal or let the hypervisor pass the PMU through (vPMU)",
        )

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
            complaint = complaint or self._complaint(rank, watch)
        return self._complaints.give(rows, complaint)

    def _watch(self, rank: Rank) -> Watch:
        how = ["--no-scale"] if self._hybrid else []

        def command(interval_ms: int) -> list[str]:
            events = [*how, "-I", str(interval_ms), "-e", self._groups_asked]
            return [self._perf, "stat", "-x", ";", *events, "-p", str(rank.pid)]

        return Watch(command, Totals(self._counted, self._hybrid), len(self._counted) + 1)

    def _complaint(self, rank: Rank, watch: Watch) -> str:
        said, watch.complaint = watch.complaint, ""
        return f"a rank is not counted: {said}" if said and self._alive(rank) else ""

    def _alive(self, rank: Rank) -> bool:
        # perf ends with its rank, and may be seen to before the rank is missed.
        try:
            with open(f"{self._proc}/{rank.pid}/stat", "rb") as file:
                return file.read().rpartition(b") ")[2][:1] not in b"ZX"
        except OSError:
            return False

    def close(self) -> None:
        for _, watch in self._watches.values():
            watch.end()
        self._watches.clear()


def _samples(rank: Rank, rows: Sequence[Row]) -> list[Sample]:
    return [Sample(rank, row.time_ns, row.values, row.instance) for row in rows]
