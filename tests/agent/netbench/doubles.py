"""A measuring process that measures nothing."""

from __future__ import annotations

from typing import Any

from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.netbench.messages import BenchReport, MeasureOrder, ServeOrder


class Standing:
    """A child that does nothing but what a test has it report."""

    def __init__(self, order: ServeOrder | MeasureOrder, report: Any) -> None:
        self.order, self.report, self.stopped = order, report, False

    def stop(self) -> None:
        self.stopped = True
        self.report(BenchReport(error="it was stopped"))

    def join(self, seconds: float) -> None:
        pass


CEILING = Ceiling("net.tcp", "network", "network", "", 0, 1.0, "byte/s", 0.0, "how", 5, peer="b")
