"""DRAM bytes of each socket from the PMUs outside the cores, through one `perf stat -a --per-socket`.

They belong to a socket, not to a process: rows have no rank, "socket 0" and so on as instance. Each PMU
event is asked for once only, because one that is in two groups is counted twice. It counts while there
are ranks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

from ..events import HardwareEvent, UncoreEvent, for_cpu
from ..events.cpu import identify
from ..records import Rank, Sample, Scope, SourceSettings, SourceStatus
from .perf_stat import permission, probe
from .perf_stat.complaints import Complaints
from .perf_stat.pace import Pace
from .perf_stat.probe import PER_SOCKET, Counted
from .perf_stat.totals import CounterRow, Totals, counter_set
from .perf_stat.watch import Watch

_HBM = "uncore_hbm_[0-9]*"  # of a Xeon Max, whose HBM no event here counts
_MOST_PARANOID = 0  # at which a user may still count for a whole CPU


class PerfSystemSource:
    """Counter set "perf_system": one row per socket and perf interval."""

    name = "perf_system"
    fills = "DRAM bytes per socket and so measured intensity"
    measures = True  # it tries its events with perf, which may hang

    def __init__(self, settings: SourceSettings) -> None:
        self._perf = settings.environ.get("ROOFLINE_PERF", "perf")
        self._proc = settings.proc
        self._sys = settings.sys
        self._pace = Pace(settings.interval_ns)
        self._watch: Watch | None = None
        self._complaints: Complaints[Sample] = Complaints()
        self.use(())

    def probe(self) -> SourceStatus:
        if shutil.which(self._perf) is None:
            advice = "install your kernel's perf package, or name perf in ROOFLINE_PERF"
            return SourceStatus(self.name, False, "perf is not installed", advice)
        try:
            with open(f"{self._proc}/cpuinfo") as file:
                family = for_cpu(identify(file.read()))
            return self._try(family.uncore)
        except (OSError, subprocess.SubprocessError) as error:
            return SourceStatus(self.name, False, f"perf cannot be run: {error}")

    def _try(self, events: Sequence[UncoreEvent]) -> SourceStatus:
        if not events:
            return SourceStatus(self.name, False, "no event is known that counts this CPU's DRAM traffic")
        try:
            present = os.listdir(f"{self._sys}/bus/event_source/devices")
        except OSError:
            present = []
        if not any(matching(present, event.pmu) for event in events):
            advice = (
                "load the CPU's uncore driver (intel_uncore, amd_uncore, arm_cspmu), or run on bare metal"
            )
            reason = "the kernel shows no PMU of the memory controllers (usual in virtual machines)"
            return SourceStatus(self.name, False, reason, advice)
        has_hbm = bool(matching(present, _HBM))
        if has_hbm:
            events = [event._replace(estimated=True) for event in events]
        counted, texts = self._ask(events, present)
        if not counted:
            refused = permission.refusal(self._proc, texts, _MOST_PARANOID)
            if refused:
                return SourceStatus(self.name, False, *refused)
            text = " ".join(" ".join(texts).split())[:200]
            return SourceStatus(
                self.name, False, f"perf does not count the memory controllers' events: {text}"
            )
        self.use(counted)
        pmus = {pmu_of(one.event.perf) for one in counted}
        hbm = "; traffic of the HBM is not counted: a lower bound" if has_hbm else ""
        return SourceStatus(self.name, True, f"{len(pmus)} PMUs ({min(pmus)} ...){hbm}")

    def _ask(self, events: Sequence[UncoreEvent], present: Sequence[str]) -> tuple[list[Counted], list[str]]:
        """The events that count, on every PMU of their kind, and what perf printed about the others.

        One PMU of a kind is tried for all; per metric, the first kind of PMU that counts is taken.
        """
        kinds: dict[tuple[str, str], list[UncoreEvent]] = {}
        for event in events:
            kinds.setdefault((event.metric, event.pmu), []).append(event)
        counted: list[Counted] = []
        texts: list[str] = []
        for (metric, pattern), of_kind in kinds.items():
            pmus = matching(present, pattern)
            if not pmus or any(one.event.metric == metric for one in counted):
                continue
            tried = pmus[0]
            answers = probe.ask(self._perf, PER_SOCKET, [named(event, tried) for event in of_kind])
            texts += answers.texts
            if not answers.counted:
                continue
            for event, first in zip(of_kind, answers.counted, strict=True):
                # perf prints the same event of another PMU in the same way.
                counted += [Counted(first.name.replace(tried, pmu, 1), named(event, pmu)) for pmu in pmus]
        return counted, texts

    def use(self, counted: Sequence[Counted]) -> None:
        """Count these events from now on."""
        self.counted = tuple(counted)
        self._totals = Totals(counted)
        self.counter_set = counter_set(self.name, counted, Scope.SOCKET)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        another_pace = self._pace.asked(time.monotonic_ns())
        rows: list[CounterRow] = []
        if self._watch and (another_pace or not ranks):
            rows += self._watch.end()
        complaint = ""
        if ranks:
            self._watch = self._watch or Watch(self._command, self._totals)
            rows += self._watch.take(self._pace.interval_ms)
            complaint, self._watch.complaint = self._watch.complaint, ""
        return self._complaints.give(
            [Sample(None, row.time_ns, row.values, row.instance) for row in rows], complaint
        )

    def _command(self, interval_ms: int) -> list[str]:
        events = ",".join(one.event.perf for one in self.counted)
        return [self._perf, "stat", *PER_SOCKET, "-x", ";", "-I", str(interval_ms), "-e", events]

    def close(self) -> None:
        if self._watch:
            self._watch.end()
            self._watch = None


def matching(present: Sequence[str], pattern: str) -> list[str]:
    """The PMUs of a pattern, by their numbers."""
    return sorted(
        (name for name in present if fnmatchcase(name, pattern)),
        key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)],
    )


def named(event: UncoreEvent, pmu: str) -> HardwareEvent:
    """The event of one PMU, as perf wants it."""
    return HardwareEvent(
        f"{pmu}/{event.event}/", event.metric, event.unit, event.factor, estimated=event.estimated
    )


def pmu_of(perf: str) -> str:
    return perf.partition("/")[0]
