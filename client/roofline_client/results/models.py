"""Answers of the models: rooflines, trajectories, breakdowns."""

from __future__ import annotations

from typing import Any

from roofline.answers.breakdown import Breakdown
from roofline.answers.efficiency import Efficiency
from roofline.answers.roofline import Roofline
from roofline.answers.time_roofline import TimeRoofline
from roofline.answers.trajectory import Trajectory

from .result import Result


class RooflineResult(Result[Roofline]):
    """Points against roofs. Tables: points (a row each), roofs (a row per vertex), ceilings, crossings."""

    @property
    def picture(self) -> str:  # type: ignore[override]
        return {"classic": "roofline"}.get(self.record.kind, self.record.kind)

    def _form(self) -> Any:
        from ..tables import rooflines

        return rooflines


class TimeRooflineResult(Result[TimeRoofline]):
    """Complexity and time. Tables: points, panels, boxes (overhead), isocurves (a row per vertex)."""

    picture = "time"

    def _form(self) -> Any:
        from ..tables import time_rooflines

        return time_rooflines


class TrajectoryResult(Result[Trajectory]):
    """Roles over an experiment. Tables: stops (role after role, in order), paths, roofs, ceilings."""

    picture = "trajectory"

    def _form(self) -> Any:
        from ..tables import trajectories

        return trajectories


class BreakdownResult(Result[Breakdown]):
    """Parts of work, traffic and time. Table: parts."""

    picture = "breakdown"

    def _form(self) -> Any:
        from ..tables import breakdowns

        return breakdowns


class EfficiencyResult(Result[Efficiency]):
    """MFU, HFU, and where the rest of the step goes. Tables: measures and waterfall, a row each."""

    def _form(self) -> Any:
        from ..tables import efficiencies

        return efficiencies
