"""Roofline scaling trajectories (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019): the path of each
role under the roofs as a parameter grows. Next to it are throughput and efficiency, or speedup where the
parameter is not an amount of machines, so that there is no efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from roofline.answers.roofline import RoofLine
from roofline.answers.trajectory import Path, Stop, Trajectory

from ..errors import NothingToDraw
from ..tables.names import clean
from ..tables.trajectories import node_or_gpu
from . import caption, layout, legends, markers, omissions, panels, paths, roofs, scaling_curves, style
from .label_placement import Labels, shortened
from .roofline import across_of
from .scales import Frame, performance, set_plane, shaped

WIDTH, SIDE = 4.6, 2.15  # of the plane and of the panels next to it, inches
FLATTEST, STEEPEST = 0.72, 1.1


def figure(record: Trajectory) -> Figure:
    """The plane, and throughput and efficiency if they are known. Raises ClientError without a path."""
    lines, frame, roof_notes = _plane(record)
    frame, ratio = shaped(frame, FLATTEST, STEEPEST)
    every = scaling_curves.curves_of(record.paths)
    curves = scaling_curves.in_one_unit(every)
    lower = scaling_curves.lower_field(curves)
    boxes = [layout.Box(layout.LEFT, layout.TOP, WIDTH, WIDTH * ratio)]
    if curves:
        left, height = layout.LEFT + WIDTH + 0.85, (WIDTH * ratio - 0.45) / 2
        boxes.append(layout.Box(left, layout.TOP, SIDE, height))
        if lower:
            boxes.append(layout.Box(left, layout.TOP + height + 0.45, SIDE, height))
    with layout.settings():
        made, axes = layout.blank(boxes)
        handles = _draw_plane(axes[0], record, lines, frame)
        if curves:
            handles += scaling_curves.draw(axes[1:], curves, record.over, lower)
        notes = [
            *_missing(record),
            *_precision_notes(record, lines),
            *roof_notes,
            *roofs.outside(lines, frame),
            *scaling_curves.unit_notes(every, record.over),
            *scaling_curves.absence_notes(curves, lower),
            # `_missing` says why the other paths are not drawn.
            *(f"{path.role}: {path.words}" for path in record.paths if path.words and _shown(path)),
        ]
        title = caption.title(f"Trajectory over {clean(record.over)}", record.about)
        command = caption.command("trajectory", record.about, over=record.over)
        under = caption.of(record.about, notes, record.notes, command=command)
        layout.finish(made, axes, boxes, title, handles, under)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Trajectory) -> None:
    """Draw the plane alone on these axes. Errors as of `figure`."""
    (axis,) = layout.axes_list(axes, 1, "the plane")
    lines, frame, _ = _plane(record)
    frame, _ = shaped(frame, *[layout.ratio(axis)] * 2)
    with layout.settings():
        legends.on(axis, _draw_plane(axis, record, lines, frame))


def _shown(path: Path) -> list[Stop]:
    return [stop for stop in path.stops if markers.can_be_drawn(stop.point)]


def _plane(record: Trajectory) -> tuple[list[RoofLine], Frame, list[str]]:
    """The ceilings, the plane that holds them and all stops, and notes on the ceilings."""
    stops = [stop for path in record.paths for stop in _shown(path)]
    if not stops:
        why = caption.joined([*_missing(record), *record.notes][:3])
        raise NothingToDraw(f"nothing to draw: {clean(why or 'no job has FLOPs and bytes of a role')}")
    lines, notes = _roof_lines(record)
    places = (place for stop in stops for place in markers.extent(stop.point))
    return lines, roofs.frame_of(lines, places), notes


def _roof_lines(record: Trajectory) -> tuple[list[RoofLine], list[str]]:
    """The lowest roof of each kind of machines, and notes on those that share one."""
    by_place = {(roof.host, roof.device): roofs.drawable(roof) for roof in record.roofs}
    models = {machine.host: machine.cpu_model for machine in record.about.machines}
    kinds = panels.like_machines(list(by_place), by_place, models)
    lines, notes = [], []
    for model, members in kinds:
        lowest = panels.lowest_of(members, by_place)
        title = panels.title_of_machines(members, model)
        if len(members) > 1:
            notes.append(panels.lowest_note(title, lowest))
        if len(kinds) == 1:
            return by_place[lowest], notes
        # Each line names its machines.
        name = shortened(title if len(members) > 1 else clean(" ".join(filter(None, lowest))), 20)
        own = [line for line in by_place[lowest] if line.binding]
        lines += [line._replace(label=f"{line.label} ({name})") for line in own]
    return lines, notes


def _draw_plane(axis: Axes, record: Trajectory, lines: Sequence[RoofLine], frame: Frame) -> list[Artist]:
    points = [stop.point for path in record.paths for stop in _shown(path)]
    unit, name = performance(frame.top)
    set_plane(axis, frame, across_of(points), f"Performance of a {node_or_gpu(points)} ({name})", unit)
    labels = Labels(axis)
    roofs.draw_roof(axis, labels, lines, frame)
    markers.draw_bars(axis, points, 0.3)
    shown = [(path.role, _shown(path)) for path in record.paths]
    paths.draw(axis, labels, [(role, stops) for role, stops in shown if stops])
    handles: list[Artist] = [*markers.legend_entries(points, False)]
    if any(len(_shown(path)) > 1 for path in record.paths):
        order = f"in order of {clean(record.over)}"
        handles.append(Line2D([], [], color=style.DIM, linestyle="", marker=r"$\rightarrow$", label=order))
    return [*handles, *roofs.legend_entries(lines)]


def _missing(record: Trajectory) -> list[str]:
    """What could not be drawn, and why."""
    points = []
    for path in record.paths:
        some_drawn = bool(_shown(path))
        for stop in path.stops:
            name = path.role
            if some_drawn and not markers.can_be_drawn(stop.point):
                name = f"{path.role} at {record.over} {stop.at}"
            points.append(stop.point._replace(label=name))
    return omissions.missing(points)


def _precision_notes(record: Trajectory, lines: Sequence[RoofLine]) -> list[str]:
    """The roof to which each stop belongs, if stops differ in precision."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in record.paths:
        for stop in _shown(path):
            found.setdefault(stop.point.precision, {}).setdefault(path.role, []).append(stop.at)
    if len(found) < 2:
        return []
    texts = []
    for precision, roles in found.items():
        stops = " and ".join(f"{role} at {', '.join(values)}" for role, values in roles.items())
        flat = [x for x in lines if not roofs.is_slanting(x) and not roofs.is_theory(x)]
        own = [x for x in flat if x.precision == precision]
        roof = f"under {max(own, key=roofs.height).label}" if own else "has no ceiling here"
        texts.append(f"{precision or 'of unknown precision'} ({stops}) {roof}")
    return [f"Stops differ in precision: {'; '.join(texts)}."]
