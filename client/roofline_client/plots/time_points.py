"""Points of the time-based roofline: their symbols, what joins them, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from .. import units
from ..model_records import TimePoint
from ..names import clean
from . import style
from .labels import Labels, shortened
from .marks import LONGEST_KEY
from .scales import is_drawable

MOST_NAMED = 9
LONGEST_NAME = 22
SAME = 1.3  # symbols within this factor of each other are told once where they are told the same
ROOM = 8.0  # points: a sign at an open symbol that finds no place so near is left out
Place = tuple[float, float]  # bytes, FLOPs


class Told(NamedTuple):
    """A word and where it stands."""

    word: str
    colour: str
    place: Place


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
) -> list[str]:
    """Symbols, what joins them, and names; the key to the names that became numbers or letters."""
    for point in points:
        _symbols(axis, point)
        labels.keep_off(*complexity(point))
        if has_time(point):
            labels.keep_off(*took(point))
    chains = _sweeps(points)
    told: list[Told] = []
    for chain in chains:
        _join(axis, chain)
        for point in chain[:-1]:
            _tell(labels, told, Told(clean(point.at), style.colour(point.role), complexity(point)), 12.0)
    key: list[str] = []
    opened = []
    # The points come worth most time first.
    for chain in chains[:MOST_NAMED]:
        point, swept = chain[-1], len(chain) > 1
        name = clean(point.label)
        value = f" {clean(point.at)}" if swept else ""
        if len(name + value) > LONGEST_NAME:
            name = _sign(start + len(key), swept)
            key.append(f"{name} {_worth(point, over if swept else '')}")
        colour = style.colour(point.role)
        labels.at_point(*complexity(point), name + value, colour)
        opened.append((point, Told(name + value, colour, took(point))))
        opened += [(p, Told(clean(p.at), colour, took(p))) for p in chain[:-1]]
    told.clear()
    # Last, so that no closed symbol loses its place to the repetition.
    for point, sign in opened:
        if has_time(point) and not _near(complexity(point), sign.place):
            _tell(labels, told, sign, ROOM)
    return key


def _tell(labels: Labels, told: list[Told], sign: Told, farthest: float) -> None:
    """Write a word, unless it stands nearby in the same colour."""
    said = (sign.word, sign.colour)
    if not any((other.word, other.colour) == said and _near(other.place, sign.place) for other in told):
        labels.at_point(*sign.place, sign.word, sign.colour, farthest=farthest)
        told.append(sign)


def _near(one: Place, other: Place) -> bool:
    return all(1 / SAME <= a / b <= SAME for a, b in zip(one, other, strict=True))


def _sign(number: int, swept: bool) -> str:
    """What stands for a long name: a letter where numbers are values of the parameter."""
    return chr(ord("A") + number - 1) if swept and number <= 26 else f"{number}"


def _worth(point: TimePoint, over: str) -> str:
    launches = f"{point.launches:,} launch{'es' if point.launches != 1 else ''}"
    where = f" at {clean(over)} {clean(point.at)}" if over else ""
    name = shortened(clean(point.label), LONGEST_KEY)
    bound = f", {clean(point.bound)}" if point.bound else ""
    return f"{name} ({units.show(point.time)} in {launches}{where}{bound})"


def _symbols(axis: Axes, point: TimePoint) -> None:
    colour = style.colour(point.role)
    looks: dict[str, Any] = {"linestyle": "", "marker": style.marker(point.role), "zorder": 5}
    looks["markeredgecolor"] = colour
    half: dict[str, Any] = {"fillstyle": "left"} if point.incomplete else {}
    axis.plot(*([v] for v in complexity(point)), markerfacecolor=colour, markersize=5.5, **looks, **half)
    if not has_time(point):
        return
    axis.plot(
        *([v] for v in took(point)), markerfacecolor="white", markersize=6.5, markeredgewidth=1.1, **looks
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
