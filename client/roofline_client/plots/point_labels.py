"""Names next to points, one for all points in one spot, and arrows from a few points up to the roof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from roofline.answers.roofline import RoofPoint

from ..tables.names import clean
from . import style
from .label_placement import Labels, shortened
from .markers import marker_size, place
from .scales import is_drawable, tick

ONE_SPOT = 1.12  # points of a role within this factor of each other share a name
ON_ONE_SPOT = 0.8 * style.MARKER  # points (of length) within which names are joined
MOST_NAMED = 14
MOST_ARROWS = 4
FARTHEST_FACTOR = 42.0  # points; further from its arrow a factor is unreadable
LONGEST_NAME = 26  # longer names get a number and are in the caption
LONGEST_KEY = 56
LEAST_HEADROOM = 1.15  # with less a point touches the roof


class Spot(NamedTuple):
    """Points that share a name, and the one in their middle."""

    name: str
    points: Sequence[RoofPoint]
    middle: RoofPoint


class NamedSpot(NamedTuple):
    spot: Spot
    text: str  # next to the spot: its name, or a number
    key: str  # what the number means, else ""


def arrows(axis: Axes, labels: Labels, spots: Sequence[Spot], start: int = 1) -> bool:
    """From a few points up to their attainable FLOP/s. Returns whether there are any.

    If there are several, each has the name that `name_points` gives it, counted from `start`.
    """
    shown = [spot.middle for spot in spots if spot.middle.kind != "step"]
    below_roof = [point for point in shown if (point.headroom.value or 0.0) >= LEAST_HEADROOM]
    if len(spots) > MOST_ARROWS:
        return False
    if not all(is_drawable(p.attainable.value, p.headroom.value) for p in below_roof):
        return False
    names = {}
    if len(below_roof) > 1:
        names = {named.spot.middle: named.text for named in _with_names(spots, start)}

    for point in below_roof:
        x, y = place(point)
        top = point.attainable.value or y
        arrow = {
            "arrowstyle": "-|>,head_width=0.16,head_length=0.32",
            "shrinkA": 5.0,
            "shrinkB": 0.5,
            "color": style.colour(point.role),
            "linewidth": 0.7,
        }
        drawn = axis.annotate("", (x, top), (x, y), arrowprops=arrow, zorder=3, annotation_clip=True)
        drawn.set_in_layout(False)
        # The shaft again, as a line that labels keep off.
        axis.add_line(Line2D((x, x), (y, top), alpha=0.0))
        headroom = point.headroom.value or 0.0
        factor = f"{headroom:.1f}×" if headroom < 10 else f"{tick(round(headroom))}×"
        name = names.get(point, "")
        text = f"{name}{':' if name.isdecimal() else ''} {factor}".strip()
        middle = x, math.sqrt(y * top)
        labels.at_point(*middle, text, style.colour(point.role), size=0.0, max_distance=FARTHEST_FACTOR)
    return bool(below_roof)


def name_points(
    labels: Labels, points: Sequence[RoofPoint], spots: Sequence[Spot], start: int = 1
) -> list[str]:
    """Write names next to spots. Long names become numbers, counted from `start`: returns the key to them."""
    for point in points:
        labels.keep_off(*place(point), marker_size(point, len(points)))
    named = _with_names(spots, start)

    # Spots whose markers overlap share a label, as long as it is short.
    groups: list[list[NamedSpot]] = []
    for one in sorted(named, key=lambda each: _height(each.spot.middle)):
        middle = one.spot.middle
        for group in groups:
            same_role = middle.role == group[0].spot.middle.role
            overlap = all(
                labels.distance(place(middle), place(other.spot.middle)) < ON_ONE_SPOT for other in group
            )
            if same_role and overlap and len(_joined([n.text for n in [*group, one]])) <= LONGEST_NAME:
                group.append(one)
                break
        else:
            groups.append([one])

    for group in groups:
        middle = group[len(group) // 2].spot.middle
        text = _joined([named_spot.text for named_spot in group])
        labels.at_point(*place(middle), text, style.colour(middle.role), marker_size(middle, len(points)))
    return [one.key for one in named if one.key]


def _joined(texts: Sequence[str]) -> str:
    """Numbers as "1–3, 5", names one after another."""
    if len(texts) == 1 or not all(text.isdecimal() for text in texts):
        return ", ".join(texts)
    return runs([int(text) for text in texts], ", ", "–")


def _with_names(spots: Sequence[Spot], start: int) -> list[NamedSpot]:
    """All spots of a role if there are few; else the slowest and the fastest point of the role."""
    kept: list[Spot] = []
    for role in dict.fromkeys(spot.middle.role for spot in spots):
        own = [spot for spot in spots if spot.middle.role == role]
        scattered = any(len(s.points) > 1 and len(s.name) > LONGEST_NAME for s in own)
        if len(spots) > MOST_NAMED or (scattered and len(own) > 2):
            points = sorted((point for spot in own for point in spot.points), key=_height)
            ends = points if len(points) < 3 else [points[0], points[-1]]
            own = [Spot(point.label, [point], point) for point in ends]
        kept += own

    several_roles = len({spot.middle.role for spot in spots}) > 1
    named = []
    number = start
    for spot in kept[:MOST_NAMED]:
        name = clean(spot.name)
        # Sizes next to a marker are many numbers in little room.
        if len(name) > LONGEST_NAME or "×" in name:
            of_role = spot.middle.kind == "kernel" and several_roles and spot.middle.role
            whose = f" ({clean(spot.middle.role)})" if of_role else ""
            named.append(NamedSpot(spot, f"{number}", f"{number} {shortened(name, LONGEST_KEY)}{whose}"))
            number += 1
        else:
            named.append(NamedSpot(spot, name, ""))
    return named


def spots_of(points: Sequence[RoofPoint]) -> list[Spot]:
    """Groups of points: steps by rank; ranks of one role and level where they lie in about one spot."""
    groups: list[list[RoofPoint]] = []
    for point in points:
        for group in groups:
            if _belongs(point, group):
                group.append(point)
                break
        else:
            groups.append([point])
    spots = []
    for group in groups:
        is_rank_of_steps = group[0].kind == "step" and len(group) > 1
        name = group[0].rank if is_rank_of_steps else names_of([point.label for point in group])
        spots.append(Spot(name, group, sorted(group, key=_height)[len(group) // 2]))
    return spots


def _height(point: RoofPoint) -> float:
    return place(point)[1]


def _belongs(point: RoofPoint, group: Sequence[RoofPoint]) -> bool:
    first = group[0]
    if (point.kind, point.role, point.level) != (first.kind, first.role, first.level):
        return False
    if point.kind == "step":
        return point.rank == first.rank
    if point.kind != "rank":
        return False
    x, y = place(point)
    for other_x, other_y in map(place, group):
        if max(abs(math.log(x / other_x)), abs(math.log(y / other_y))) > math.log(ONE_SPOT):
            return False
    return True


def names_of(labels: Sequence[str]) -> str:
    """ "worker:0-3,6" of worker:0, worker:1, worker:2, worker:3 and worker:6."""
    split = [label.rpartition(":") for label in labels]
    roles = {role for role, _, _ in split}
    if len(labels) == 1 or len(roles) > 1 or not all(index.isdecimal() for _, _, index in split):
        return ", ".join(labels)
    return f"{roles.pop()}:{runs([int(index) for _, _, index in split], ',', '-')}"


def runs(numbers: Sequence[int], comma: str, dash: str) -> str:
    """ "0-3,6" of 0, 1, 2, 3 and 6."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return comma.join(f"{first}{dash}{last}" if last > first else str(first) for first, last in found)
