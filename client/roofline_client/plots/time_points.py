"""Points of the time-based roofline: their symbols, what joins them, and their names."""

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
MOST_UNNAMED = 2  # told of those that have no name in the picture
LONGEST_NAME = 22
CLOSED, OPEN = 5.5, 6.5  # sizes of symbols, points
SAME = 1.3  # symbols within this factor of each other are told once where they are told the same
ROOM = 8.0  # points: a sign at an open symbol that finds no place so near is left out
Place = tuple[float, float]  # bytes, FLOPs


class Told(NamedTuple):
    """A word and where it stands."""

    word: str
    colour: str
    place: Place
    size: float  # of the symbol, points


def has_place(point: TimePoint) -> bool:
    return is_drawable(point.flops.value, point.bytes.value)


def has_time(point: TimePoint) -> bool:
    return is_drawable(point.time_bytes, point.time_flops)


def complexity(point: TimePoint) -> Place:
    """Where the closed symbol stands."""
    return point.bytes.value or 0.0, point.flops.value or 0.0


def took(point: TimePoint) -> Place:
    """Where the open symbol stands."""
    return point.time_bytes, point.time_flops


def bar(point: TimePoint) -> list[Place]:
    """The ends of its bar from 5 to 95 %; none: it has none."""
    spread = point.time_spread
    if not has_time(point) or spread is None or not is_drawable(spread.p5, spread.p50, spread.p95):
        return []
    x, y = took(point)
    # A call that takes longer lies further along the diagonal.
    return [(x * factor, y * factor) for factor in (spread.p5 / spread.p50, spread.p95 / spread.p50)]


def draw_points(
    axis: Axes, labels: Labels, points: Sequence[TimePoint], over: str, start: int = 1
) -> tuple[list[str], list[str]]:
    """Symbols, what joins them, and names; the key to the names that became numbers or letters, and what is
    said of those that have no name."""
    for point in points:
        _symbols(axis, point)
        labels.keep_off(*complexity(point), CLOSED)
        if has_time(point):
            labels.keep_off(*took(point), OPEN)
    chains = _sweeps(points)
    for chain in chains:
        _join(axis, chain)
    key: list[str] = []
    # The points come worth most time first.
    named = [_named(chain, over, key, start) for chain in chains[:MOST_NAMED]]
    values = [(p, clean(p.at)) for chain in chains for p in chain[:-1]]
    _write(labels, [_closed(*sign) for sign in named], math.inf)
    _write(labels, [_closed(*sign) for sign in values], 12.0)
    # Last, so that no closed symbol loses its place to the repetition.
    _write(labels, [opened for sign in [*named, *values] if (opened := _opened(*sign))], ROOM)
    return key, _unnamed(chains[MOST_NAMED:])


def _unnamed(chains: Sequence[Sequence[TimePoint]]) -> list[str]:
    """Of what took least time, which stands in the picture without a name."""
    if not chains:
        return []
    told = [f"{clean(chain[-1].label)} ({units.show(chain[-1].time)})" for chain in chains]
    more = f" and {len(told) - MOST_UNNAMED} more" if len(told) > MOST_UNNAMED else ""
    return [f"Drawn without a name: {', '.join(told[:MOST_UNNAMED])}{more}."]


def _named(chain: Sequence[TimePoint], over: str, key: list[str], start: int) -> tuple[TimePoint, str]:
    """The last point of a sweep and its name, or the sign that the key explains."""
    point, swept = chain[-1], len(chain) > 1
    name = clean(point.label)
    value = f" {clean(point.at)}" if swept else ""
    # Sizes beside a symbol are many numbers in little room.
    if len(name + value) > LONGEST_NAME or "×" in name:
        name = _sign(start + len(key), swept)
        key.append(f"{name} {_worth(point, over if swept else '')}")
    return point, name + value


def _closed(point: TimePoint, word: str) -> Told:
    return Told(word, style.colour(point.role), complexity(point), CLOSED)


def _opened(point: TimePoint, word: str) -> Told | None:
    """None: it has no open symbol, or that lies at the closed one."""
    if not has_time(point) or _near(complexity(point), took(point)):
        return None
    return Told(word, style.colour(point.role), took(point), OPEN)


def _write(labels: Labels, signs: Sequence[Told], farthest: float) -> None:
    """Signs on one spot are written together, and the same word once."""
    groups: list[list[Told]] = []
    for sign in signs:
        for group in groups:
            first = group[0]
            near = sign.colour == first.colour and _near(sign.place, first.place)
            if (
                near
                and _swept(sign.word) == _swept(first.word)
                and len(_joined([each.word for each in [*group, sign]])) <= LONGEST_NAME
            ):
                group.append(sign)
                break
        else:
            groups.append([sign])
    for group in groups:
        word, (_, colour, place, size) = _joined([each.word for each in group]), group[0]
        labels.at_point(*place, word, colour, size, farthest)


def _swept(word: str) -> str:
    """The value of the parameter in a sign with a name."""
    return word.rpartition(" ")[2] if " " in word else ""


def _joined(words: Sequence[str]) -> str:
    """ "A, B 64" of "A 64" and "B 64"."""
    words = list(dict.fromkeys(words))
    split = [word.rpartition(" ") for word in words]
    if len({last for _, _, last in split}) > 1 or not all(front for front, _, _ in split):
        return ", ".join(words)
    return f"{', '.join(front for front, _, _ in split)} {split[0][2]}"


def _near(one: Place, other: Place) -> bool:
    return all(1 / SAME <= a / b <= SAME for a, b in zip(one, other, strict=True))


def _sign(number: int, swept: bool) -> str:
    """What stands for a long name: a letter where numbers are values of the parameter."""
    return chr(ord("A") + number - 1) if swept and number <= 26 else f"{number}"


def _worth(point: TimePoint, over: str) -> str:
    launches = f" in {point.launches:,} launches" if point.launches != 1 else ""
    where = f" at {clean(over)} {clean(point.at)}" if over else ""
    name = shortened(clean(point.label), LONGEST_KEY)
    bound = f", {clean(point.bound)}" if point.bound else ""
    return f"{name} ({units.show(point.time)}{launches}{where}{bound})"


def _symbols(axis: Axes, point: TimePoint) -> None:
    colour = style.colour(point.role)
    looks: dict[str, Any] = {"linestyle": "", "marker": style.marker(point.role), "zorder": 5}
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
    """The same kernel or step at every value of the parameter, in its order."""
    chains: dict[tuple[str, str, str], list[TimePoint]] = {}
    for at, point in enumerate(points):
        chains.setdefault((point.label, point.role, point.rank if point.at else str(at)), []).append(point)
    return [sorted(chain, key=_order) for chain in chains.values()]


def _order(point: TimePoint) -> tuple[bool, float, str]:
    try:
        return False, float(point.at), ""
    except ValueError:
        return True, 0.0, point.at


def _join(axis: Axes, chain: Sequence[TimePoint]) -> None:
    if len(chain) < 2:
        return
    looks: dict[str, Any] = {"color": style.colour(chain[0].role), "linewidth": 1.0, "zorder": 3.5}
    axis.plot(*zip(*map(complexity, chain), strict=True), **looks)
    timed = [took(p) for p in chain if has_time(p)]
    if len(timed) > 1:
        axis.plot(*zip(*timed, strict=True), **looks, linestyle=(0, (3, 1.5)))
