"""The lines of a roof: which are worth drawing, what plane holds them, and their labels along them."""

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

TOLD_APART = 0.8  # a ceiling higher than this share of its upper neighbour would hide behind it
THEORY_APART = 0.96  # a dashed line may be nearer
NAME = 0.95  # decades of a slope that its name needs
ROOM = style.SMALL + 2.8  # points between two lines with a label between them
LONGEST_JOINED = 90  # letters of a label of several lines
THEORY = "analytic"
_GIGAFLOPS = re.compile(r"(\d{4,}(?:\.\d+)?) GFLOP/s")


def drawable(roof: Roof) -> list[RoofLine]:
    """What is drawn of a roof."""
    return worth_drawing([_told(line) for line in roof.lines if _has_place(line)])


def _told(line: RoofLine) -> RoofLine:
    """With its label in a unit that needs no long number: "BF16 AMX 5.48 TFLOP/s"."""
    label = _GIGAFLOPS.sub(lambda found: f"{float(found[1]) / 1e3:.3g} TFLOP/s", line.label)
    return line._replace(label=re.sub(r"\bamx\b", "AMX", label))


def hidden(roof: Roof) -> list[str]:
    """Labels of the highest ceilings of levels of memory that have no line, as all lie on others."""
    drawn = drawable(roof)
    levels = dict.fromkeys(line.level for line in roof.lines if line.kind == "memory" and line.level)
    lost = [level for level in levels if not any(line.level == level for line in drawn)]
    found = [[_told(x) for x in roof.lines if x.level == level and _has_place(x)] for level in lost]
    return [max(same, key=height).label for same in found if same]


def _has_place(line: RoofLine) -> bool:
    return len(line.flops) > 1 and is_drawable(*line.flops, *line.intensity)


def worth_drawing(lines: Sequence[RoofLine]) -> list[RoofLine]:
    """The roof's own lines, and of the other ceilings those that can be told apart from those drawn."""
    kept: list[RoofLine] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        same = [line for line in lines if line.kind == kind]
        own: list[RoofLine] = []
        # The roof's own first, then what was measured from high to low, what is theory last.
        for line in sorted(same, key=lambda x: (not x.binding, is_theory(x), -height(x))):
            if line.binding or not any(_near(line, other) for other in own):
                own.append(line)
        kept += sorted(own, key=height, reverse=True)
    return kept


def _near(line: RoofLine, other: RoofLine) -> bool:
    low, high = sorted((height(line), height(other)))
    return low > (THEORY_APART if is_theory(line) else TOLD_APART) * high


def is_theory(line: RoofLine) -> bool:
    """Reckoned from a data sheet, not measured."""
    return line.provenance == THEORY


def is_slanting(line: RoofLine) -> bool:
    return line.kind != "compute"


def height(line: RoofLine) -> float:
    """FLOP/s of a compute line; of another its FLOP/s at intensity 1, which is its bandwidth."""
    return line.flops[0] / line.intensity[0] if is_slanting(line) else line.flops[0]


def frame_of(lines: Sequence[RoofLine], placed: Iterable[tuple[float, float]]) -> Frame:
    """A plane that shows all these points (FLOP/byte, FLOP/s), the ridge of the roof, all peaks, and has room
    for labels. Ceilings that bind nothing may begin outside."""
    points = list(placed)
    roof = [line for line in lines if line.binding] or list(lines)
    peaks = [line.flops[0] for line in lines if not is_slanting(line)]
    ridges, named = _ridges(roof, peaks), _named_from(roof, peaks)
    across = [*(x for x, _ in points), *ridges] or [1.0, 16.0]
    up = [*(y for _, y in points), *peaks] or [1e9]
    left = min([min(across) / 5, *(x / 1.25 for x, _ in named)])
    bottom = min([min(up) / 3, *(y for _, y in named)])
    slopes = [height(line) for line in lines if is_slanting(line)]
    if slopes and not points:
        bottom = min(bottom, max(slopes) * min(across) / 2)
    right = max(across) * 5
    if peaks:
        # Nearly a third of the width right of all of it, or names of ceilings would lie on roof and points.
        right = max(right, max(across) * (max(across) / left) ** 0.45)
    return Frame(left, right, bottom, max(up) * 2.2)


def _ridges(roof: Sequence[RoofLine], peaks: Sequence[float]) -> list[float]:
    """FLOP/byte at which the roof turns flat. Without a compute ceiling the lines of memory end nowhere in
    particular, and without a memory ceiling those of compute begin nowhere."""
    slanting = [line for line in roof if is_slanting(line)]
    return [line.intensity[-1] for line in slanting] if peaks else []


