"""The roofs and points of a report as what pictures are drawn from, for `report --plot`."""

from __future__ import annotations

from ..model_records import About, MachineAbout, Roofline, RoofPoint
from ..records import Point, Report, Value


def roofline_of(report: Report) -> Roofline:
    errors = [node.error for node in report.alignment if node.error.value is not None]
    steps = [rank.summary.values.get("step_time_median") for rank in report.ranks]
    times = [value for value in steps if value and value.value]
    about = About(
        jobs=[report.job],
        experiment="",
        begin_ns=report.begin_ns,
        end_ns=report.end_ns,
        machines=[MachineAbout(r.host, _model(r.note), 0, r.calibrated_ns) for r in report.roofs],
        alignment=max(errors, key=lambda v: v.value or 0.0, default=_absent("s", "no clock was compared")),
        step_time=min(times, key=lambda v: v.value or 0.0, default=_absent("s", "no steps")),
        tags=report.tags,
    )
    return Roofline(about, "classic", report.roofs, [_point(p) for p in report.points], [], [])


def _model(note: str) -> str:
    """A roof's note begins with its machine."""
    return note.partition(";")[0]


def _point(point: Point) -> RoofPoint:
    def value(number: float, unit: str) -> Value:
        return Value(number, unit, point.provenance, "", None, "")

    return RoofPoint(
        label=point.label,
        kind="rank",
        role=point.role,
        rank=point.label,
        host=point.host,
        device="",
        level=point.level,
        precision="",
        intensity=value(point.intensity, "FLOP/byte"),
        flops_per_second=value(point.flops, "FLOP/s"),
        intensity_spread=None,
        flops_spread=None,
        time=_absent("s", ""),
        bound="",
        attainable=_absent("FLOP/s", ""),
        headroom=_absent("1", ""),
        words="",
        incomplete="",
        flops_per_joule=_absent("FLOP/J", ""),
    )


def _absent(unit: str, reason: str) -> Value:
    return Value(None, unit, "", "", None, reason)
