"""The paths of a trajectory: stops joined in order. A path too short to follow is enlarged in an inset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from roofline.answers.trajectory import Stop

from ..tables.names import clean
from . import markers, shapes, style
from .label_placement import Labels, straight_pieces
from .scales import tick
from .shapes import Array, Texts

Path = tuple[str, list[Stop]]  # role, and its stops that can be drawn
LARGEST, SMALLEST = 0.75 * style.MARKER, 3.4  # of a marker, points
ARROW = 6.0  # points an arrow needs between two markers
SHORT = 34.0  # points: the stops of a shorter path are distinct only in an inset
INSET, HEAD = 72.0, 11.0  # width of an inset and height of its title, points
MOST_INSETS = 2
SAME = 1.05  # stops within this factor differ by no more than their noise, which an inset would enlarge


def draw(axis: Axes, labels: Labels, paths: Sequence[Path]) -> bool:
    """Draw all paths. Returns whether some are enlarged in an inset."""
    short = []
    for path in paths:
        _draw_path(axis, labels, path)
        places, gaps = _places(path[1]), _gaps(labels, path[1])
        if not gaps or _on_one_spot(path[1]) or min(gaps) >= SMALLEST + ARROW:
            continue
        if max(labels.distance(places[0], place) for place in places) < SHORT:
            short.append(path)

    insets: list[Axes] = []
    for path in short[:MOST_INSETS]:
        place = _place_for_inset(axis, insets, paths)
        if place is not None:
            insets.append(_draw_inset(axis, labels, place, path))
    enlarged = short[: len(insets)]
    for path in paths:
        role, stops = path
        colour, size = style.colour(role), _marker_size(_gaps(labels, stops))
        if path in enlarged or (len(stops) > 1 and _on_one_spot(stops)):
            middle = stops[len(stops) // 2]
            labels.at_point(
                *markers.place(middle.point), f"{role} {stops[0].at} … {stops[-1].at}", colour, size
            )
            continue
        for number, stop in enumerate(stops):
            # The role is at the first stop; stops between the ends have a name only where there is room.
            text = f"{role} {stop.at}" if number == 0 else stop.at
            max_distance = math.inf if number in (0, len(stops) - 1) else 7.0
            labels.at_point(*markers.place(stop.point), text, colour, size, max_distance)
    return bool(insets)


def _places(stops: Sequence[Stop]) -> list[tuple[float, float]]:
    return [markers.place(stop.point) for stop in stops]


def _on_one_spot(stops: Sequence[Stop]) -> bool:
    logs = np.log10(_places(stops))
    return bool((np.ptp(logs, axis=0) <= math.log10(SAME)).all())


def _gaps(labels: Labels, stops: Sequence[Stop]) -> list[float]:
    """From stop to stop, points."""
    return [labels.distance(one, other) for one, other in pairwise(_places(stops))]


def _marker_size(gaps: Sequence[float]) -> float:
    """Smaller where stops are close, so that an arrow between them is visible; points."""
    return min(LARGEST, max(SMALLEST, min(gaps, default=math.inf) - ARROW))


def _draw_path(axis: Axes, labels: Labels, path: Path) -> None:
    role, stops = path
    colour, places, size = style.colour(role), _places(stops), _marker_size(_gaps(labels, stops))
    axis.plot(*zip(*places, strict=True), color=colour, linewidth=1.0, zorder=4.4)
    for begin, end in pairwise(places):
        # Without room an arrow would be a blot.
        room = labels.distance(begin, end) - size
        if room < 0.6 * ARROW:
            continue
        shrink = {"shrinkA": size / 2, "shrinkB": size / 2 + 0.3}
        head = min(1.0, room / ARROW)
        looks: dict[str, Any] = {"color": colour, "linewidth": 1.0, "mutation_scale": 10 * head, **shrink}
        arrow = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", **looks}
        axis.annotate("", end, begin, arrowprops=arrow, zorder=4.5).set_in_layout(False)
    for stop in stops:
        markers.draw_marker(axis, stop.point, size)
        labels.keep_off(*markers.place(stop.point), size)


# -- insets -------------------------------------------------------------------------------------------


def _draw_inset(axis: Axes, labels: Labels, place: tuple[float, float], path: Path) -> Axes:
    """The path enlarged, with equal decades as in the plane; place: of its centre, pixels."""
    role, stops = path
    colour = style.colour(role)
    box, scale = axis.get_window_extent(), _scale(axis)
    width, height = INSET * scale / box.width, INSET * scale / box.height
    left, bottom = (place[0] - box.x0) / box.width - width / 2, (place[1] - box.y0) / box.height - height / 2
    inset = axis.inset_axes((left, bottom, width, height), zorder=5.5)
    inset.set(xscale="log", yscale="log", xticks=[], yticks=[])
    inset.minorticks_off()
    logs = np.log10(_places(stops))
    (x0, y0), (x1, y1) = logs.min(axis=0), logs.max(axis=0)
    decades = 1.7 * max(x1 - x0, y1 - y0)
    inset.set_xlim(10 ** ((x0 + x1 - decades) / 2), 10 ** ((x0 + x1 + decades) / 2))
    inset.set_ylim(10 ** ((y0 + y1 - decades) / 2), 10 ** ((y0 + y1 + decades) / 2))
    for spine in inset.spines.values():
        spine.set(color=colour, linewidth=0.6)

    own = Labels(inset)
    farthest = _places(stops)[int(np.hypot(*(logs - logs[0]).T).argmax())]
    ends = _places(stops)[0], farthest
    factor = own.distance(*ends) / labels.distance(*ends)
    looks: dict[str, Any] = {"fontsize": style.SMALL - 0.5, "color": colour, "parse_math": False}
    inset.set_title(f"{clean(role)}, {tick(float(f'{factor:.2g}'))}× larger", pad=2.0, **looks)
    _draw_path(inset, own, path)
    size = _marker_size(_gaps(own, stops))
    for number, stop in enumerate(stops):
        max_distance = math.inf if number in (0, len(stops) - 1) else 20.0
        own.at_point(*markers.place(stop.point), stop.at, colour, size, max_distance)
    labels.keep_out(inset)
    return inset


def _scale(axis: Axes) -> float:
    """Pixels per point."""
    return float(axis.get_figure(root=True).dpi) / 72  # type: ignore[union-attr]


def _place_for_inset(axis: Axes, insets: Sequence[Axes], paths: Sequence[Path]) -> tuple[float, float] | None:
    """The centre of the free place that hides the fewest ceilings, pixels."""
    box, scale = axis.get_window_extent(), _scale(axis)
    margin, side = 4 * scale, INSET * scale
    room = box.width - side - 2 * margin, box.height - side - (HEAD * scale) - 2 * margin
    if min(room) <= 0:
        return None
    across, up = np.meshgrid(np.linspace(0, room[0], 40), np.linspace(0, room[1], 30))
    x, y = box.x0 + margin + side / 2 + across.ravel(), box.y0 + margin + side / 2 + up.ravel()
    frames = Texts(x, y + HEAD * scale / 2, side + 2 * margin, side + HEAD * scale + 2 * margin, False)
    taken = [shapes.discs(axis.transData.transform(_places(stops)), 16 * scale) for _, stops in paths]
    for inset in insets:
        b, space = inset.get_window_extent(), margin + HEAD * scale
        taken.append(shapes.box(b.x0 - space, b.y0 - space, b.x1 + space, b.y1 + space))
    free = ~shapes.touching(frames.covered(), shapes.joined(taken)).any(axis=1)
    bars_and_paths = [line for line in axis.lines if line.get_zorder() >= 3]
    free &= ~shapes.crossed(frames, _pieces_of(bars_and_paths)).any(axis=1)
    if not free.any():
        return None
    ceilings = [line for line in axis.lines if 2 <= line.get_zorder() < 2.5]
    hidden = shapes.crossed(frames, _pieces_of(ceilings)).sum(axis=1)
    # Prefer the lower right, but not by much: ceilings have their names at the right.
    cost = np.where(free, 3.0 * hidden - across.ravel() / room[0] + 2 * up.ravel() / room[1], math.inf)
    best = int(cost.argmin())
    return float(x[best]), float(y[best])


def _pieces_of(lines: Sequence[Any]) -> Array:
    drawn = [straight_pieces(line) for line in lines if line.get_linestyle() not in ("None", "", " ")]
    return np.concatenate([np.empty((0, 2, 2)), *drawn])
