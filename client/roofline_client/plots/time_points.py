"""Points of the time-based roofline: symbols, the lines that join them, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from roofline.answers.time_roofline import TimePoint

from ..tables import units
from ..tables.names import clean
from . import style
from .label_placement import Labels, shortened
from .point_labels import LONGEST_KEY
from .scales import is_drawable

MOST_NAMED = 12
MOST_UNNAMED = 2  # of the points without a name, those that the caption names
LONGEST_NAME = 22
CLOSED, OPEN = 5.5, 6.5  # sizes of symbols, points
SHAPES = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼"}  # of kernels side by side, and their signs
SAME = 1.3  # symbols within this factor of each other share a name
ROOM = 8.0  # points: further from its open symbol a name is left out
Place = tuple[float, float]  # bytes, FLOPs


class Name(NamedTuple):
    text: str
    colour: str
    place: Place
    size: float  # of the symbol, points


def has_place(point: TimePoint) -> bool:
    return is_drawable(point.flops.value, point.bytes.value)


def has_time(point: TimePoint) -> bool:
    return is_drawable(point.time_bytes, point.time_flops)


def complexity(point: TimePoint) -> Place:
    """Where the closed symbol is."""
    return point.bytes.value or 0.0, point.flops.value or 0.0


def took(point: TimePoint) -> Place:
    """Where the open symbol is."""
    return point.time_bytes, point.time_flops


def bar(point: TimePoint) -> list[Place]:
    """The ends of its bar from 5 to 95 %; empty without a spread."""
    spread = point.time_spread
    if not has_time(point) or spread is None or not is_drawable(spread.p5, spread.p50, spread.p95):
        return []
    x, y = took(point)
    # A call that takes longer lies further along the diagonal.
    return [(x * factor, y * factor) for factor in (spread.p5 / spread.p50, spread.p95 / spread.p50)]


def draw_points(
    axis: Axes, labels: Labels, points: Sequence[TimePoint], over: str, start: int = 1
) -> tuple[list[str], list[str]]:
    """Returns the key to names that became numbers or letters, and a sentence on points without a name."""
    sweeps = _sweeps(points)
    shapes = _shapes(sweeps)
    for sweep, (marker, _) in zip(sweeps, shapes, strict=True):
        for point in sweep:
            _draw_symbols(axis, point, marker)
            labels.keep_off(*complexity(point), CLOSED)
            if has_time(point):
                labels.keep_off(*took(point), OPEN)
    for sweep in sweeps:
        looks: dict[str, Any] = {"color": style.colour(sweep[0].role), "linewidth": 1.0, "zorder": 3.5}
        if len(sweep) > 1:
            axis.plot(*zip(*map(complexity, sweep), strict=True), **looks)
        timed = [took(p) for p in sweep if has_time(p)]
        if len(timed) > 1:
            axis.plot(*zip(*timed, strict=True), **looks, linestyle=(0, (3, 1.5)))

    key: list[str] = []
    # Points come sorted by time, the longest first. The last point of a sweep has the name.
    several_roles = len({point.role for point in points}) > 1
    named = [
        (sweep[-1], _name_of(sweep, over, key, start, sign, several_roles))
        for sweep, (_, sign) in list(zip(sweeps, shapes, strict=True))[:MOST_NAMED]
    ]
    values = [(p, clean(p.at)) for sweep in sweeps for p in sweep[:-1]]
    closed = [Name(text, style.colour(p.role), complexity(p), CLOSED) for p, text in [*named, *values]]
    _write(labels, closed[: len(named)], math.inf)
    _write(labels, closed[len(named) :], 12.0)
    # Last, so that no closed symbol loses its place to the repetition.
    opened = [
        Name(text, style.colour(p.role), took(p), OPEN)
        for p, text in [*named, *values]
        if has_time(p) and not _near(complexity(p), took(p))
    ]
    _write(labels, opened, ROOM)

    unnamed = [f"{clean(s[-1].label)} ({units.show(s[-1].time)})" for s in sweeps[MOST_NAMED:]]
    if not unnamed:
        return key, []
    more = f" and {len(unnamed) - MOST_UNNAMED} more" if len(unnamed) > MOST_UNNAMED else ""
    return key, [f"Drawn without a name: {', '.join(unnamed[:MOST_UNNAMED])}{more}."]


def _shapes(sweeps: Sequence[Sequence[TimePoint]]) -> list[tuple[str, str]]:
    """The marker of each sweep, and its sign in the key. It is its role's, without a sign, unless several
    kernels of one role are swept: then it is the kernel's, the same in every panel of these kernels."""
    roles = {sweep[0].role for sweep in sweeps}
    kernels = sorted({sweep[0].label for sweep in sweeps})
    if len(roles) == 1 and 1 < len(kernels) <= len(SHAPES) and any(len(sweep) > 1 for sweep in sweeps):
        shapes = dict(zip(kernels, SHAPES.items(), strict=False))
        return [(marker, f"{sign} ") for marker, sign in (shapes[sweep[0].label] for sweep in sweeps)]
    return [(style.marker(sweep[0].role), "") for sweep in sweeps]


