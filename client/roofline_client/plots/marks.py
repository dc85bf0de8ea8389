"""Points of a roofline: the markers of their roles, hollow for incomplete counts, bars of spread, names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..model_records import RoofPoint, Spread
from ..names import clean
from ..records import Value
from . import style
from .labels import Labels, shortened
from .scales import is_drawable, tick

ONE_SPOT = 1.12  # points of a role within this factor of each other have one name
MOST_NAMED = 14
MOST_ARROWS = 4
LONGEST_NAME = 26  # longer names get a number and stand in the caption
LONGEST_KEY = 64
LEAST_HEADROOM = 1.15  # less is a touch of the roof
KINDS = {"rank": "ranks", "step": "steps", "kernel": "kernels", "phase": "phases"}


class Spot(NamedTuple):
    """Points that have one name, and the one in their middle."""

    name: str
    points: Sequence[RoofPoint]
    middle: RoofPoint


def place(point: RoofPoint) -> tuple[float, float]:
    """(FLOP/byte, FLOP/s); of a point that can be drawn."""
    return point.intensity.value or 0.0, point.flops_per_second.value or 0.0


def can_be_drawn(point: RoofPoint) -> bool:
    return is_drawable(point.intensity.value, point.flops_per_second.value)


def extent(point: RoofPoint) -> list[tuple[float, float]]:
    """The point and the ends of its bars."""
    x, y = place(point)
    across = [(v, y) for v in _bar_ends(point.intensity_spread)]
    return [(x, y), *across, *((x, v) for v in _bar_ends(point.flops_spread))]


def _bar_ends(spread: Spread | None) -> list[float]:
    return [] if spread is None else [v for v in (spread.p5, spread.p95) if is_drawable(v)]


def draw_points(
    axis: Axes, points: Sequence[RoofPoint], marker: Callable[[RoofPoint], str], size: float = 1.0
) -> None:
    many = len(points) > 40
    for point in points:
        if point.kind != "step":
            _bars(axis, point, 0.35 if many else 0.8)
    for point in points:
        axis.add_line(_marker(point, marker(point), many, size))


def _marker(point: RoofPoint, shape: str, many: bool, size: float) -> Line2D:
    colour, hollow = style.colour(point.role), bool(point.incomplete)
    small = point.kind == "step" and many
    return Line2D(
        [point.intensity.value or 0.0],
        [point.flops_per_second.value or 0.0],
        linestyle="",
        marker=shape,
        markersize=3.0 if small else style.MARKER * (0.75 if many else size),
        markerfacecolor="white" if hollow else colour,
        markeredgecolor=colour if hollow else "none" if small else "white",
        markeredgewidth=(0.6 if small else 1.3) if hollow else 0.7,
        alpha=0.45 if small else 1.0,
        zorder=5,
    )


def _bars(axis: Axes, point: RoofPoint, alpha: float) -> None:
    """Thin from 5 to 95 %, thick from 25 to 75 %."""
    x, y = place(point)
    colour = style.colour(point.role)
    caps: dict[str, Any] = {"solid_capstyle": "butt"}
    for spread, level in ((point.intensity_spread, True), (point.flops_spread, False)):
        if spread is None:
            continue
        for low, high, width in ((spread.p5, spread.p95, 0.9), (spread.p25, spread.p75, 2.6)):
            if is_drawable(low, high) and high > low:
                across, up = ((low, high), (y, y)) if level else ((x, x), (low, high))
                axis.plot(across, up, color=colour, linewidth=width, alpha=alpha, zorder=4, **caps)


def arrows(axis: Axes, labels: Labels, spots: Sequence[Spot], start: int = 1) -> bool:
    """From few points up to what they could reach; whether there are any. Of several each has the name that
    `name_points` gives it, counted from `start`."""
    shown = [spot.middle for spot in spots if spot.middle.kind != "step"]
    worth = [point for point in shown if (point.headroom.value or 0.0) >= LEAST_HEADROOM]
    if len(spots) > MOST_ARROWS or not all(is_drawable(p.attainable.value, p.headroom.value) for p in worth):
        return False
    signs = {spot.middle: sign for spot, sign, _ in _signed(spots, start)} if len(worth) > 1 else {}
    for point in worth:
        x, y = place(point)
        top = point.attainable.value or y
        arrow = {"arrowstyle": "-|>,head_width=0.18,head_length=0.35", "shrinkA": 5.0, "shrinkB": 0.5}
        looks = {"color": style.colour(point.role), "linewidth": 0.8}
        axis.annotate(
            "", (x, top), (x, y), arrowprops={**arrow, **looks}, zorder=3, annotation_clip=True
        ).set_in_layout(False)
        # The shaft again, as a line that labels keep off.
        axis.add_line(Line2D((x, x), (y, top), color=style.colour(point.role), linewidth=0.8, zorder=2.9))
        factor = point.headroom.value or 0.0
        told = f"{factor:.1f}×" if factor < 10 else f"{tick(round(factor))}×"
        sign = signs.get(point, "")
        told = f"{sign}{':' if sign.isdecimal() else ''} {told}".strip()
        labels.at_point(x, math.sqrt(y * top), told, style.colour(point.role), mark=False)
    return bool(worth)


def name_points(
    labels: Labels, points: Sequence[RoofPoint], spots: Sequence[Spot], start: int = 1
) -> list[str]:
    """Write names beside spots; long names become numbers: the key to them, counted from `start`."""
    for point in points:
        labels.keep_off(*place(point))
    signed = _signed(spots, start)
    for spot, sign, _ in signed:
        labels.at_point(*place(spot.middle), sign, style.colour(spot.middle.role))
    return [key for _, _, key in signed if key]


def _signed(spots: Sequence[Spot], start: int) -> list[tuple[Spot, str, str]]:
    """Spots that have a name, what is written beside them, and the key to it where that is a number."""
    found: list[tuple[Spot, str, str]] = []
    number = start
    for spot in _named(spots):
        name, key = clean(spot.name), ""
        if len(name) > LONGEST_NAME:
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
    runs: list[list[int]] = []
    for index in sorted(int(index) for _, _, index in split):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    told = ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
    return f"{roles.pop()}:{told}"


def explained(points: Sequence[RoofPoint], has_arrows: bool, level_markers: bool = False) -> list[Line2D]:
    """Entries of the legend: roles with their provenance, hollow markers, bars, arrows."""
    entries = [_role_entry(role, points, level_markers) for role in dict.fromkeys(p.role for p in points)]
    grey: dict[str, Any] = {"color": style.DIM, "linestyle": ""}
    if level_markers:
        order = {level: at for at, level in enumerate(style.LEVEL_MARKERS)}
        for level in sorted({p.level for p in points}, key=lambda level: order.get(level, len(order))):
            shape = style.level_marker(level)
            entries.append(Line2D([], [], marker=shape, label=f"over {level_name(level)}", **grey))
    if any(p.incomplete for p in points):
        hollow = Line2D([], [], marker="o", markerfacecolor="white", label="incomplete counts", **grey)
        entries.append(hollow)
    if any(_bar_ends(s) for p in points if p.kind != "step" for s in (p.intensity_spread, p.flops_spread)):
        what = "calls" if all(p.kind == "kernel" for p in points) else "steps"
        bar = Line2D([], [], color=style.DIM, linewidth=0.9, label=f"5 to 95 % of {what} (thick: 25 to 75 %)")
        entries.append(bar)
    if has_arrows:
        entries.append(Line2D([], [], marker=r"$\uparrow$", label="headroom to the roof", **grey))
    return entries


def _role_entry(role: str, points: Sequence[RoofPoint], level_markers: bool) -> Line2D:
    own = [p for p in points if p.role == role]
    kind = KINDS.get(own[0].kind, "")
    count = len({p.label for p in own})
    # matplotlib leaves entries out that begin with an underscore.
    told = (clean(role) or "no role").replace("_", "-")
    told += f" ({count} {kind})" if kind and count > 1 else ""
    return Line2D(
        [],
        [],
        color=style.colour(role),
        linestyle="" if not level_markers else "-",
        linewidth=3.0,
        marker="" if level_markers else style.marker(role),
        markersize=style.MARKER - 1,
        label=f"{told}: {provenance(own)}",
    )


def provenance(points: Sequence[RoofPoint]) -> str:
    """ "FLOP/s measured, FLOP/byte analytic"; one word where they agree."""
    flops = _words(p.flops_per_second for p in points)
    intensity = _words(p.intensity for p in points)
    return flops if flops == intensity else f"FLOP/s {flops}, FLOP/byte {intensity}"


def _words(values: Iterable[Value]) -> str:
    return " and ".join(dict.fromkeys(clean(v.provenance) or "unknown" for v in values))


def level_name(level: str) -> str:
    names = {"minimum": "least traffic", "network": "the network"}
    return names.get(level, f"{clean(level).upper()} traffic")


def missing(points: Sequence[RoofPoint]) -> list[str]:
    """Why points are not drawn, and what those lack that are drawn hollow; points of one reason together."""
    lacking: dict[str, list[str]] = {}
    for point in points:
        if not can_be_drawn(point):
            lacking.setdefault(f"not drawn ({_why(point)})", []).append(point.label)
        elif point.incomplete:
            lacking.setdefault(f"incomplete ({point.incomplete})", []).append(point.label)
    return [f"{_few(labels)}: {what}." for what, labels in lacking.items()]


def _few(labels: Sequence[str]) -> str:
    labels = list(dict.fromkeys(labels))
    told = names_of(labels)
    return told if len(told) <= 60 else f"{labels[0]} and {len(labels) - 1} more"


def _why(point: RoofPoint) -> str:
    for value, what in ((point.flops_per_second, "FLOP/s"), (point.intensity, "FLOP/byte")):
        if value.value is None:
            return f"no {what}: {value.reason or 'nobody measured it'}"
        if not is_drawable(value.value):
            return f"{value.value:g} {what} has no place on a logarithmic axis"
    return "unknown"
