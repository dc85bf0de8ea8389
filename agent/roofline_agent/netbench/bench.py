"""What this agent does about network benchmarks: one at a time, each end in a child, ceilings kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from roofline_agent.calibrate.calibration import Ceiling

from .child import BenchmarkProcess
from .messages import BenchReport, MeasureOrder, ServeOrder

log = logging.getLogger(__name__)

Send = Callable[[BenchReport], None]


class NetBench:
    """Starts and ends children; a thread of each child sends its reports. Safe to call from any thread."""

    def __init__(
        self,
        keep: Callable[[Sequence[Ceiling]], None],
        start: Callable[[ServeOrder | MeasureOrder, Send], BenchmarkProcess] = BenchmarkProcess,
    ) -> None:
        """`keep` is handed the ceilings of a run that was measured here, before its last report is sent."""
        self._keep = keep
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[str, BenchmarkProcess] = {}  # by role
        self._key = ""

    def begin(self, order: ServeOrder | MeasureOrder, send: Send) -> None:
        """Start an end of a benchmark, or send why not. An agent may be both ends of the same one."""
        role = "serving" if isinstance(order, ServeOrder) else "measuring"
        with self._lock:
            if self._running and (self._key != order.key or role in self._running):
                running = ", ".join(self._running)
                send(BenchReport(error=f"busy with another network benchmark ({running})"))
                return
            log.info("network benchmark: %s", role)
            try:
                self._running[role] = self._start(order, lambda report: self._pass_on(role, report, send))
            except OSError as error:
                reason = error.strerror or error
                send(BenchReport(error=f"the measuring process cannot be started: {reason}"))
                return
            self._key = order.key

    def stop(self, key: str = "") -> None:
        """End what was begun with this key; without one whatever runs. Returns when it has ended."""
        with self._lock:
            children = list(self._running.values()) if key in ("", self._key) else []
        for child in children:
            child.stop()
        for child in children:
            child.join(5)

    def _pass_on(self, role: str, report: BenchReport, send: Send) -> None:
        if report.done and report.ceilings:
            try:
                self._keep(report.ceilings)
            except Exception as error:
                log.exception("the network ceilings could not be kept")
                report = BenchReport(error=f"measured, but the ceilings could not be kept: {error}")
        if report.done or report.error:
            # First: whoever receives that it has ended may begin the next.
            with self._lock:
                self._running.pop(role, None)
            log.info("network benchmark: %s has ended%s", role, f" ({report.error})" if report.error else "")
        send(report)
