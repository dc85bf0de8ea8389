"""Texts that stand where nothing else stands: each takes the first of its places that is free.

Places are found whenever the picture is drawn, so that they fit the size it is drawn in. The search is ours:
adjustText moves labels of points only, knows no labels along lines, and brings scipy along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox, IdentityTransform

from ..names import clean
from . import style
from .places import BELOW, BOTH, Place, Places, along_level, along_rising, round_a_point

Box = tuple[float, float, float, float]  # left, bottom, right, top; pixels
LONGEST = 40  # letters of a name
LONGEST_LABEL = 48
CROSSING = 40.0  # points further is better than across a line
LEADER = 11.0  # points from which on a line leads from the label to what it names


class Label(NamedTuple):
    text: Text
    places: Places
    leader: Line2D | None
    anchor: tuple[float, float] | None  # data
    own: Line2D | None  # the line it stands at
    farthest: float  # points; further off it is better left out


class Labels(Artist):
    """The labels of some axes. Drawn before them, it gives each its place; who has none is not shown."""

    def __init__(self, axis: Axes) -> None:
        super().__init__()
        self.set_zorder(2.5)
        self.set_in_layout(False)
        self._labels: list[Label] = []
        self._marks: list[tuple[float, float]] = []
        axis.add_artist(self)

    def keep_off(self, x: float, y: float) -> None:
        """There is a marker here (data) that no text may cover."""
        self._marks.append((x, y))

    def at_point(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = style.INK,
        mark: bool = True,
        farthest: float = math.inf,
    ) -> None:
        """A text beside a marker (or beside nothing); a line leads to it when it stands off."""
        leader = Line2D([], [], color=style.FAINT, linewidth=0.6, zorder=2.6, transform=IdentityTransform())
        leader.set_in_layout(False)
        self._axis().add_line(leader)
        places: Places = round_a_point(x, y, style.MARKER / 2 if mark else 0.0)
        self._labels.append(Label(self._text(text, colour, 0.0), places, leader, (x, y), None, farthest))

    def at_line(self, line: Line2D, text: str, colour: str, rising: bool, below: bool = False) -> None:
        """A text along a line of two points, level or rising by 45 degrees; below: never above it."""
        angle = 45.0 if rising else 0.0
        sides = BELOW if below else BOTH
        places: Places = along_rising(line, sides) if rising else along_level(line, sides)
        self._labels.append(Label(self._text(text, colour, angle), places, None, None, line, math.inf))

    def draw(self, renderer: Any) -> None:
        if not self.get_visible():
            return
        axis = self._axis()
        scale = axis.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
        taken = [*self._markers(axis, scale), *_legend(axis, renderer)]
        lines = [line for line in axis.lines if line.get_linestyle() not in ("None", "", " ")]
        for label in self._labels:
            others = [piece for line in lines if line is not label.own for piece in _pieces(line)]
            taken += _settle(axis, renderer, label, taken, others, scale)

    def _axis(self) -> Axes:
        axis = self.axes
        assert isinstance(axis, Axes)
        return axis

    def _text(self, text: str, colour: str, angle: float) -> Text:
        made = Text(
            0,
            0,
            shortened(clean(text), LONGEST_LABEL),
            fontsize=style.SMALL,
            color=colour,
            ha="center",
            va="center",
            rotation=angle,
            rotation_mode="anchor",
            parse_math=False,
            zorder=6,
            transform=IdentityTransform(),
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4},
        )
        made.set_in_layout(False)
        self._axis().add_artist(made)
        made.set_transform(IdentityTransform())
        return made

    def _markers(self, axis: Axes, scale: float) -> list[Box]:
        half = (style.MARKER / 2 + 0.5) * scale
        if not self._marks:
            return []
        return [(x - half, y - half, x + half, y + half) for x, y in axis.transData.transform(self._marks)]


def shortened(text: str, longest: int = LONGEST) -> str:
    """A long name without its middle: both its ends tell things apart."""
    if len(text) <= longest:
        return text
    front = (longest - 1) * 2 // 3
    return f"{text[:front]}…{text[front + 1 - longest :]}"


def _settle(
    axis: Axes, renderer: Any, label: Label, taken: Sequence[Box], lines: Sequence[Box], scale: float
) -> list[Box]:
    """Give a label its place; the boxes it takes then."""
    width, height = _size(label.text, renderer, scale)
    angle = math.radians(label.text.get_rotation())
    place = _best(axis, label, width, height, angle, taken, lines, scale)
    label.text.set_visible(place is not None)
    if label.leader:
        label.leader.set_visible(place is not None and place.far > LEADER)
    if place is None:
        return []
    label.text.set_position((place.x, place.y))
    if label.leader and label.anchor:
        x, y = axis.transData.transform(label.anchor)
        near_x = min(max(x, place.x - width / 2), place.x + width / 2)
        near_y = min(max(y, place.y - height / 2), place.y + height / 2)
        label.leader.set_data([x, near_x], [y, near_y])
    return _footprint(place, width, height, angle)


def _size(text: Text, renderer: Any, scale: float) -> tuple[float, float]:
    """Width and height of a text as if it were level, with a margin; pixels."""
    width, height, _ = renderer.get_text_width_height_descent(
        text.get_text(), text.get_fontproperties(), ismath=False
    )
    return float(width) + 3 * scale, max(float(height), style.SMALL * scale) + 2.5 * scale


def _best(
    axis: Axes,
    label: Label,
    width: float,
    height: float,
    angle: float,
    taken: Sequence[Box],
    lines: Sequence[Box],
    scale: float,
) -> Place | None:
    inside = axis.get_window_extent()

    def is_free(box: Box) -> bool:
        return _is_inside(box, inside) and not any(_touch(box, other) for other in taken)

    best: tuple[float, Place] | None = None
    for place in sorted(label.places(axis, width, height, scale), key=lambda p: p.far):
        if place.far > label.farthest or (best and place.far >= best[0]):
            break
        boxes = _footprint(place, width, height, angle)
        if not all(map(is_free, boxes)):
            continue
        cost = place.far + CROSSING * _crossings(boxes, lines)
        if best is None or cost < best[0]:
            best = cost, place
    # A label that may be left out is not worth a crossing either.
    return best[1] if best and (best[0] < CROSSING or label.farthest == math.inf) else None


def _is_inside(box: Box, frame: Bbox) -> bool:
    return bool(frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1)


def _pieces(line: Line2D) -> list[Box]:
    """The straight pieces of a line by their ends, pixels."""
    ends = [(float(x), float(y)) for x, y in line.get_transform().transform(line.get_xydata())]
    return [(*begin, *end) for begin, end in pairwise(ends) if not any(map(math.isnan, (*begin, *end)))]


def _crossings(boxes: Sequence[Box], lines: Sequence[Box]) -> int:
    """How many pieces of lines go through a text; one that goes through all of it counts once."""
    return sum(any(_cuts(line, box) for box in boxes) for line in lines)


def _cuts(line: Box, box: Box) -> bool:
    """Whether a piece of a line goes through a box: its corners are not all on one side of it."""
    x0, y0, x1, y1 = line
    left, bottom, right, top = box
    if max(x0, x1) < left or min(x0, x1) > right or max(y0, y1) < bottom or min(y0, y1) > top:
        return False
    across, up = x1 - x0, y1 - y0
    sides = [across * (y - y0) - up * (x - x0) for x in (left, right) for y in (bottom, top)]
    return min(sides) <= 0 <= max(sides)


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _footprint(place: Place, width: float, height: float, angle: float) -> list[Box]:
    """What a text covers: one box, or of a slanting one a row of squares that hold it."""
    if not angle:
        across, up = width / 2, height / 2
        return [(place.x - across, place.y - up, place.x + across, place.y + up)]
    # A square of side 1.5 h about a point of the slanting middle line holds all of the text nearby.
    half = 0.75 * height
    count = max(2, math.ceil(width / (0.7 * height)))
    offsets = [(k / (count - 1) - 0.5) * max(0.0, width - height) for k in range(count)]
    middles = [(place.x + o * math.cos(angle), place.y + o * math.sin(angle)) for o in offsets]
    return [(x - half, y - half, x + half, y + half) for x, y in middles]


def _legend(axis: Axes, renderer: Any) -> list[Box]:
    legend = axis.get_legend()
    if legend is None:
        return []
    box = legend.get_window_extent(renderer)
    return [(box.x0, box.y0, box.x1, box.y1)]
