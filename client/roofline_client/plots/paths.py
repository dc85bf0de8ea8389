"""The paths of a trajectory: stops joined in their order, and a path too short to be followed drawn larger in
a free corner of the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from roofline.answers.trajectory import Stop

from ..tables.names import clean
from . import marks, shapes, style
from .label_placement import Labels, straight_pieces
from .shapes import Array, Texts

Path = tuple[str, list[Stop]]  # role, and its stops that can be drawn
LARGEST, SMALLEST = 0.75 * style.MARKER, 3.4  # of a marker, points
ARROW = 6.0  # points an arrow needs between two markers
SHORT = 34.0  # points: a path no longer has its stops told apart in a window only
WINDOW, HEAD = 72.0, 11.0  # width of the window and height of its title, points
MOST_WINDOWS = 2


def draw(axis: Axes, labels: Labels, paths: Sequence[Path]) -> bool:
    """All paths; whether some are drawn larger in a window."""
    short = [path for path in paths if _is_short(labels, path[1])]
    windows: list[Axes] = []
    for path in paths:
        _draw_main(axis, labels, path)
    for path in short[:MOST_WINDOWS]:
        place = _free(axis, windows, paths)
        if place is not None:
            windows.append(_window(axis, labels, place, path))
    enlarged = short[: len(windows)]
    for path in paths:
        _name(axis, labels, path, path in enlarged)
    return bool(windows)


def _places(stops: Sequence[Stop]) -> list[tuple[float, float]]:
    return [marks.place(stop.point) for stop in stops]


def _gaps(labels: Labels, stops: Sequence[Stop]) -> list[float]:
    """Points from stop to stop."""
    return [labels.distance(one, other) for one, other in pairwise(_places(stops))]


def _is_short(labels: Labels, stops: Sequence[Stop]) -> bool:
    gaps = _gaps(labels, stops)
    if not gaps or max(gaps) < 1e-3 or min(gaps) >= SMALLEST + ARROW:
        return False
    return max(labels.distance(_places(stops)[0], place) for place in _places(stops)) < SHORT


def _size(gaps: Sequence[float]) -> float:
    """Of the markers of a path: small where stops are close, so that an arrow is seen between them."""
    return min(LARGEST, max(SMALLEST, min(gaps, default=math.inf) - ARROW))


def _draw_main(axis: Axes, labels: Labels, path: Path) -> None:
    stops, size = path[1], _size(_gaps(labels, path[1]))
    _draw_stops(axis, labels, path, size)
    for place in _places(stops):
        labels.keep_off(*place, size)


def _draw_stops(axis: Axes, labels: Labels, path: Path, size: float) -> None:
    role, stops = path
    colour, places = style.colour(role), _places(stops)
    axis.plot(*zip(*places, strict=True), color=colour, linewidth=1.0, zorder=4.4)
    for begin, end in pairwise(places):
        # Without room for it an arrow would be a blot.
        room = labels.distance(begin, end) - size
        if room < 0.6 * ARROW:
            continue
        shrink = {"shrinkA": size / 2, "shrinkB": size / 2 + 0.3}
        head = min(1.0, room / ARROW)
        looks: dict[str, Any] = {"color": colour, "linewidth": 1.0, "mutation_scale": 10 * head, **shrink}
        arrow = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", **looks}
        axis.annotate("", end, begin, arrowprops=arrow, zorder=4.5).set_in_layout(False)
    for stop in stops:
        marks.mark(axis, stop.point, size)


def _name(axis: Axes, labels: Labels, path: Path, enlarged: bool) -> None:
    role, stops = path
    colour, size = style.colour(role), _size(_gaps(labels, stops))
    if enlarged:
        told = f"{role} {stops[0].at} … {stops[-1].at}"
        labels.at_point(*marks.place(stops[len(stops) // 2].point), told, colour, size)
        return
    for at, stop in enumerate(stops):
        # The role is said once, where the path begins; stops between its ends only where there is room.
        ends = at in (0, len(stops) - 1)
        told = f"{role} {stop.at}" if at == 0 else stop.at
        labels.at_point(*marks.place(stop.point), told, colour, size, math.inf if ends else 7.0)


# -- windows ------------------------------------------------------------------------------------------


def _window(axis: Axes, labels: Labels, place: tuple[float, float], path: Path) -> Axes:
    """A path drawn larger, in equal decades as the plane; place: of its middle, pixels."""
    role, stops = path
    box, scale = axis.get_window_extent(), _scale(axis)
    width, height = WINDOW * scale / box.width, WINDOW * scale / box.height
    left, bottom = (place[0] - box.x0) / box.width - width / 2, (place[1] - box.y0) / box.height - height / 2
    window = axis.inset_axes((left, bottom, width, height), zorder=5.5)
    window.set(xscale="log", yscale="log", xticks=[], yticks=[])
    window.minorticks_off()
    (x0, x1), (y0, y1), wide = _extent(stops)
    window.set_xlim(10 ** ((x0 + x1 - wide) / 2), 10 ** ((x0 + x1 + wide) / 2))
    window.set_ylim(10 ** ((y0 + y1 - wide) / 2), 10 ** ((y0 + y1 + wide) / 2))
    for spine in window.spines.values():
        spine.set(color=style.colour(role), linewidth=0.6)
    own = Labels(window)
    larger = own.distance(*_ends(stops)) / labels.distance(*_ends(stops))
    told = {"fontsize": style.SMALL - 0.5, "color": style.colour(role), "parse_math": False}
    window.set_title(f"{clean(role)}, {larger:.2g}× larger", pad=2.0, **told)  # type: ignore[arg-type]
    _draw_main(window, own, path)
    for at, stop in enumerate(stops):
        ends = at in (0, len(stops) - 1)
        size = _size(_gaps(own, stops))
        own.at_point(*marks.place(stop.point), stop.at, style.colour(role), size, math.inf if ends else 20.0)
    labels.keep_out(window)
    return window


def _extent(stops: Sequence[Stop]) -> tuple[tuple[float, float], tuple[float, float], float]:
    """From where to where stops lie across and up, and how wide a window on them is; decades."""
    across, up = np.log10(_places(stops)).T
    wide = 1.7 * max(np.ptp(across), np.ptp(up))
    return (across.min(), across.max()), (up.min(), up.max()), float(wide)


def _ends(stops: Sequence[Stop]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The two stops furthest from the first and from each other, near enough."""
    places = _places(stops)
    logs = np.log10(places)
    return places[0], places[int(np.hypot(*(logs - logs[0]).T).argmax())]


