"""Places the texts of a plot: none covers another text, a marker, or a line that is not faint.

Places are computed whenever the figure is drawn, so they fit the size it is drawn in. Each label takes the
cheapest of its candidates: positions around a point or along a line, from best to worst. We search ourselves
because adjustText moves labels of points only, knows no labels along lines, and needs scipy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.transforms import IdentityTransform

from ..tables.names import clean
from . import shapes, style
from .label_candidates import FindCandidates, along_level_line, along_rising_line, around_point
from .shapes import Array, Texts

LONGEST = 40  # characters of a name
LONGEST_LABEL = 48

# Costs and distances in points.
CROSS_FAINT_LINE = 40.0  # a place this much further away is better than one across a faint line
CROSS_LINE = 1e4  # any place is better than one across another line
LEADER_FROM = 8.0  # from this distance on, a line leads from the marker to its label


class Label(NamedTuple):
    text: Text
    candidates: FindCandidates
    leader: Line2D | None
    anchor: tuple[float, float] | None  # the point it names, data coordinates
    radius: float  # of the marker there, points
    own_line: Line2D | None  # the line it names
    max_distance: float  # points; further away it is left out
    shorter: tuple[str, ...] = ()  # what it may say where there is no room, the longest first

    @property
    def may_be_left_out(self) -> bool:
        return self.max_distance < math.inf


class Obstacles(NamedTuple):
    """What texts keep off, in pixels: shapes (n, 4, 2) always, lines (m, 2, 2) if possible."""

    frame: tuple[float, float, float, float]  # of the axes: left, bottom, right, top
    shapes: Array
    markers: Array  # centres (k, 2); their shapes are the first k of `shapes`
    lines: Array
    line_costs: Array
    scale: float  # pixels per point


class Placed(NamedTuple):
    x: float
    y: float
    distance: float  # points
    shape: Array


class Labels(Artist):
    """The labels of some axes. It is drawn before them and then places each."""

    def __init__(self, axis: Axes) -> None:
        super().__init__()
        self.set_zorder(2.5)
        self.set_in_layout(False)
        self._labels: list[Label] = []
        self._markers: list[tuple[float, float]] = []
        self._radii: list[float] = []
        self._faint: list[Line2D] = []
        self._insets: list[Axes] = []
        self._hidden: list[Label] = []
        axis.add_artist(self)

    def keep_off(self, x: float, y: float, size: float = style.MARKER) -> None:
        """Let no text cover the marker of this size (points) at this point (data coordinates)."""
        self._markers.append((x, y))
        self._radii.append(size / 2 + 0.5)

    def may_cross(self, line: Line2D) -> None:
        """Let texts cross this faint line."""
        self._faint.append(line)

    def keep_out(self, inset: Axes) -> None:
        """Let no text cover these axes within the axes."""
        self._insets.append(inset)

    def distance(self, one: tuple[float, float], other: tuple[float, float]) -> float:
        """Between two points (data coordinates), in points of length."""
        axis = self._axis()
        (x0, y0), (x1, y1) = axis.transData.transform([one, other])
        return float(math.hypot(x1 - x0, y1 - y0)) * 72 / axis.get_figure(root=True).dpi  # type: ignore[union-attr]

    def at_point(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = style.INK,
        size: float = style.MARKER,
        max_distance: float = math.inf,
    ) -> None:
        """Write next to the marker of this size (points; 0: no marker). A line leads there from far away."""
        leader = Line2D([], [], color=colour, linewidth=0.5, alpha=0.7, zorder=2.6)
        leader.set_in_layout(False)
        self._axis().add_line(leader)
        leader.set_transform(IdentityTransform())
        radius = size / 2
        label = Label(
            self._text(text, colour, 0.0, LONGEST_LABEL),
            around_point(x, y, radius),
            leader,
            (x, y),
            radius,
            None,
            max_distance,
        )
        self._labels.append(label)

    def at_line(
        self,
        line: Line2D,
        text: str,
        colour: str,
        rising: bool,
        longest: int = LONGEST_LABEL,
        shorter: tuple[str, ...] = (),
    ) -> None:
        """Write along a line of two points, level or rising by 45 degrees. shorter: what may be there
        instead where there is no room for all of it."""
        candidates = along_rising_line(line) if rising else along_level_line(line)
        made = self._text(text, colour, 45.0 if rising else 0.0, longest)
        self._labels.append(Label(made, candidates, None, None, 0.0, line, math.inf, shorter))

    def abbreviate(self, renderer: Any, signs: Iterator[str]) -> tuple[list[str], list[str]]:
        """Replace texts that have no place without crossing a line by shorter ones, at last by signs.

        Returns the key of the signs ("a FP32 peak"; what is only shorter is its own key), and the texts for
        which even a sign has no place. The latter are hidden from now on: show them elsewhere.
        """
        whole = {label.text: label.text.get_text() for label in self._labels}
        without_place = self._without_place(renderer)
        for at in range(max((len(label.shorter) for label in without_place), default=0)):
            for label in without_place:
                if at < len(label.shorter):
                    label.text.set_text(label.shorter[at])
            without_place = self._without_place(renderer)
        signed = {label.text: next(signs) for label in without_place}
        for text, sign in signed.items():
            text.set_text(sign)
        self._hidden = self._without_place(renderer) if signed else []

        hidden = [label.text for label in self._hidden]
        changed = [text for text, full in whole.items() if text.get_text() != full]
        key = [
            f"{signed[text]} {whole[text]}" if text in signed else whole[text]
            for text in changed
            if text not in hidden
        ]
        return key, [whole[text] for text in changed if text in hidden]

    def _without_place(self, renderer: Any) -> list[Label]:
        """Those labels for which there must be one."""
        return [one for one in self._place(renderer, cross_lines=False) if not one.may_be_left_out]

    def draw(self, renderer: Any) -> None:
        if self.get_visible():
            self._place(renderer, cross_lines=True)

    def _place(self, renderer: Any, cross_lines: bool) -> list[Label]:
        """Give each label its place; returns those that have none."""
        obstacles = self._obstacles(renderer)
        without_place = []
        for label in self._labels:
            placed = None
            if label not in self._hidden:
                may_cross = cross_lines and not label.may_be_left_out
                placed = best_place(self._axis(), label, obstacles, may_cross)
            _show(self._axis(), label, placed)
            if placed is None:
                without_place.append(label)
                continue
            # Later labels keep off this one and do not cross its leader.
            taken = np.concatenate([obstacles.shapes, placed.shape])
            obstacles = obstacles._replace(shapes=taken)
            leader = np.asarray(label.leader.get_xydata() if label.leader is not None else [])
            if len(leader):
                lines = np.concatenate([obstacles.lines, leader[None]])
                costs = np.append(obstacles.line_costs, CROSS_LINE)
                obstacles = obstacles._replace(lines=lines, line_costs=costs)
        return without_place

    def _obstacles(self, renderer: Any) -> Obstacles:
        axis = self._axis()
        scale = axis.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
        markers = axis.transData.transform(self._markers) if self._markers else np.empty((0, 2))
        found = [shapes.discs(markers[i : i + 1], radius * scale) for i, radius in enumerate(self._radii)]
        margin = 2 * scale
        for thing in (axis.get_legend(), *self._insets):
            box = thing.get_tightbbox(renderer) if thing is not None else None
            if box is not None:
                found.append(shapes.box(box.x0 - margin, box.y0 - margin, box.x1 + margin, box.y1 + margin))

        leaders = {label.leader for label in self._labels}
        lines, costs = [np.empty((0, 2, 2))], [np.empty(0)]
        for line in axis.lines:
            if line.get_linestyle() not in ("None", "", " ") and line not in leaders:
                lines.append(straight_pieces(line))
                costs.append(np.full(len(lines[-1]), CROSS_FAINT_LINE if line in self._faint else CROSS_LINE))

        frame = axis.get_window_extent()
        return Obstacles(
            (frame.x0, frame.y0, frame.x1, frame.y1),
            shapes.joined(found),
            markers,
            np.concatenate(lines),
            np.concatenate(costs),
            scale,
        )

    def _axis(self) -> Axes:
        axis = self.axes
        assert isinstance(axis, Axes)
        return axis

    def _text(self, text: str, colour: str, angle: float, longest: int) -> Text:
        made = Text(
            0,
            0,
            shortened(clean(text), longest),
            fontsize=style.SMALL,
            color=colour,
            ha="center",
            va="center",
            rotation=angle,
            rotation_mode="anchor",
            parse_math=False,
            zorder=6,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.4},
        )
        made.set_in_layout(False)
        self._axis().add_artist(made)
        made.set_transform(IdentityTransform())
        return made


def shortened(text: str, longest: int = LONGEST) -> str:
    """A long name without its middle: names differ mostly at their ends."""
    if len(text) <= longest:
        return text
    front = (longest - 1) * 2 // 3
    return f"{text[:front]}…{text[front + 1 - longest :]}"


# -- choice -----------------------------------------------------------------------------------------


def best_place(axis: Axes, label: Label, obstacles: Obstacles, may_cross: bool) -> Placed | None:
    """The cheapest candidate that covers nothing; None if there is none without crossing a line."""
    # Not as a renderer measures texts, so that every resolution gives the same places.
    width, height, _ = text_to_path.get_text_width_height_descent(
        label.text.get_text(), label.text.get_fontproperties(), ismath=False
    )
    width = (1.02 * float(width) + 2.5) * obstacles.scale
    height = (max(float(height), style.SMALL) + 1.4) * obstacles.scale
    candidates = label.candidates(axis, width, height, obstacles.scale)
    texts = Texts(candidates.x, candidates.y, width, height, bool(label.text.get_rotation()))

    crossed = shapes.crossed(texts, obstacles.lines)
    if label.own_line is not None:
        own = straight_pieces(label.own_line)
        crossed &= ~(obstacles.lines[:, None] == own[None]).all(axis=(2, 3)).any(axis=1)
    cost = candidates.distance + crossed @ obstacles.line_costs

    covered = texts.covered()
    left, bottom, right, top = obstacles.frame
    free = (covered[:, 0, 0] >= left) & (covered[:, 0, 1] <= right)
    free &= (covered[:, 1, 0] >= bottom) & (covered[:, 1, 1] <= top)
    free &= ~shapes.touching(covered, obstacles.shapes).any(axis=1)
    free &= candidates.distance <= label.max_distance
    if label.anchor:
        anchor = axis.transData.transform(label.anchor)
        free &= ~_leader_hits(anchor, label, texts, candidates.distance, obstacles)

    cost = np.where(free, cost, math.inf)
    best = int(cost.argmin())
    if not cost[best] < (math.inf if may_cross else CROSS_LINE):
        return None
    place = float(candidates.x[best]), float(candidates.y[best])
    return Placed(*place, float(candidates.distance[best]), covered[best : best + 1])


def _leader_hits(anchor: Array, label: Label, texts: Texts, distance: Array, obstacles: Obstacles) -> Any:
    """(n,): whether the line from the marker to each candidate would cross another shape."""
    nearest_x = np.clip(anchor[0], texts.x - texts.width / 2, texts.x + texts.width / 2)
    nearest_y = np.clip(anchor[1], texts.y - texts.height / 2, texts.y + texts.height / 2)
    ends = np.stack([nearest_x, nearest_y], axis=1)
    # It begins next to its own marker, and may cross markers that touch this one.
    length = np.maximum(np.hypot(*(ends - anchor).T), 1e-9)
    skipped = np.minimum(1.0, (label.radius + 1) * obstacles.scale / length)
    begins = anchor + (ends - anchor) * skipped[:, None]
    touching = np.hypot(*(obstacles.markers - anchor).T) < (2 * label.radius + 1) * obstacles.scale
    others = obstacles.shapes[~np.pad(touching, (0, len(obstacles.shapes) - len(touching)))]
    hits = shapes.touching(shapes.segments(begins, ends), others).any(axis=1)
    return hits & (distance > LEADER_FROM)


def _show(axis: Axes, label: Label, placed: Placed | None) -> None:
    label.text.set_visible(placed is not None)
    leader_ends = np.empty((0, 2))
    if placed is not None:
        label.text.set_position((placed.x, placed.y))
        if label.anchor is not None and placed.distance > LEADER_FROM:
            anchor = axis.transData.transform(label.anchor)
            (left, right), (bottom, top) = placed.shape[0, 0], placed.shape[0, 1]
            leader_ends = np.stack([anchor, np.clip(anchor, (left, bottom), (right, top))])
    if label.leader is not None:
        label.leader.set_data(leader_ends[:, 0], leader_ends[:, 1])


def straight_pieces(line: Line2D) -> Array:
    """(n, 2, 2): the straight pieces of a line by their ends, pixels."""
    ends = np.asarray(line.get_transform().transform(line.get_xydata()), float).reshape(-1, 2)
    found = np.stack([ends[:-1], ends[1:]], axis=1) if len(ends) > 1 else np.empty((0, 2, 2))
    return found[np.isfinite(found).all(axis=(1, 2))]
