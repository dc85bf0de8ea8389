"""The law of texts in a picture: none lies on another, leaves the figure, or is crossed by line or marker.

Everything is measured in the drawn picture, by other means than those that put the texts there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

SLACK = 1.0  # pixels two texts may share: the edges of letters


class Written(NamedTuple):
    text: str
    corners: list[tuple[float, float]]  # pixels, in order around it


def written(figure: Figure) -> list[Written]:
    """Every text that is seen in the figure, as laid out."""
    figure.draw_without_rendering()
    ticks = {id(t) for axis in planes(figure) for t in _tick_texts(axis, seen=False)}
    shown = {id(t) for axis in planes(figure) for t in _tick_texts(axis, seen=True)}
    texts = [
        t for t in figure.findobj(Text) if isinstance(t, Text) and t.get_visible() and t.get_text().strip()
    ]
    return [Written(t.get_text(), corners(figure, t)) for t in texts if id(t) not in ticks or id(t) in shown]


def _tick_texts(axis: Axes, seen: bool) -> Iterator[Text]:
    for side in (axis.xaxis, axis.yaxis):
        ticks = side._update_ticks() if seen else [*side.majorTicks, *side.minorTicks]  # type: ignore[attr-defined]
        for tick in ticks:
            yield from (tick.label1, tick.label2)


def corners(figure: Figure, text: Text) -> list[tuple[float, float]]:
    """The corners of the box around the letters, turned as the text is."""
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    angle = text.get_rotation()
    if angle % 90 == 0:
        box = text.get_window_extent(renderer)
        return [(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)]
    x, y = text.get_transform().transform(text.get_position())
    width, height, _ = renderer.get_text_width_height_descent(
        text.get_text(), text.get_fontproperties(), False
    )
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    around = (
        (-width / 2, -height / 2),
        (width / 2, -height / 2),
        (width / 2, height / 2),
        (-width / 2, height / 2),
    )
    return [(x + a * cosine - b * sine, y + a * sine + b * cosine) for a, b in around]


def overlapping(texts: Sequence[Written]) -> list[tuple[str, str]]:
    return [(a.text, b.text) for a, b in combinations(texts, 2) if _overlap(a.corners, b.corners)]


def _overlap(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """Two convex shapes are apart exactly when a line along an edge of one separates them."""
    for shape in (one, other):
        for (x0, y0), (x1, y1) in zip(shape, [*shape[1:], shape[0]], strict=True):
            length = math.hypot(x1 - x0, y1 - y0) or 1.0
            across, up = (y1 - y0) / length, (x0 - x1) / length
            first = [x * across + y * up for x, y in one]
            second = [x * across + y * up for x, y in other]
            if min(max(first), max(second)) - max(min(first), min(second)) < SLACK:
                return False
    return True


def outside(figure: Figure, texts: Sequence[Written]) -> list[str]:
    """Texts that are cut off at an edge of the picture."""
    box = figure.bbox
    return [
        t.text
        for t in texts
        for x, y in t.corners
        if not (box.x0 - SLACK <= x <= box.x1 + SLACK and box.y0 - SLACK <= y <= box.y1 + SLACK)
    ]


def faults(figure: Figure) -> list[str]:
    """What breaks the law; of a figure as it is written and as it is shown."""
    found = []
    for dpi in (figure.dpi, 200):
        figure.set_dpi(dpi)
        texts = written(figure)
        found += [f"{one!r} lies on {other!r}" for one, other in overlapping(texts)]
        found += [f"{text!r} is cut off" for text in outside(figure, texts)]
        found += [fault for axis in planes(figure) for fault in crossed(figure, axis)]
    return found


def planes(figure: Figure) -> list[Axes]:
    """All axes, those within axes too."""
    return [axis for outer in figure.axes for axis in (outer, *outer.child_axes)]


def crossed(figure: Figure, axis: Axes) -> list[str]:
    """Labels in the axes with a line through them, or a marker on them; what lies faintly behind is none."""
    labels = [t for t in axis.texts if t.get_visible() and t.get_text().strip()]
    shapes = [(text.get_text(), corners(figure, text)) for text in labels]
    found = []
    for line in axis.lines:
        if line.get_visible() and line.get_zorder() >= 2:
            ends = [(float(x), float(y)) for x, y in line.get_transform().transform(line.get_xydata())]
            for text, shape in shapes:
                found += [f"{text!r} is crossed by {what}" for what in _hits(figure, shape, line, ends)]
    return found


def _hits(
    figure: Figure, shape: list[tuple[float, float]], line: Line2D, ends: list[tuple[float, float]]
) -> Iterator[str]:
    drawn = line.get_linestyle() not in ("None", "", " ")
    if drawn and any(_passes(begin, end, shape) for begin, end in pairwise(ends)):
        yield f"a line of {line.get_color()}"
    if line.get_marker() not in ("None", "", None):
        radius = line.get_markersize() / 2 * figure.dpi / 72 - SLACK
        if any(_distance(place, shape) < radius for place in ends):
            yield "a marker"


def _local(place: tuple[float, float], shape: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    """A place seen from the middle of a box, along its sides; and half its width and height."""
    (x0, y0), (x1, y1), (x2, y2), _ = shape
    width, height = math.hypot(x1 - x0, y1 - y0), math.hypot(x2 - x1, y2 - y1)
    across, up = (x1 - x0) / width, (y1 - y0) / width
    x, y = place[0] - (x0 + x2) / 2, place[1] - (y0 + y2) / 2
    return x * across + y * up, y * across - x * up, width / 2, height / 2


def _distance(place: tuple[float, float], shape: list[tuple[float, float]]) -> float:
    x, y, wide, high = _local(place, shape)
    return math.hypot(max(0.0, abs(x) - wide), max(0.0, abs(y) - high))


def _passes(begin: tuple[float, float], end: tuple[float, float], shape: list[tuple[float, float]]) -> bool:
    """Whether a piece of a line enters a box by more than SLACK: what of it lies between the box's sides."""
    x0, y0, wide, high = _local(begin, shape)
    x1, y1, _, _ = _local(end, shape)
    first, last = 0.0, 1.0
    for at, step, half in ((x0, x1 - x0, wide - SLACK), (y0, y1 - y0, high - SLACK)):
        if abs(step) < 1e-9:
            if abs(at) >= half:
                return False
            continue
        enters, leaves = sorted(((-half - at) / step, (half - at) / step))
        first, last = max(first, enters), min(last, leaves)
    return first < last
