"""Where a label finds its place: the best that is free of what stands there already."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from . import shapes, style
from .places import Places
from .shapes import Array, Texts

FAINTLY = 40.0  # points further is better than across a faint line
ACROSS = 1e4  # and anything is better than across another
LEADER = 8.0  # points from which on a line leads from the label to what it names


class Label(NamedTuple):
    text: Text
    places: Places
    leader: Line2D | None
    anchor: tuple[float, float] | None  # data
    radius: float  # of the marker there, points
    own: Line2D | None  # the line it stands at
    farthest: float  # points; further off it is better left out


class Surroundings(NamedTuple):
    """What a text keeps off, pixels: shapes (n, 4, 2) always, lines (m, 2, 2) if it can."""

    inside: tuple[float, float, float, float]  # of the axes: left, bottom, right, top
    taken: Array
    markers: Array  # middles (k, 2); their shapes are the first k of `taken`
    lines: Array
    costs: Array  # of crossing each line
    scale: float  # pixels a point


class Settled(NamedTuple):
    x: float
    y: float
    far: float  # points
    shape: Array


def best(axis: Axes, label: Label, around: Surroundings, may_cross: bool) -> Settled | None:
    width, height = _size(label.text, around.scale)
    spots = label.places(axis, width, height, around.scale)
    texts = Texts(spots.x, spots.y, width, height, bool(label.text.get_rotation()))
    cost = spots.far + _crossings(label, texts, around)
    covered = texts.covered()
    left, bottom, right, top = around.inside
    free = (covered[:, 0, 0] >= left) & (covered[:, 0, 1] <= right)
    free &= (covered[:, 1, 0] >= bottom) & (covered[:, 1, 1] <= top)
    free &= ~shapes.touching(covered, around.taken).any(axis=1) & (spots.far <= label.farthest)
    if label.anchor:
        anchor = axis.transData.transform(label.anchor)
        free &= ~_leader_hits(anchor, label, texts, spots.far, around)
    cost = np.where(free, cost, math.inf)
    best = int(cost.argmin())
    if not cost[best] < (math.inf if may_cross else ACROSS):
        return None
    return Settled(
        float(spots.x[best]), float(spots.y[best]), float(spots.far[best]), covered[best : best + 1]
    )


def _crossings(label: Label, texts: Texts, around: Surroundings) -> Array:
    """(n,): what each place costs for the lines that go through the text there."""
    crossed = shapes.crossed(texts, around.lines)
    if label.own is not None:
        ours = pieces(label.own)
        crossed &= ~(around.lines[:, None] == ours[None]).all(axis=(2, 3)).any(axis=1)
    return np.asarray(crossed @ around.costs)


def _leader_hits(anchor: Array, label: Label, texts: Texts, far: Array, around: Surroundings) -> Any:
    """(n,): whether the line from a place to what it names would go across something that stands there."""
    ends = _nearest(texts, anchor)
    apart = np.hypot(*(ends - anchor).T)
    # It begins beside its own marker, and may cross markers that touch this.
    begin = (
        anchor
        + (ends - anchor)
        * np.minimum(1.0, (label.radius + 1) * around.scale / np.maximum(apart, 1e-9))[:, None]
    )
    near = np.hypot(*(around.markers - anchor).T) < (2 * label.radius + 1) * around.scale
    others = around.taken[~np.pad(near, (0, len(around.taken) - len(near)))]
    return shapes.touching(shapes.segments(begin, ends), others).any(axis=1) & (far > LEADER)


def _nearest(texts: Texts, anchor: Array) -> Array:
    """(n, 2): of the text at each place what lies nearest."""
    wide, high = texts.width / 2, texts.height / 2
    x = np.clip(anchor[0], texts.x - wide, texts.x + wide)
    y = np.clip(anchor[1], texts.y - high, texts.y + high)
    return np.stack([x, y], axis=1)


def show(label: Label, found: Settled | None, axis: Axes) -> None:
    label.text.set_visible(found is not None)
    if found is not None:
        label.text.set_position((found.x, found.y))
    if label.leader is not None:
        ends = _leader(label, found, axis)
        label.leader.set_data(ends[:, 0], ends[:, 1])


def _leader(label: Label, found: Settled | None, axis: Axes) -> Array:
    """(2, 2): from the marker to the text; empty where it stands close by."""
    if found is None or label.anchor is None or found.far <= LEADER:
        return np.empty((0, 2))
    anchor = axis.transData.transform(label.anchor)
    (left, right), (bottom, top) = found.shape[0, 0], found.shape[0, 1]
    end = np.clip(anchor, (left, bottom), (right, top))
    return np.stack([anchor, end])


def joined_by(around: Surroundings, label: Label, found: Settled) -> Surroundings:
    """And a label at its place; no later one crosses its leader."""
    lines, costs = around.lines, around.costs
    if label.leader is not None and len(label.leader.get_xydata()):  # type: ignore[arg-type]
        lines = np.concatenate([lines, label.leader.get_xydata()[None]])  # type: ignore[index]
        costs = np.append(costs, ACROSS)
    taken = np.concatenate([around.taken, found.shape])
    return around._replace(taken=taken, lines=lines, costs=costs)


def _size(text: Text, scale: float) -> tuple[float, float]:
    """Width and height of a text as if it were level, with a margin; pixels. Not as a renderer measures it,
    so that all resolutions have the same places."""
    width, height, _ = text_to_path.get_text_width_height_descent(
        text.get_text(), text.get_fontproperties(), ismath=False
    )
    return (1.02 * float(width) + 2.5) * scale, (max(float(height), style.SMALL) + 1.4) * scale


def pieces(line: Line2D) -> Array:
    """(n, 2, 2): the straight pieces of a line by their ends, pixels."""
    ends = np.asarray(line.get_transform().transform(line.get_xydata()), float).reshape(-1, 2)
    found = np.stack([ends[:-1], ends[1:]], axis=1) if len(ends) > 1 else np.empty((0, 2, 2))
    return found[np.isfinite(found).all(axis=(1, 2))]
