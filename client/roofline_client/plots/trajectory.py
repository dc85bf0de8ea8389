"""Roofline scaling trajectories (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019): where each role
goes under the roofs as a parameter grows, and beside it what that does to throughput and to efficiency, or to
speedup where the parameter is no amount of machine that an efficiency could be reckoned by."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from roofline.answers.roofline import RoofLine
from roofline.answers.trajectory import Path, Stop, Trajectory

from ..errors import ClientError
from ..tables.names import clean
from . import caption, legends, marks, omissions, paths, roofs, sheet, sides, style
from .label_placement import Labels, shortened
from .roofline import across_of
from .scales import Frame, performance, set_plane, shaped

WIDTH, SIDE = 4.6, 2.15  # of the plane and of the panels beside it, inches
FLATTEST, STEEPEST = 0.72, 1.1


def figure(record: Trajectory) -> Figure:
    """The plane, and where there are values throughput and efficiency. Raises ClientError without a path."""
    lines, frame = _plane(record)
    frame, ratio = shaped(frame, FLATTEST, STEEPEST)
    series = sides.series_of(record.paths)
    second = sides.second_of(series)
    boxes = [sheet.Box(sheet.LEFT, sheet.TOP, WIDTH, WIDTH * ratio)]
    if series:
        left, height = sheet.LEFT + WIDTH + 0.85, (WIDTH * ratio - 0.45) / 2
        count = 2 if second else 1
        boxes += [sheet.Box(left, sheet.TOP + k * (height + 0.45), SIDE, height) for k in range(count)]
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles = _draw_plane(axes[0], record, lines, frame)
        if series:
            handles += sides.draw(axes[1:], series, record.over, second)
        said = [
            *_missing(record),
            *_precisions(record, lines),
            *roofs.outside(lines, frame),
            *sides.without_efficiency(series, second),
            *_words(record),
        ]
        title = caption.title(f"Trajectory over {clean(record.over)}", record.about)
        command = caption.command("trajectory", record.about, over=record.over)
        under = caption.of(record.about, said, record.notes, command=command)
        sheet.finish(made, axes, boxes, title, handles, under)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Trajectory) -> None:
    """Draw the plane alone on these axes. Errors as of `figure`."""
    (axis,) = sheet.given(axes, 1, "the plane")
    lines, frame = _plane(record)
    frame, _ = shaped(frame, *[sheet.ratio(axis)] * 2)
    with sheet.settings():
        legends.on(axis, _draw_plane(axis, record, lines, frame))


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
    unit, name = performance(frame.top)
    set_plane(axis, frame, across_of(points), f"Performance of a node ({name})", unit)
    labels = Labels(axis)
    roofs.draw_roof(axis, labels, lines, frame)
    marks.draw_bars(axis, points, 0.3)
    shown = [(path.role, _shown(path)) for path in record.paths]
    paths.draw(axis, labels, [(role, stops) for role, stops in shown if stops])
    handles: list[Artist] = [*marks.explained(points, False)]
    if any(len(_shown(path)) > 1 for path in record.paths):
        order = f"in order of {clean(record.over)}"
        handles.append(Line2D([], [], color=style.DIM, linestyle="", marker=r"$\rightarrow$", label=order))
    return [*handles, *roofs.explained(lines)]


def _missing(record: Trajectory) -> list[str]:
    """What could not be drawn, and why."""
    points = []
    for path in record.paths:
        lost = [stop for stop in path.stops if not marks.can_be_drawn(stop.point)]
        for stop in path.stops:
            where = f" at {record.over} {stop.at}" if stop in lost and len(lost) < len(path.stops) else ""
            points.append(stop.point._replace(label=f"{path.role}{where}"))
    return omissions.missing(points)


def _words(record: Trajectory) -> list[str]:
    """What is said of each path that is drawn; why another is not, `_missing` says."""
    return [f"{path.role}: {path.words}" for path in record.paths if path.words and _shown(path)]


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
