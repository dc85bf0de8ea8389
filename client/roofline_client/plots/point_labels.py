"""Names beside points, one for those on one spot, and arrows from few of them up to the roof."""

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
from .marks import marker_size, place
from .scales import is_drawable, tick

ONE_SPOT = 1.12  # points of a role within this factor of each other have one name
ON_ONE_SPOT = 0.8 * style.MARKER  # points (of length) within which signs are told together
MOST_NAMED = 14
MOST_ARROWS = 4
FARTHEST_FACTOR = 42.0  # points; further from its arrow a factor says nothing
LONGEST_NAME = 26  # longer names get a number and stand in the caption
LONGEST_KEY = 56
LEAST_HEADROOM = 1.15  # less is a touch of the roof


class Spot(NamedTuple):
    """Points that have one name, and the one in their middle."""

    name: str
    points: Sequence[RoofPoint]
    middle: RoofPoint


Signed = tuple[Spot, str, str]  # what is written beside it, and the key to that where it is a number


def arrows(axis: Axes, labels: Labels, spots: Sequence[Spot], start: int = 1) -> bool:
    """From few points up to what they could reach; whether there are any. Of several each has the name that
    `name_points` gives it, counted from `start`."""
    shown = [spot.middle for spot in spots if spot.middle.kind != "step"]
    worth = [point for point in shown if (point.headroom.value or 0.0) >= LEAST_HEADROOM]
    if len(spots) > MOST_ARROWS or not all(is_drawable(p.attainable.value, p.headroom.value) for p in worth):
        return False
    signs = {spot.middle: sign for spot, sign, _ in _signed(spots, start)} if len(worth) > 1 else {}
    for point in worth:
        _arrow(axis, labels, point, signs.get(point, ""))
    return bool(worth)


def _arrow(axis: Axes, labels: Labels, point: RoofPoint, sign: str) -> None:
    x, y = place(point)
    top = point.attainable.value or y
    arrow = {"arrowstyle": "-|>,head_width=0.16,head_length=0.32", "shrinkA": 5.0, "shrinkB": 0.5}
    looks = {"color": style.colour(point.role), "linewidth": 0.7}
    axis.annotate(
        "", (x, top), (x, y), arrowprops={**arrow, **looks}, zorder=3, annotation_clip=True
    ).set_in_layout(False)
    # The shaft again, as a line that labels keep off.
    axis.add_line(Line2D((x, x), (y, top), alpha=0.0))
    factor = point.headroom.value or 0.0
    told = f"{factor:.1f}×" if factor < 10 else f"{tick(round(factor))}×"
    told = f"{sign}{':' if sign.isdecimal() else ''} {told}".strip()
    middle = x, math.sqrt(y * top)
    labels.at_point(*middle, told, style.colour(point.role), size=0.0, max_distance=FARTHEST_FACTOR)


def name_points(
    labels: Labels, points: Sequence[RoofPoint], spots: Sequence[Spot], start: int = 1
) -> list[str]:
    """Write names beside spots; long names become numbers: the key to them, counted from `start`."""
    for point in points:
        labels.keep_off(*place(point), marker_size(point, len(points)))
    signed = _signed(spots, start)
    for group in _on_one_spot(labels, signed):
        middle = group[len(group) // 2][0].middle
        size = marker_size(middle, len(points))
        labels.at_point(
            *place(middle), _joined([sign for _, sign, _ in group]), style.colour(middle.role), size
        )
    return [key for _, _, key in signed if key]


def _on_one_spot(labels: Labels, signed: Sequence[Signed]) -> list[list[Signed]]:
    """Signs together whose markers lie on one another, where they are short together."""
    groups: list[list[Signed]] = []
    for one in sorted(signed, key=lambda each: _height(each[0].middle)):
        for group in groups:
            same = one[0].middle.role == group[0][0].middle.role
            near = all(
                labels.distance(place(one[0].middle), place(other[0].middle)) < ON_ONE_SPOT for other in group
            )
            if same and near and len(_joined([sign for _, sign, _ in [*group, one]])) <= LONGEST_NAME:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _joined(signs: Sequence[str]) -> str:
    """ "1–3, 5" of numbers, else names one after another."""
    if len(signs) == 1 or not all(sign.isdecimal() for sign in signs):
        return ", ".join(signs)
    return runs([int(sign) for sign in signs], ", ", "–")


def _signed(spots: Sequence[Spot], start: int) -> list[Signed]:
    """Spots that have a name, what is written beside them, and the key to it where that is a number."""
    found: list[Signed] = []
    number = start
    for spot in _named(spots):
        name, key = clean(spot.name), ""
        # Sizes beside a marker are many numbers in little room.
        if len(name) > LONGEST_NAME or "×" in name:
            name, key = f"{number}", f"{number} {shortened(name, LONGEST_KEY)}"
            number += 1
        found.append((spot, name, key))
    return found


def _named(spots: Sequence[Spot]) -> list[Spot]:
    """All spots of a role that has few; of others its slowest and its fastest point."""
    kept: list[Spot] = []
    for role in dict.fromkeys(spot.middle.role for spot in spots):
        own = [spot for spot in spots if spot.middle.role == role]
        scattered = any(len(s.points) > 1 and len(s.name) > LONGEST_NAME for s in own)
        kept += _ends_of(own) if len(spots) > MOST_NAMED or (scattered and len(own) > 2) else own
    return kept[:MOST_NAMED]


def _ends_of(spots: Sequence[Spot]) -> list[Spot]:
    points = sorted((point for spot in spots for point in spot.points), key=_height)
    ends = points if len(points) < 3 else [points[0], points[-1]]
    return [Spot(point.label, [point], point) for point in ends]


def spots_of(points: Sequence[RoofPoint]) -> list[Spot]:
    """Points in groups: steps by rank, others of one role and level where they lie on about one spot."""
    groups: list[list[RoofPoint]] = []
    for point in points:
        for group in groups:
            if _belongs(point, group):
                group.append(point)
                break
        else:
            groups.append([point])
    return [Spot(_name(group), group, sorted(group, key=_height)[len(group) // 2]) for group in groups]


def _height(point: RoofPoint) -> float:
    return place(point)[1]


def _belongs(point: RoofPoint, group: Sequence[RoofPoint]) -> bool:
    first = group[0]
    if (point.kind, point.role, point.level) != (first.kind, first.role, first.level):
        return False
    if point.kind == "step":
        return point.rank == first.rank
    return point.kind == "rank" and all(_near(point, other) for other in group)


def _near(one: RoofPoint, other: RoofPoint) -> bool:
    (x, y), (other_x, other_y) = place(one), place(other)
    return max(abs(math.log(x / other_x)), abs(math.log(y / other_y))) <= math.log(ONE_SPOT)


def _name(group: Sequence[RoofPoint]) -> str:
    if group[0].kind == "step" and len(group) > 1:
        return group[0].rank
    return names_of([point.label for point in group])


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
