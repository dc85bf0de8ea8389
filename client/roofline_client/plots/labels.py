"""Texts that stand where nothing else stands: each takes the best of its places that is free.

Places are found whenever the picture is drawn, so that they fit the size it is drawn in. No text lies on
another, on a marker, or across a line, but for faint ones in the background. The search is ours: adjustText
moves labels of points only, knows no labels along lines, and brings scipy along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import IdentityTransform

from ..tables.names import clean
from . import shapes, style
from .places import along_level, along_rising, round_a_point
from .settling import ACROSS, FAINTLY, Label, Surroundings, best, joined_by, pieces, show
from .shapes import Array

LONGEST = 40  # letters of a name
LONGEST_LABEL = 48


class Labels(Artist):
    """The labels of some axes. Drawn before them, it gives each its place."""

    def __init__(self, axis: Axes) -> None:
        super().__init__()
        self.set_zorder(2.5)
        self.set_in_layout(False)
        self._labels: list[Label] = []
        self._marks: list[tuple[float, float]] = []
        self._radii: list[float] = []
        self._faint: list[Line2D] = []
        self._insets: list[Axes] = []
        self._lost: list[Label] = []
        axis.add_artist(self)

    def keep_off(self, x: float, y: float, size: float = style.MARKER) -> None:
        """There is a marker here (data) of this size (points) that no text may cover."""
        self._marks.append((x, y))
        self._radii.append(size / 2 + 0.5)

    def may_cross(self, line: Line2D) -> None:
        """A faint line in the background."""
        self._faint.append(line)

    def keep_out(self, inset: Axes) -> None:
        """Axes within the axes."""
        self._insets.append(inset)

    def apart(self, one: tuple[float, float], other: tuple[float, float]) -> float:
        """How far two places (data) are from each other, points."""
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
        farthest: float = math.inf,
    ) -> None:
        """A text beside a marker of this size (points; 0: beside nothing); a line leads to it when it stands
        off."""
        leader = Line2D([], [], color=colour, linewidth=0.5, alpha=0.7, zorder=2.6)
        leader.set_in_layout(False)
        self._axis().add_line(leader)
        leader.set_transform(IdentityTransform())
        places = round_a_point(x, y, size / 2)
        made = self._text(text, colour, 0.0)
        self._labels.append(Label(made, places, leader, (x, y), size / 2, None, farthest))

    def at_line(
        self, line: Line2D, text: str, colour: str, rising: bool, longest: int = LONGEST_LABEL
    ) -> None:
        """A text along a line of two points, level or rising by 45 degrees."""
        places = along_rising(line) if rising else along_level(line)
        made = self._text(text, colour, 45.0 if rising else 0.0, longest)
        self._labels.append(Label(made, places, None, None, 0.0, line, math.inf))

    def abbreviate(self, renderer: Any, signs: Iterator[str]) -> tuple[list[str], list[str]]:
        """Texts that find no room without crossing something: those that a sign stands for now, as the key to
        it, and those that have no room even so. The latter are not shown from now on: say them elsewhere."""
        key = []
        for label in self._needed(self._settle(renderer, strictly=True)):
            sign = next(signs)
            key.append(f"{sign} {label.text.get_text()}")
            label.text.set_text(sign)
        if key:
            self._lost = self._needed(self._settle(renderer, strictly=True))
        lost = {label.text.get_text() for label in self._lost}
        return (
            [told for told in key if told.split(" ")[0] not in lost],
            [told.split(" ", 1)[1] for told in key if told.split(" ")[0] in lost],
        )

    def _needed(self, labels: Sequence[Label]) -> list[Label]:
        return [label for label in labels if label.farthest == math.inf]

    def draw(self, renderer: Any) -> None:
        if self.get_visible():
            self._settle(renderer, strictly=False)

    def _settle(self, renderer: Any, strictly: bool) -> list[Label]:
        """Give each label its place; those that have none."""
        around = self._surroundings(renderer)
        homeless = []
        for label in self._labels:
            may_cross = not strictly and label.farthest == math.inf
            found = None if label in self._lost else best(self._axis(), label, around, may_cross)
            show(label, found, self._axis())
            if found is None:
                homeless.append(label)
            else:
                around = joined_by(around, label, found)
        return homeless

    def _surroundings(self, renderer: Any) -> Surroundings:
        axis = self._axis()
        scale = axis.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
        middles = axis.transData.transform(self._marks) if self._marks else np.empty((0, 2))
        marks = [shapes.discs(middles[at : at + 1], radius * scale) for at, radius in enumerate(self._radii)]
        taken = shapes.joined([*marks, *self._boxes(renderer, 2 * scale)])
        lines, costs = self._lines()
        box = axis.get_window_extent()
        return Surroundings((box.x0, box.y0, box.x1, box.y1), taken, middles, lines, costs, scale)

    def _boxes(self, renderer: Any, margin: float) -> list[Array]:
        """Of the legend and of axes within the axes, with a margin."""
        things = [thing for thing in (self._axis().get_legend(), *self._insets) if thing is not None]
        found = [thing.get_tightbbox(renderer) for thing in things]
        return [
            shapes.box(b.x0 - margin, b.y0 - margin, b.x1 + margin, b.y1 + margin)
            for b in found
            if b is not None
        ]

    def _lines(self) -> tuple[Array, Array]:
        own = {label.leader for label in self._labels}
        shown = [x for x in self._axis().lines if x.get_linestyle() not in ("None", "", " ") and x not in own]
        found = [pieces(line) for line in shown]
        costs = [
            np.full(len(some), FAINTLY if line in self._faint else ACROSS)
            for line, some in zip(shown, found, strict=True)
        ]
        return np.concatenate([np.empty((0, 2, 2)), *found]), np.concatenate([np.empty(0), *costs])

    def _axis(self) -> Axes:
        axis = self.axes
        assert isinstance(axis, Axes)
        return axis

    def _text(self, text: str, colour: str, angle: float, longest: int = LONGEST_LABEL) -> Text:
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
    """A long name without its middle: both its ends tell things apart."""
    if len(text) <= longest:
        return text
    front = (longest - 1) * 2 // 3
    return f"{text[:front]}…{text[front + 1 - longest :]}"
