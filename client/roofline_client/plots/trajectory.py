"""Roofline scaling trajectories (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019): where each role
goes under the roofs as a parameter grows, and beside it what that does to throughput and to efficiency, or to
speedup where the parameter is no amount of machine that an efficiency could be reckoned by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from ..errors import ClientError
from ..model_records import Path, Stop, Trajectory
from ..names import clean
from ..records import RoofLine, Value
from . import caption, marks, roofs, sheet, style
from .labels import Labels, shortened
from .roofline import across_of
from .scales import Frame, dress, set_plane, shaped, tick

WIDTH, SIDE = 4.6, 2.15  # of the plane and of the panels beside it, inches
FLATTEST, STEEPEST = 0.72, 1.1
UP = "Performance of a node (GFLOP/s)"


def figure(record: Trajectory) -> Figure:
    """The plane, and where there are values throughput and efficiency. Raises ClientError without a path."""
    lines, frame = _plane(record)
    frame, ratio = shaped(frame, FLATTEST, STEEPEST)
    series = _series(record.paths)
    second = _second(series)
    boxes = [sheet.Box(sheet.LEFT, sheet.TOP, WIDTH, WIDTH * ratio)]
    if series:
        left, height = sheet.LEFT + WIDTH + 0.85, (WIDTH * ratio - 0.45) / 2
        count = 2 if second else 1
        boxes += [sheet.Box(left, sheet.TOP + k * (height + 0.45), SIDE, height) for k in range(count)]
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles = _draw_plane(axes[0], record, lines, frame)
        if series:
            handles += _draw_sides(axes[1:], series, record.over, second)
        said = [*_missing(record), *_precisions(record, lines), *_without_efficiency(series, second)]
        title = caption.title(f"Trajectory over {clean(record.over)}", record.about)
        sheet.finish(made, boxes, title, handles, caption.of(record.about, said, record.notes))
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Trajectory) -> None:
    """Draw the plane alone on these axes. Errors as of `figure`."""
    (axis,) = sheet.given(axes, 1, "the plane")
    lines, frame = _plane(record)
    frame, _ = shaped(frame, *[sheet.ratio(axis)] * 2)
    with sheet.settings():
        sheet.legend_on(axis, _draw_plane(axis, record, lines, frame))


def _shown(path: Path) -> list[Stop]:
    return [stop for stop in path.stops if marks.can_be_drawn(stop.point)]


def _plane(record: Trajectory) -> tuple[list[RoofLine], Frame]:
    stops = [stop for path in record.paths for stop in _shown(path)]
    if not stops:
        said = (
            caption.joined([*_missing(record), *record.notes][:3]) or "no job has FLOPs and bytes of a role"
        )
        raise ClientError(f"nothing to draw: {clean(said)}")
    lines = _lines(record)
    return lines, roofs.frame_of(lines, (place for stop in stops for place in marks.extent(stop.point)))


def _lines(record: Trajectory) -> list[RoofLine]:
    """Of several machines each line tells whose it is."""
    several = len({roof.host for roof in record.roofs}) > 1
    found = []
    for roof in record.roofs:
        for line in roofs.drawable(roof):
            if not several:
                found.append(line)
            elif line.binding:
                found.append(line._replace(label=f"{line.label} ({shortened(clean(roof.host), 12)})"))
    return found


def _draw_plane(axis: Axes, record: Trajectory, lines: Sequence[RoofLine], frame: Frame) -> list[Artist]:
    points = [stop.point for path in record.paths for stop in _shown(path)]
    set_plane(axis, frame, across_of(points), UP)
    labels = Labels(axis)
    roofs.draw_roof(axis, labels, lines, frame)
    marks.draw_points(axis, points, lambda point: style.marker(point.role), 0.75)
    for path in record.paths:
        _draw_path(axis, labels, path)
    handles: list[Artist] = [*marks.explained(points, False)]
    if any(len(_shown(path)) > 1 for path in record.paths):
        order = f"in order of {clean(record.over)}"
        handles.append(Line2D([], [], color=style.DIM, linestyle="", marker=r"$\rightarrow$", label=order))
    return [*handles, *roofs.explained(lines)]


def _draw_path(axis: Axes, labels: Labels, path: Path) -> None:
    stops = _shown(path)
    if not stops:
        return
    colour = style.colour(path.role)
    places = [marks.place(stop.point) for stop in stops]
    axis.plot(*zip(*places, strict=True), color=colour, linewidth=1.0, zorder=4.4)
    for begin, end in pairwise(places):
        looks: dict[str, Any] = {"color": colour, "linewidth": 1.0, "shrinkA": 2.0, "shrinkB": 2.5}
        arrow = {"arrowstyle": "-|>,head_width=0.2,head_length=0.4", **looks}
        axis.annotate("", end, begin, arrowprops=arrow, zorder=4.5).set_in_layout(False)
    for place in places:
        labels.keep_off(*place)
    for at, (stop, place) in enumerate(zip(stops, places, strict=True)):
        # The role is said once, where the path begins; stops between its ends only where there is room.
        ends = at in (0, len(stops) - 1)
        told = f"{path.role} {stop.at}" if at == 0 else stop.at
        labels.at_point(*place, told, colour, farthest=math.inf if ends else 4.0)


# -- throughput and efficiency ------------------------------------------------------------------------


Series = tuple[str, str, list[Stop]]  # roles, colour, stops with a throughput


def _series(paths: Sequence[Path]) -> list[Series]:
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


def _second(series: Sequence[Series]) -> str:
    """The field of a stop that the lower panel draws; "": neither is known."""
    stops = [stop for _, _, stops in series for stop in stops]
    if any(_is_number(stop.efficiency) for stop in stops):
        return "efficiency"
    return "speedup" if any(_is_number(stop.speedup) for stop in stops) else ""


def _without_efficiency(series: Sequence[Series], second: str) -> list[str]:
    """Why no efficiency is drawn, or not even a speedup."""
    stops = [stop for _, _, stops in series for stop in stops]
    absent = {"efficiency": [], "speedup": ["efficiency"], "": ["efficiency", "speedup"]}[second]
    told = []
    for field in absent if stops else []:
        reasons = dict.fromkeys(getattr(stop, field).reason for stop in stops)
        why = caption.joined([reason for reason in reasons if reason]) or "nothing was heard of it"
        told.append(f"No {'scaling efficiency' if field == 'efficiency' else field}: {why}.")
    return told


def _draw_sides(axes: Sequence[Axes], series: Sequence[Series], over: str, second: str) -> list[Artist]:
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


def _missing(record: Trajectory) -> list[str]:
    """What each path says, and what of it could not be drawn."""
    points = []
    for path in record.paths:
        lost = [stop for stop in path.stops if not marks.can_be_drawn(stop.point)]
        for stop in path.stops:
            where = f" at {record.over} {stop.at}" if stop in lost and len(lost) < len(path.stops) else ""
            points.append(stop.point._replace(label=f"{path.role}{where}"))
    return [*(f"{path.role}: {path.words}" for path in record.paths if path.words), *marks.missing(points)]


def _precisions(record: Trajectory, lines: Sequence[RoofLine]) -> list[str]:
    """Which stop belongs under which roof, where stops differ in their precision."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in record.paths:
        for stop in _shown(path):
            found.setdefault(stop.point.precision, {}).setdefault(path.role, []).append(stop.at)
    if len(found) < 2:
        return []
    told = []
    for precision, roles in found.items():
        whose = " and ".join(f"{role} at {', '.join(values)}" for role, values in roles.items())
        own = [
            x
            for x in lines
            if x.precision == precision and not roofs.is_slanting(x) and not roofs.is_theory(x)
        ]
        top = max(own, key=roofs.height, default=None)
        under = f"under {top.label}" if top else "has no ceiling here"
        told.append(f"{precision or 'of unknown precision'} ({whose}) {under}")
    return [f"Stops differ in precision: {'; '.join(told)}."]