def _name_of(
    sweep: Sequence[TimePoint], over: str, key: list[str], start: int, shape: str, with_role: bool
) -> str:
    """The name at the last point of a sweep: its label, or a short sign that is added to the key.

    shape: the sign of its marker, for the key; with_role: the key says whose kernel it is.
    """
    point, swept = sweep[-1], len(sweep) > 1
    name = clean(point.label)
    value = f" {clean(point.at)}" if swept else ""
    # Sizes next to a symbol are many numbers in little room.
    if len(name + value) <= LONGEST_NAME and "×" not in name:
        return name + value

    number = start + len(key)
    # A letter in a sweep, where numbers are values of the parameter.
    sign = chr(ord("A") + number - 1) if swept and number <= 26 else f"{number}"
    launches = f" in {point.launches:,} launches" if point.launches != 1 else ""
    where = f" at {clean(over)} {clean(point.at)}" if swept and over else ""
    bound = f", {clean(point.bound)}" if point.bound else ""
    role = f"{clean(point.role)}, " if with_role and point.role else ""
    details = f"{role}{units.show(point.time)}{launches}{where}{bound}"
    key.append(f"{shape}{sign} {shortened(name, LONGEST_KEY)} ({details})")
    return sign + value


def _write(labels: Labels, names: Sequence[Name], max_distance: float) -> None:
    """Names at the same place are written together, equal ones once."""
    groups: list[list[Name]] = []
    for name in names:
        for group in groups:
            first = group[0]
            near = name.colour == first.colour and _near(name.place, first.place)
            same_value = _swept_value(name.text) == _swept_value(first.text)
            if near and same_value and len(_joined([n.text for n in [*group, name]])) <= LONGEST_NAME:
                group.append(name)
                break
        else:
            groups.append([name])
    for group in groups:
        text, first = _joined([name.text for name in group]), group[0]
        labels.at_point(*first.place, text, first.colour, first.size, max_distance)


def _swept_value(text: str) -> str:
    """The value of the parameter in "name value"."""
    return text.rpartition(" ")[2] if " " in text else ""


def _joined(words: Sequence[str]) -> str:
    """ "A, B 64" of "A 64" and "B 64"."""
    words = list(dict.fromkeys(words))
    split = [word.rpartition(" ") for word in words]
    if len({last for _, _, last in split}) > 1 or not all(front for front, _, _ in split):
        return ", ".join(words)
    return f"{', '.join(front for front, _, _ in split)} {split[0][2]}"


def _near(one: Place, other: Place) -> bool:
    return all(1 / SAME <= a / b <= SAME for a, b in zip(one, other, strict=True))


def _draw_symbols(axis: Axes, point: TimePoint, marker: str) -> None:
    colour = style.colour(point.role)
    looks: dict[str, Any] = {"linestyle": "", "marker": marker, "zorder": 5}
    looks["markeredgecolor"] = colour
    half: dict[str, Any] = {"fillstyle": "left"} if point.incomplete else {}
    axis.plot(*([v] for v in complexity(point)), markerfacecolor=colour, markersize=CLOSED, **looks, **half)
    if not has_time(point):
        return
    axis.plot(
        *([v] for v in took(point)), markerfacecolor="white", markersize=OPEN, markeredgewidth=1.1, **looks
    )
    line: dict[str, Any] = {"color": colour, "linewidth": 0.7, "alpha": 0.7, "zorder": 3}
    axis.plot(*zip(complexity(point), took(point), strict=True), **line)
    if ends := bar(point):
        axis.plot(*zip(*ends, strict=True), color=colour, linewidth=1.6, alpha=0.5, zorder=4)


def _sweeps(points: Sequence[TimePoint]) -> list[list[TimePoint]]:
    """Each kernel or step with its points at all values of the parameter, sorted by the value."""

    def value(point: TimePoint) -> tuple[bool, float, str]:
        try:
            return False, float(point.at), ""
        except ValueError:
            return True, 0.0, point.at

    sweeps: dict[tuple[str, str, str], list[TimePoint]] = {}
    for number, point in enumerate(points):
        # Points without a value of the parameter are on their own.
        alone = point.rank if point.at else str(number)
        sweeps.setdefault((point.label, point.role, alone), []).append(point)
    return [sorted(sweep, key=value) for sweep in sweeps.values()]
