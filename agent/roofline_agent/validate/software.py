"""perf with events that the kernel counts itself: where there is no PMU, all of the way but the hardware."""

from __future__ import annotations

import shutil
import subprocess

from ..events import HardwareEvent
from ..records import SourceSettings, SourceStatus
from ..sources.perf import PerfSource
from ..sources.perf_stat import permission, probe
from ..sources.perf_stat.groups import grouped
from ..sources.perf_stat.probe import PER_PROCESS
from .works import SOFTWARE

EVENTS = (
    HardwareEvent("cpu-clock", "cpu_clock_ns", "ns", 1_000_000),  # perf prints milliseconds
    HardwareEvent("page-faults", "page_faults"),
)
_MOST_PARANOID = 2


class SoftwarePerf(PerfSource):
    """The source "perf" with other events."""

    name = SOFTWARE

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(settings)
        self._command, self._root = settings.environ.get("ROOFLINE_PERF", "perf"), settings.proc

    def probe(self) -> SourceStatus:
        if shutil.which(self._command) is None:
            return SourceStatus(self.name, False, "perf is not installed")
        try:
            answers = probe.ask(self._command, PER_PROCESS, EVENTS)
        except (OSError, subprocess.SubprocessError) as error:
            return SourceStatus(self.name, False, f"perf cannot be run: {error}")
        if not answers.counted:
            refused = permission.refusal(self._root, answers.texts, _MOST_PARANOID)
            reason, advice = refused or ("perf does not count the kernel's own events", "")
            return SourceStatus(self.name, False, reason, advice)
        self.use(answers.counted, grouped([one.event for one in answers.counted], len(EVENTS)))
        return SourceStatus(self.name, True)
