"""What is written where in a picture: the corners of every text that is seen, and whether two overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

SLACK = 1.0  # pixels two texts may share: the edges of letters


class Written(NamedTuple):
    text: str
    corners: list[tuple[float, float]]  # pixels, in order around it


def written(figure: Figure) -> list[Written]:
    """Every text that is seen in the figure, as laid out."""
    figure.draw_without_rendering()
    ticks = {id(t) for axis in figure.axes for t in _tick_texts(axis, seen=False)}
    shown = {id(t) for axis in figure.axes for t in _tick_texts(axis, seen=True)}
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
