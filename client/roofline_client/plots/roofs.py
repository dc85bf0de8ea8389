"""The lines of a roof: which ones are drawn, the plane that holds them, and their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from roofline.answers.roofline import Roof, RoofLine

from . import style
from .label_placement import LONGEST_LABEL, Labels
from .scales import Frame, is_drawable

DISTINCT = 0.8  # a ceiling higher than this share of its upper neighbour would hide behind it
DISTINCT_THEORY = 0.96  # a dashed line can be closer
NAME = 0.95  # decades of a slope that its name needs
ROOM = style.SMALL + 2.8  # points between two lines with a label between them
LONGEST_JOINED = 90  # characters of a label of several lines
THEORY = "analytic"
_VALUE = re.compile(r" [\d.]+ \S+/s$")
_GIGAFLOPS = re.compile(r"(\d{4,}(?:\.\d+)?) GFLOP/s")


def drawable(roof: Roof) -> list[RoofLine]:
    """The lines of a roof that are drawn."""
    return worth_drawing([_with_short_label(line) for line in roof.lines if _has_place(line)])


def _with_short_label(line: RoofLine) -> RoofLine:
    """With a unit that needs no long number: "BF16 AMX 5.48 TFLOP/s"."""
    label = _GIGAFLOPS.sub(lambda found: f"{float(found[1]) / 1e3:.3g} TFLOP/s", line.label)
    return line._replace(label=re.sub(r"\bamx\b", "AMX", label))


def hidden(roof: Roof) -> list[str]:
    """Labels of the highest ceilings of those memory levels whose lines all lie on others."""
    drawn_levels = {line.level for line in drawable(roof)}
    labels = []
    for level in dict.fromkeys(line.level for line in roof.lines if line.kind == "memory" and line.level):
        own = [line for line in roof.lines if line.level == level and _has_place(line)]
        if own and level not in drawn_levels:
            labels.append(_with_short_label(max(own, key=height)).label)
    return labels


def _has_place(line: RoofLine) -> bool:
    return len(line.flops) > 1 and is_drawable(*line.flops, *line.intensity)


def worth_drawing(lines: Sequence[RoofLine]) -> list[RoofLine]:
    """The lines of the roof, and those other ceilings that are distinct from lines already drawn."""
    kept: list[RoofLine] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        same = [line for line in lines if line.kind == kind]
        own: list[RoofLine] = []
        # First the roof's own, then measured ceilings from high to low, then theoretical ones.
        for line in sorted(same, key=lambda x: (not x.binding, is_theory(x), -height(x))):
            least = DISTINCT_THEORY if is_theory(line) else DISTINCT
            ratios = [min(height(line), height(x)) / max(height(line), height(x)) for x in own]
            if line.binding or not any(ratio > least for ratio in ratios):
                own.append(line)
        kept += sorted(own, key=height, reverse=True)
    return kept


def is_theory(line: RoofLine) -> bool:
    """Computed from a data sheet, not measured."""
    return line.provenance == THEORY


def is_slanting(line: RoofLine) -> bool:
    return line.kind != "compute"


def height(line: RoofLine) -> float:
    """FLOP/s of a compute line; for a memory line its FLOP/s at intensity 1, which is its bandwidth."""
    return line.flops[0] / line.intensity[0] if is_slanting(line) else line.flops[0]


def frame_of(lines: Sequence[RoofLine], placed: Iterable[tuple[float, float]]) -> Frame:
    """A plane with these points (FLOP/byte, FLOP/s), the ridge of the roof, all peaks, and room for labels.

    Ceilings that are not part of the roof may begin outside.
    """
    points = list(placed)
    slanting = [line for line in lines if is_slanting(line)]
    roof = slanting
    if any(line.binding for line in lines):
        roof = [line for line in slanting if line.binding]
    peaks = [line.flops[0] for line in lines if not is_slanting(line)]
    # Without a compute ceiling, the lines of memory end nowhere in particular.
    ridges = [line.intensity[-1] for line in roof] if peaks else []
    across = [*(x for x, _ in points), *ridges] or [1.0, 16.0]
    up = [*(y for _, y in points), *peaks] or [1e9]
    left, bottom = min(across) / 5, min(up) / 3
    if roof and peaks:
        # The slowest slope of the roof needs room for its name between two peaks or below all of them.
        ends = [*sorted(peaks, reverse=True), 0.0]
        top = next(high for high, low in pairwise(ends) if low * 10**NAME <= high)
        enters_at = top / 10**NAME
        left = min(left, enters_at / min(map(height, roof)) / 1.25)
        bottom = min(bottom, enters_at)
    if slanting and not points:
        bottom = min(bottom, max(map(height, slanting)) * min(across) / 2)
    right = max(across) * 5
    if peaks:
        # Nearly a third of the width is free at the right, for names of ceilings next to roof and points.
        right = max(right, max(across) * (max(across) / left) ** 0.45)
    return Frame(left, right, bottom, max(up) * 2.2)


def outside(lines: Sequence[RoofLine], frame: Frame) -> list[str]:
    """A sentence on ceilings that end left of the plane."""
    labels = [line.label for line in lines if not _is_visible(line, frame)]
    return [f"{joined(labels)}: left of this picture."] if labels else []


def _is_visible(line: RoofLine, frame: Frame) -> bool:
    return not is_slanting(line) or line.intensity[-1] > frame.left


def draw_roof(axis: Axes, labels: Labels, lines: Sequence[RoofLine], frame: Frame) -> None:
    fastest = max(map(height, filter(is_slanting, lines)), default=0.0)
    lines = [line for line in lines if _is_visible(line, frame)]
    drawn: dict[int, Line2D] = {}
    for line in lines:
        # A ceiling reaches from its ridge to the edge of the plane; without a ridge from edge to edge.
        left, right = frame.left, frame.right
        if is_slanting(line):
            right = min(line.intensity[-1], right)
            up = left * height(line), right * height(line)
        else:
            if fastest:  # the memory at which the line begins may be too close to another to be drawn
                left = max(line.intensity[0], line.flops[0] / fastest, left)
            up = line.flops[0], line.flops[0]
        zorder = 2.1 if line.binding else 2
        drawn[id(line)] = Line2D((left, right), up, **_looks(line), solid_capstyle="butt", zorder=zorder)
        axis.add_line(drawn[id(line)])

    groups = [group for slanting in (False, True) for group in _labelled_together(labels, lines, slanting)]
    # Labels of the roof choose their places first.
    for first, *others in sorted(groups, key=lambda group: (not group[0].binding, is_theory(group[0]))):
        colour = style.INK if first.binding else style.DIM
        text = joined([first.label, *(line.label for line in others)])
        longest = LONGEST_LABEL if not others else LONGEST_JOINED
        short = shorter([first.label, *(line.label for line in others)], is_slanting(first))
        labels.at_line(drawn[id(first)], text, colour, is_slanting(first), longest, short)


def _labelled_together(labels: Labels, lines: Sequence[RoofLine], slanting: bool) -> list[list[RoofLine]]:
    """Groups of lines with one label each. If lines are too close for a label between them, the upper ones
    share a label above the highest, and the lowest has its label below."""
    runs: list[list[RoofLine]] = []
    for line in sorted((x for x in lines if is_slanting(x) == slanting), key=height, reverse=True):
        if runs:
            room = labels.distance((1.0, height(line)), (1.0, height(runs[-1][-1])))
            if slanting:  # across the lines, which rise by 45 degrees
                room *= math.sqrt(0.5)
            if room < ROOM:
                runs[-1].append(line)
                continue
        runs.append([line])
    groups = []
    for run in runs:
        groups += [run] if len(run) == 1 else [run[:-1], run[-1:]]
    return groups


def shorter(names: Sequence[str], slanting: bool) -> tuple[str, ...]:
    """Names without their values: "L2 read"; of levels of memory also only these: "L2"."""
    without = [_VALUE.sub("", name) for name in names]
    found = [", ".join(without)]
    if slanting:
        found.append(", ".join(dict.fromkeys(name.partition(" ")[0] for name in without)))
    return tuple(found)


def joined(names: Sequence[str]) -> str:
    """ "L3 triad 57.8, DRAM copy 50.3 GB/s": a unit that all share is printed once."""
    units = {name.rpartition(" ")[2] for name in names}
    if len(units) > 1:
        return ", ".join(names)
    return ", ".join([*(name.rpartition(" ")[0] or name for name in names[:-1]), names[-1]])


def _looks(line: RoofLine) -> dict[str, Any]:
    if is_theory(line):
        return {"color": style.FAINT, "linewidth": 1.0, "linestyle": (0, (4, 2.5))}
    if line.binding:
        return {"color": style.INK, "linewidth": 1.6}
    return {"color": style.FAINT, "linewidth": 0.9}


def legend_entries(lines: Iterable[RoofLine]) -> list[Line2D]:
    """Entries of the legend for solid and dashed lines."""
    drawn = list(lines)
    measured = dict.fromkeys(line.provenance for line in drawn if not is_theory(line))
    entries = []
    if measured:
        names = ", ".join(name or "unknown" for name in measured)
        entries.append(Line2D([], [], color=style.INK, linewidth=1.6, label=f"ceilings, {names}"))
    if any(is_theory(line) for line in drawn):
        look: dict[str, Any] = {"color": style.FAINT, "linewidth": 1.0, "linestyle": (0, (4, 2.5))}
        entries.append(Line2D([], [], label="theoretical ceilings", **look))
    return entries
