"""The panels next to a trajectory: throughput over the parameter, and its efficiency or else its speedup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from roofline.answers.trajectory import Path, Stop
from roofline.answers.values import Value

from ..tables.names import clean
from . import caption, style
from .label_placement import shortened
from .scales import set_looks, tick

EXAMPLES = "examples/s"


class ScalingCurve(NamedTuple):
    role: str  # it has the colour and marker of this role
    stops: list[Stop]  # those with a throughput


def curves_of(paths: Sequence[Path]) -> list[ScalingCurve]:
    """The throughput is the whole job's: roles of the same jobs share a curve."""
    groups: dict[tuple[tuple[str, float | None], ...], list[Path]] = {}
    for path in paths:
        key = tuple((stop.at, stop.throughput.value) for stop in path.stops)
        if any(_is_positive(stop.throughput) for stop in path.stops):
            groups.setdefault(key, []).append(path)
    curves = []
    for group in groups.values():
        # Workers make the throughput; servers and chiefs of the same jobs only take part in it.
        own = min(group, key=lambda path: path.role in ("ps", "chief", "evaluator"))
        curves.append(ScalingCurve(own.role, [s for s in own.stops if _is_positive(s.throughput)]))
    return curves


def in_one_unit(curves: Sequence[ScalingCurve]) -> list[ScalingCurve]:
    """Only the stops whose throughput is in the unit that most have: others have no place on one axis."""
    unit = _commonest_unit(curves)
    kept = [ScalingCurve(c.role, [s for s in c.stops if s.throughput.unit == unit]) for c in curves]
    return [curve for curve in kept if curve.stops]


def unit_notes(curves: Sequence[ScalingCurve], over: str) -> list[str]:
    """Of these curves the stops that `in_one_unit` leaves out."""
    unit = _commonest_unit(curves)
    notes = []
    for role, stops in curves:
        others: dict[str, list[str]] = {}
        for stop in stops:
            if stop.throughput.unit != unit:
                others.setdefault(stop.throughput.unit, []).append(stop.at)
        for other, values in others.items():
            which = f"{role} at {over} {', '.join(values)}"
            notes.append(f"{which}: throughput not drawn (counted in {other}, not in {unit}).")
    return notes


def _commonest_unit(curves: Sequence[ScalingCurve]) -> str:
    units = [stop.throughput.unit for curve in curves for stop in curve.stops]
    return max(units, key=lambda unit: (units.count(unit), unit == EXAMPLES), default="")


def _is_positive(value: Value) -> bool:
    return value.value is not None and 0 < value.value < math.inf


def lower_field(curves: Sequence[ScalingCurve]) -> str:
    """The field of a stop that the lower panel shows; "" if neither is known."""
    stops = [stop for curve in curves for stop in curve.stops]
    if any(_is_positive(stop.efficiency) for stop in stops):
        return "efficiency"
    return "speedup" if any(_is_positive(stop.speedup) for stop in stops) else ""


def absence_notes(curves: Sequence[ScalingCurve], lower: str) -> list[str]:
    """Why no efficiency is drawn, or not even a speedup."""
    stops = [stop for curve in curves for stop in curve.stops]
    if not stops:
        return []
    absent = {"efficiency": [], "speedup": ["efficiency"], "": ["efficiency", "speedup"]}[lower]
    notes = []
    for field in absent:
        reasons = dict.fromkeys(getattr(stop, field).reason for stop in stops)
        why = caption.joined([reason for reason in reasons if reason]) or "the server gives no reason"
        notes.append(f"No {'scaling efficiency' if field == 'efficiency' else field}: {why}.")
    return notes


def draw(axes: Sequence[Axes], curves: Sequence[ScalingCurve], over: str, lower: str) -> list[Artist]:
    """Draw the throughput, and below it the field `lower` unless it is "". Returns entries of the legend."""
    across = _positions([stop.at for curve in curves for stop in curve.stops])
    upper_axis = axes[0]
    for role, stops in curves:
        looks = _looks(role)
        upper_axis.plot([across[s.at] for s in stops], [s.throughput.value or 0.0 for s in stops], **looks)
        # Dashed: the throughput at an efficiency of 1.
        known = [s for s in stops if _is_positive(s.efficiency)]
        if known:
            ideal = [(s.throughput.value or 0.0) / (s.efficiency.value or 1.0) for s in known]
            colour = style.colour(role)
            upper_axis.plot([across[s.at] for s in known], ideal, color=colour, linewidth=0.9, linestyle="--")
    throughput = f"Throughput ({curves[0].stops[0].throughput.unit})"

    if lower:
        _set_axes(upper_axis, across, "", throughput)
        upper_axis.tick_params(labelbottom=False)
        lower_axis = axes[1]
        for role, stops in curves:
            values = [(across[s.at], getattr(s, lower)) for s in stops]
            shown = [(x, value.value or 0.0) for x, value in values if _is_positive(value)]
            if shown:
                lower_axis.plot(*zip(*shown, strict=True), **_looks(role))
        lower_axis.axhline(1.0, color=style.FAINT, linewidth=0.9, linestyle="--", zorder=1)
        lower_axis.set_ylim(0, max(1.1, 1.05 * lower_axis.get_ylim()[1]))
        names = {"efficiency": "Scaling efficiency", "speedup": "Speedup"}
        _set_axes(lower_axis, across, clean(over), names[lower])
    else:
        _set_axes(upper_axis, across, clean(over), throughput)

    upper_axis.set_ylim(0, 1.05 * upper_axis.get_ylim()[1])
    if lower != "efficiency":
        return []
    return [Line2D([], [], color=style.DIM, linewidth=0.9, linestyle="--", label="ideal scaling")]


def _looks(role: str) -> dict[str, Any]:
    return {"color": style.colour(role), "marker": style.marker(role), "markersize": 5, "linewidth": 1.2}


def _positions(values: Sequence[str]) -> dict[str, float]:
    """Positions of the parameter's values on the x axis: numbers by their logarithm, words one by one."""
    ordered = list(dict.fromkeys(values))
    one_by_one = {value: float(at) for at, value in enumerate(ordered)}
    try:
        numbers = {value: float(value) for value in ordered}
    except ValueError:
        return one_by_one
    if any(not 0 < number < math.inf for number in numbers.values()):
        return one_by_one
    return {value: math.log2(number) for value, number in numbers.items()}


def _set_axes(axis: Axes, across: dict[str, float], x_label: str, y_label: str) -> None:
    set_looks(axis, x_label, y_label)
    axis.grid(True, axis="y", linewidth=0.5, color=style.GRID)
    low, high = min(across.values()), max(across.values())
    margin = 0.08 * (high - low) or 0.5
    axis.set_xlim(low - margin, high + margin)
    # Values closer than a seventh of the axis to the last one shown have no number.
    names: dict[float, str] = {}
    least = (high - low + 2 * margin) / 7
    for value, x in sorted(across.items(), key=lambda item: item[1]):
        if not names or x - max(names) >= least:
            names[x] = shortened(clean(value), 6)
    axis.set_xticks(list(names), list(names.values()))
    for text in axis.get_xticklabels():
        text.set_parse_math(False)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: tick(y)))
