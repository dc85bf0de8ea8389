"""What a path under a roof says, in one sentence: how its numbers change from the first stop to the last.

Read as by Ibrahim, Williams, Oliker (2018): a point that sinks at the same intensity uses less of the
machine; one that goes to the left moves more bytes for the same work. Also how numbers stand in any sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.trajectory import Stop

SAME = 0.05  # relative change below which something stays
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def path_in_words(over: str, stops: Sequence[Stop]) -> str:
    """One sentence; without two stops that can be compared it says so."""
    if len(stops) < 2:
        return f"one value of {over} only: a path needs two"
    placed = [s for s in stops if s.point.flops_per_second.value and s.point.intensity.value]
    if not placed:
        return "no stop has a point"  # throughput is the whole job's: its training role tells it
    parts = [_of_points(over, placed) if len(placed) > 1 else _unplaced(placed), _of_throughput(over, stops)]
    return "; ".join(filter(None, parts))


def _of_points(over: str, stops: Sequence[Stop]) -> str:
    reached = [(s.at, s.point.flops_per_second.value or 0.0) for s in stops]
    intensity = [(s.at, s.point.intensity.value or 0.0) for s in stops]
    where = "GPU" if stops[0].point.device else "node"
    first, last = stops[0], stops[-1]
    sinks, moves = _change(reached, "FLOP/s"), _change(intensity, "FLOP/byte")
    said = f"from {over} {first.at} to {last.at} FLOP/s per {where} {sinks} while intensity {moves}"
    meaning = _meaning(stops)
    return f"{said}: {meaning}" if meaning else said


def _meaning(stops: Sequence[Stop]) -> str:
    """What the way from the first point to the last stands for; "": nothing that these numbers show."""
    first, last = stops[0].point, stops[-1].point
    down = _trend(first.flops_per_second.value or 0.0, last.flops_per_second.value or 0.0)
    left = _trend(first.intensity.value or 0.0, last.intensity.value or 0.0)
    if down < 0 and left == 0:
        return "as much work for its bytes, but it waits more, has more overhead, or fewer ranks do it there"
    if down < 0 and left < 0:
        return f"more bytes for each FLOP{_from_roof(first.headroom.value, last.headroom.value)}"
    if down == 0 and left == 0:
        return "it stays where it is"
    return ""


def _from_roof(before: float | None, after: float | None) -> str:
    if not before or not after:
        return ""
    return {0: ", along its roof", 1: ", and farther below its roof"}.get(_trend(before, after), "")


def _unplaced(stops: Sequence[Stop]) -> str:
    return f"only {stops[0].at} has a point"


def _of_throughput(over: str, stops: Sequence[Stop]) -> str:
    first, last = stops[0], stops[-1]
    if last.speedup.value is None:
        return ""
    begin, end = (f"{number(s.throughput.value or 0.0)} {s.throughput.unit}" for s in (first, last))
    said = f"throughput goes from {begin} to {end}, {last.speedup.value:.3g}x"
    if last.efficiency.value is None:
        return said
    return f"{said} ({last.efficiency.value:.0%} scaling efficiency at {over} {last.at})"


def _change(numbers: Sequence[tuple[str, float]], unit: str) -> str:
    """(value of the parameter, number) in order, as a verb with its numbers, and a turn on the way."""
    first, last = numbers[0][1], numbers[-1][1]
    trend = _trend(first, last)
    if trend == 0:
        said = f"stays at {quantity(first, unit)}"
    else:
        said = f"{'rises' if trend > 0 else 'falls'} from {quantity(first, unit)} to {quantity(last, unit)}"
    inner = numbers[1:-1]
    top, low = max(inner, key=_second, default=None), min(inner, key=_second, default=None)
    turns = []
    if top and _trend(max(first, last), top[1]) > 0:
        turns.append(f"over {quantity(top[1], unit)} at {top[0]}")
    if low and _trend(min(first, last), low[1]) < 0:
        turns.append(f"through {quantity(low[1], unit)} at {low[0]}")
    return " ".join((said, *turns))


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def _trend(before: float, after: float) -> int:
    """1: it rises, -1: it falls, 0: it stays."""
    if abs(after - before) <= SAME * max(abs(before), abs(after)):
        return 0
    return 1 if after > before else -1


def quantity(amount: float, unit: str) -> str:
    """An amount with its unit: "50.4 GFLOP/s", "2.51 GB/s", "57.9 FLOP/byte"."""
    if unit in ("FLOP/s", "B/s"):
        scale, prefix = next(((s, p) for s, p in _PREFIXES if abs(amount) >= s), (1.0, ""))
        return f"{number(amount / scale)} {prefix}{unit}"
    return f"{number(amount)} {unit}"


def number(amount: float) -> str:
    """Three digits, never a power of ten."""
    if abs(amount) >= 999.5:
        return f"{amount:,.0f}"
    return f"{amount:.3g}" if abs(amount) >= 1e-4 else "0"


def many(amount: float, what: str) -> str:
    """ "1 launch", "1.5 launches", "12,000 launches": what: the singular."""
    said = number(amount)
    return f"{said} {what}" if said == "1" else f"{said} {what}{'es' if what.endswith('ch') else 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names and how many more there are: "a, b, c, d and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