def _scale(axis: Axes) -> float:
    """Pixels a point."""
    return float(axis.get_figure(root=True).dpi) / 72  # type: ignore[union-attr]


def _free(axis: Axes, windows: Sequence[Axes], paths: Sequence[Path]) -> tuple[float, float] | None:
    """The middle of the free place for a window that hides the least of the ceilings, pixels."""
    box, scale = axis.get_window_extent(), _scale(axis)
    margin, side = 4 * scale, WINDOW * scale
    room = box.width - side - 2 * margin, box.height - side - (HEAD * scale) - 2 * margin
    if min(room) <= 0:
        return None
    across, up = np.meshgrid(np.linspace(0, room[0], 40), np.linspace(0, room[1], 30))
    x, y = box.x0 + margin + side / 2 + across.ravel(), box.y0 + margin + side / 2 + up.ravel()
    frames = Texts(x, y + HEAD * scale / 2, side + 2 * margin, side + HEAD * scale + 2 * margin, False)
    taken = [shapes.discs(axis.transData.transform(_places(stops)), 16 * scale) for _, stops in paths]
    taken += [_frame(window, margin + HEAD * scale) for window in windows]
    free = ~shapes.touching(frames.covered(), shapes.joined(taken)).any(axis=1)
    above = [line for line in axis.lines if line.get_zorder() >= 3]  # bars and paths, not ceilings
    free &= ~shapes.crossed(frames, _pieces_of(above)).any(axis=1)
    if not free.any():
        return None
    hidden = shapes.crossed(frames, _pieces_of([x for x in axis.lines if 2 <= x.get_zorder() < 2.5])).sum(
        axis=1
    )
    # Ceilings have their names at the right; of equal places the lower right one.
    cost = np.where(free, 3.0 * hidden - across.ravel() / room[0] + 2 * up.ravel() / room[1], math.inf)
    best = int(cost.argmin())
    return float(x[best]), float(y[best])


def _frame(window: Axes, margin: float) -> Array:
    box = window.get_window_extent()
    return shapes.box(box.x0 - margin, box.y0 - margin, box.x1 + margin, box.y1 + margin)


def _pieces_of(lines: Sequence[Any]) -> Array:
    drawn = [straight_pieces(line) for line in lines if line.get_linestyle() not in ("None", "", " ")]
    return np.concatenate([np.empty((0, 2, 2)), *drawn])
