"""Beside a trajectory: throughput over the parameter, and its efficiency or, where that is none, speedup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from roofline.answers.trajectory import Path, Stop
from roofline.answers.values import Value

from ..tables.names import clean
from . import caption, style
from .label_placement import shortened
from .scales import dress, tick

Series = tuple[str, str, list[Stop]]  # roles, colour, stops with a throughput


def series_of(paths: Sequence[Path]) -> list[Series]:
    """Throughput is the whole job's: roles of the same jobs share a line."""
    found: dict[tuple[tuple[str, float | None], ...], list[Path]] = {}
    for path in paths:
        key = tuple((stop.at, stop.throughput.value) for stop in path.stops)
        if any(_is_number(stop.throughput) for stop in path.stops):
            found.setdefault(key, []).append(path)
    series = []
    for group in found.values():
        # Workers make the throughput; servers and chiefs of the same jobs only take part in it.
        own = min(group, key=lambda path: path.role in ("ps", "chief", "evaluator"))
        name = ", ".join(path.role for path in group)
        series.append((name, own.role, [s for s in own.stops if _is_number(s.throughput)]))
    return series


def _is_number(value: Value) -> bool:
    return value.value is not None and 0 < value.value < math.inf


def second_of(series: Sequence[Series]) -> str:
    """The field of a stop that the lower panel draws; "": neither is known."""
    stops = [stop for _, _, stops in series for stop in stops]
    if any(_is_number(stop.efficiency) for stop in stops):
        return "efficiency"
    return "speedup" if any(_is_number(stop.speedup) for stop in stops) else ""


def without_efficiency(series: Sequence[Series], second: str) -> list[str]:
    """Why no efficiency is drawn, or not even a speedup."""
    stops = [stop for _, _, stops in series for stop in stops]
    absent = {"efficiency": [], "speedup": ["efficiency"], "": ["efficiency", "speedup"]}[second]
    told = []
    for field in absent if stops else []:
        reasons = dict.fromkeys(getattr(stop, field).reason for stop in stops)
        why = caption.joined([reason for reason in reasons if reason]) or "nothing was heard of it"
        told.append(f"No {'scaling efficiency' if field == 'efficiency' else field}: {why}.")
    return told


def draw(axes: Sequence[Axes], series: Sequence[Series], over: str, second: str) -> list[Artist]:
    """Throughput, and under it where there is one the efficiency or the speedup."""
    across = _positions([stop.at for _, _, stops in series for stop in stops])
    _draw_throughput(axes[0], across, series)
    if second:
        _dress_side(axes[0], across, "", axes[0].get_ylabel())
        axes[0].tick_params(labelbottom=False)
        _draw_second(axes[1], across, series, second)
    names = {"efficiency": "Scaling efficiency", "speedup": "Speedup"}
    _dress_side(axes[-1], across, clean(over), names.get(second, axes[-1].get_ylabel()))
    axes[0].set_ylim(0, 1.05 * axes[0].get_ylim()[1])
    if second != "efficiency":
        return []
    return [Line2D([], [], color=style.DIM, linewidth=0.9, linestyle="--", label="ideal scaling")]


def _draw_throughput(axis: Axes, across: dict[str, float], series: Sequence[Series]) -> None:
    """And dashed what it would be at an efficiency of 1."""
    for _, role, stops in series:
        axis.plot([across[s.at] for s in stops], [s.throughput.value or 0.0 for s in stops], **_looks(role))
        known = [s for s in stops if _is_number(s.efficiency)]
        best = [(s.throughput.value or 0.0) / (s.efficiency.value or 1.0) for s in known]
        if known:
            thin: dict[str, Any] = {"linewidth": 0.9, "linestyle": "--"}
            axis.plot([across[s.at] for s in known], best, color=style.colour(role), **thin)
    axis.set_ylabel(f"Throughput ({series[0][2][0].throughput.unit})")


def _draw_second(axis: Axes, across: dict[str, float], series: Sequence[Series], field: str) -> None:
    """Efficiency or speedup over the parameter, and where it would be 1."""
    for _, role, stops in series:
        found = [(across[s.at], getattr(s, field)) for s in stops]
        known = [(at, value.value or 0.0) for at, value in found if _is_number(value)]
        if known:
            axis.plot(*zip(*known, strict=True), **_looks(role))
    axis.axhline(1.0, color=style.FAINT, linewidth=0.9, linestyle="--", zorder=1)
    axis.set_ylim(0, max(1.1, 1.05 * axis.get_ylim()[1]))


def _looks(role: str) -> dict[str, Any]:
    return {"color": style.colour(role), "marker": style.marker(role), "markersize": 5, "linewidth": 1.2}


def _positions(values: Sequence[str]) -> dict[str, float]:
    """Where the values of the parameter stand: numbers by their logarithm, words one after another."""
    ordered = list(dict.fromkeys(values))
    try:
        numbers = {value: float(value) for value in ordered}
    except ValueError:
        return {value: float(at) for at, value in enumerate(ordered)}
    if any(not 0 < number < math.inf for number in numbers.values()):
        return {value: float(at) for at, value in enumerate(ordered)}
    return {value: math.log2(number) for value, number in numbers.items()}


def _dress_side(axis: Axes, across: dict[str, float], name: str, up: str) -> None:
    dress(axis, name, up)
    axis.grid(True, axis="y", linewidth=0.5, color=style.GRID)
    low, high = min(across.values()), max(across.values())
    room = 0.08 * (high - low) or 0.5
    axis.set_xlim(low - room, high + room)
    shown = _apart(sorted(across.items(), key=lambda item: item[1]), (high - low + 2 * room) / 7)
    axis.xaxis.set_major_locator(FixedLocator([at for _, at in shown]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    names = {at: shortened(clean(value), 6) for value, at in shown}
    axis.xaxis.set_major_formatter(FuncFormatter(lambda at, _: names.get(at, "")))
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: tick(y)))


def _apart(places: Sequence[tuple[str, float]], least: float) -> list[tuple[str, float]]:
    kept: list[tuple[str, float]] = []
    for value, at in places:
        if not kept or at - kept[-1][1] >= least:
            kept.append((value, at))
    return kept