def _named_from(binding: Sequence[RoofLine], peaks: Sequence[float]) -> list[tuple[float, float]]:
    """Where the slowest slope of the roof must come into the plane, so that it has its name between two peaks
    or below all of them."""
    slopes = [height(line) for line in binding if is_slanting(line)]
    if not slopes or not peaks:
        return []
    ends = [*sorted(peaks, reverse=True), 0.0]
    top = next(high for high, low in pairwise(ends) if low * 10**NAME <= high)
    return [(top / 10**NAME / min(slopes), top / 10**NAME)]


def outside(lines: Sequence[RoofLine], frame: Frame) -> list[str]:
    """What is said of ceilings that end left of the plane."""
    lost = [line.label for line in lines if not _is_seen(line, frame)]
    return [f"{joined(lost)}: left of this picture."] if lost else []


def _is_seen(line: RoofLine, frame: Frame) -> bool:
    return not is_slanting(line) or line.intensity[-1] > frame.left


def draw_roof(axis: Axes, labels: Labels, lines: Sequence[RoofLine], frame: Frame) -> None:
    ridged = any(map(is_slanting, lines))
    lines = [line for line in lines if _is_seen(line, frame)]
    drawn = {id(line): _draw_line(axis, line, frame, ridged) for line in lines}
    named = [group for slanting in (False, True) for group in _named(labels, lines, slanting)]
    # Those that make the roof have the first choice of places for their labels.
    for first, *others in sorted(named, key=lambda group: (not group[0].binding, is_theory(group[0]))):
        colour = style.INK if first.binding else style.DIM
        text = joined([first.label, *(line.label for line in others)])
        longest = LONGEST_LABEL if not others else LONGEST_JOINED
        labels.at_line(drawn[id(first)], text, colour, is_slanting(first), longest)


def _named(labels: Labels, lines: Sequence[RoofLine], slanting: bool) -> list[list[RoofLine]]:
    """Lines with a label each. Of several too close for a label between them the upper have one together,
    above the highest, and the lowest has one below."""
    ordered = sorted((x for x in lines if is_slanting(x) == slanting), key=height, reverse=True)
    runs: list[list[RoofLine]] = []
    for line in ordered:
        if runs and _apart(labels, line, runs[-1][-1]) < ROOM:
            runs[-1].append(line)
        else:
            runs.append([line])
    return [group for run in runs for group in ([run] if len(run) == 1 else [run[:-1], run[-1:]])]


def _apart(labels: Labels, one: RoofLine, other: RoofLine) -> float:
    """Points between two parallel lines."""
    upright = labels.distance((1.0, height(one)), (1.0, height(other)))
    return upright * math.sqrt(0.5) if is_slanting(one) else upright


def joined(names: Sequence[str]) -> str:
    """ "L3 triad 57.8, DRAM copy 50.3 GB/s": a unit that all share is said once."""
    units = {name.rpartition(" ")[2] for name in names}
    if len(units) > 1:
        return ", ".join(names)
    return ", ".join([*(name.rpartition(" ")[0] or name for name in names[:-1]), names[-1]])


def _draw_line(axis: Axes, line: RoofLine, frame: Frame, ridged: bool) -> Line2D:
    """A ceiling from its ridge to the edge of the picture; without one from edge to edge."""
    if is_slanting(line):
        slope = height(line)
        left, right = frame.left, min(line.intensity[-1], frame.right)
        up: tuple[float, float] = (left * slope, right * slope)
    else:
        left, right = max(line.intensity[0], frame.left) if ridged else frame.left, frame.right
        up = (line.flops[0], line.flops[0])
    drawn = Line2D(
        (left, right), up, **_looks(line), solid_capstyle="butt", zorder=2 + (0.1 if line.binding else 0)
    )
    axis.add_line(drawn)
    return drawn


def _looks(line: RoofLine) -> dict[str, Any]:
    if is_theory(line):
        return {"color": style.FAINT, "linewidth": 1.0, "linestyle": (0, (4, 2.5))}
    if line.binding:
        return {"color": style.INK, "linewidth": 1.6}
    return {"color": style.FAINT, "linewidth": 0.9}


def explained(lines: Iterable[RoofLine]) -> list[Line2D]:
    """Entries of the legend: what solid and dashed lines are."""
    drawn = list(lines)
    measured = dict.fromkeys(line.provenance for line in drawn if not is_theory(line))
    entries = []
    if measured:
        said = ", ".join(name or "unknown" for name in measured)
        entries.append(Line2D([], [], color=style.INK, linewidth=1.6, label=f"ceilings, {said}"))
    if any(is_theory(line) for line in drawn):
        look: dict[str, Any] = {"color": style.FAINT, "linewidth": 1.0, "linestyle": (0, (4, 2.5))}
        entries.append(Line2D([], [], label="theoretical ceilings", **look))
    return entries
