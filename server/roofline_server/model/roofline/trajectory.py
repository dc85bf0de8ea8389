"""Roofline scaling trajectories: a role over the jobs of an experiment (Ibrahim, Williams, Oliker 2018).

A stop is the role in all jobs with one value of the parameter, its point that of one node (Javed, Ibrahim, Lu
2019, whose figures have FLOP/s per node), so that it compares with the roof of a node. Speedup is throughput
over that of the first stop, in examples; scaling efficiency is speedup over the growth of the parameter,
where that is an amount of resources. Nothing depends on the order in which jobs are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Path, Stop
from roofline.answers.values import Provenance, Scope, Value, value

from ...sentences import trajectories as texts
from ...sentences.wording import joined
from .points import Level
from .roofs import MINIMUM

# Parameters, or tags, that count what work is spread over: twice as much could at best be twice as fast.
RESOURCES = frozenset(("nodes", "ranks", "workers", "gpus", "threads", "cores"))
PS = "ps"
STEPS = "steps/s"
SAME = 0.05  # relative change below which a number stays
DIGITS = frozenset("0123456789")


class Reading(NamedTuple):
    """A role in one job. points: its point by the level of the bytes; none where FLOPs or bytes are not
    known, and `without` then stands for it."""

    job: str
    at: str  # value of the parameter
    points: Mapping[str, RoofPoint]
    without: RoofPoint
    throughput: Value
    step_time: Value
    single_step: bool = False  # of a rank's FLOPs no more than one step is known
    failure: str = ""  # how the job failed; "": it did not
    steps: int = 0  # of how many the numbers are
    sizes: Mapping[str, str] = {}  # what else was tagged or counted, by its name


# -- order --------------------------------------------------------------------------------------------------


def number_of(text: str) -> float | None:
    """The finite number that a value of a parameter is; None: it is none."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and text.isascii() and "_" not in text else None


def in_order(texts: Iterable[str]) -> list[list[str]]:
    """Values of a parameter in order, those that are one value ("4", "4.0") together.

    By size where all are numbers, else as text in which numbers go by size: b2 before b10.
    """
    every = sorted(set(texts), key=lambda text: (len(text), text))
    numbers = {text: number_of(text) for text in every}
    if all(number is not None for number in numbers.values()):
        groups: dict[float, list[str]] = {}
        for text, number in numbers.items():
            groups.setdefault(number or 0.0, []).append(text)
        return [groups[number] for number in sorted(groups)]
    return [[text] for text in sorted(every, key=_natural)]


def _natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    parts = [(digits, "".join(part)) for digits, part in groupby(text, DIGITS.__contains__)]
    return [(0, int(part), "") if digits else (1, 0, part) for digits, part in parts], text


# -- stops --------------------------------------------------------------------------------------------------


def path(role: str, over: str, readings: Sequence[Reading]) -> Path:
    """One role over the parameter. Stops are compared by one level of bytes: that which all of them know."""
    level = level_of(readings)
    stops = []
    for same in in_order(r.at for r in readings):
        mine = sorted((r for r in readings if r.at in same), key=lambda r: _natural(r.job))
        stops.append(_stop(same[0], mine, level))
    # Named for parameter servers, an efficiency would be read as how well more of them are used.
    resource = PS if role == PS else over
    compared = []
    for stop in stops:
        speedup = _speedup(stop.throughput, stops[0].throughput)
        efficiency = _efficiency(speedup, stop.at, stops[0].at, resource)
        compared.append(stop._replace(speedup=speedup, efficiency=efficiency))
    return Path(role, compared, _words(over, compared))


def failed_beside_others(readings: Sequence[Reading]) -> set[str]:
    """Jobs that failed where another job with the same value of the parameter did not: what they did until
    then is no repetition of it."""
    found = set()
    for same in in_order(r.at for r in readings):
        mine = [r for r in readings if r.at in same]
        failed = {r.job for r in mine if r.failure}
        if len(failed) < len(mine):
            found |= failed
    return found


def level_of(readings: Sequence[Reading]) -> str:
    """Level of the bytes by which these can be compared: main memory where all that have points know it.

    "": none have points. GPU and CPU call their main memory by different names: "main" stands for either.
    """
    known = [set(map(_main, r.points)) for r in readings if r.points]
    if not known:
        return ""
    common = set.intersection(*known)
    return next((level for level in ("main", MINIMUM) if level in common), MINIMUM)


def comparable(known: Sequence[Level], placed: str) -> list[Level]:
    """Of a job's levels those by which jobs compare: the bytes of tensors, and main memory. placed: at which
    the job stands (`summary.placed`): cache misses fewer than the bytes of tensors say less than these."""
    names = (MINIMUM,) if placed == MINIMUM else (MINIMUM, "main")
    return [level for level in known if _main(level.name) in names]


def _main(level: str) -> str:
    return "main" if level in ("dram", "hbm") else level


def _stop(at: str, readings: Sequence[Reading], level: str) -> Stop:
    found = [p for r in readings for name, p in r.points.items() if _main(name) == level]
    point = pooled_point(found) if found else readings[0].without
    return Stop(
        at,
        [r.job for r in readings],
        point,
        throughput=_pooled([r.throughput for r in readings]),
        speedup=Value(None, "1"),
        efficiency=Value(None, "1"),
        step_time=_pooled([r.step_time for r in readings]),
    )


def pooled_point(points: Sequence[RoofPoint]) -> RoofPoint:
    """The median of a role's points in several jobs, number by number. The words are those of the job nearest
    to it, and its spread over steps is known of a single job only."""
    if len(points) == 1:
        return points[0]
    reached = _pooled([p.flops_per_second for p in points])
    attainable = _pooled([p.attainable for p in points])

    def distance(p: RoofPoint) -> tuple[float, str]:
        return abs((p.flops_per_second.value or 0.0) - (reached.value or 0.0)), p.host

    nearest = min(points, key=distance)
    headroom = nearest.headroom
    if attainable.value is not None and reached.value:
        times = attainable.value / reached.value
        headroom = Value(times, "1", Provenance.ESTIMATED, Scope.NODE, reason=attainable.reason)
    return nearest._replace(
        flops_per_second=reached,
        intensity=_pooled([p.intensity for p in points]),
        attainable=attainable,
        headroom=headroom,
        intensity_spread=None,
        flops_spread=None,
        time=_pooled([p.time for p in points]),
        flops_per_joule=_pooled([p.flops_per_joule for p in points]),
        incomplete="; ".join(sorted({p.incomplete for p in points if p.incomplete})),
    )


def _pooled(values: Sequence[Value]) -> Value:
    """The median of those that are known and of the unit that most have; else the first reason."""
    known = [v for v in values if v.value is not None]
    if len(known) < 2:
        return known[0] if known else values[0]
    units = [v.unit for v in known]
    unit = max(sorted(set(units)), key=units.count)
    same = [v for v in known if v.unit == unit]
    origins = {v.provenance for v in same}
    origin = origins.pop() if len(origins) == 1 else Provenance.ESTIMATED
    coverages = [v.coverage for v in same if v.coverage is not None]
    reasons = sorted({v.reason for v in same if v.reason})
    middle = median(v.value for v in same if v.value is not None)
    coverage = min(coverages, default=None)
    return Value(middle, unit, origin, same[0].scope, coverage, "; ".join(reasons))


# -- against the first --------------------------------------------------------------------------------------


def _speedup(now: Value, first: Value) -> Value:
    if now.value is None:
        return Value(None, "1", reason=now.reason)
    if not first.value:
        return Value(None, "1", reason=first.reason or texts.NO_FIRST_THROUGHPUT)
    if STEPS in (now.unit, first.unit):
        return Value(None, "1", reason=texts.STEPS_ONLY)
    if now.unit != first.unit:
        return Value(None, "1", reason=texts.other_unit(now.unit, first.unit))
    return value(now.value / first.value, "1", now.provenance, Scope.UNSPECIFIED)


def _efficiency(speedup: Value, at: str, first: str, over: str) -> Value:
    if over not in RESOURCES:
        why = texts.NO_EFFICIENCY.get(over) or texts.no_resource(over, RESOURCES)
        return Value(None, "1", reason=why)
    if speedup.value is None:
        return Value(None, "1", reason=speedup.reason)
    now, begin = number_of(at), number_of(first)
    if now is None or begin is None or now <= 0 or begin <= 0:
        return Value(None, "1", reason=texts.no_number(over))
    return speedup._replace(value=speedup.value / (now / begin))


# -- in words -----------------------------------------------------------------------------------------------


def _words(over: str, stops: Sequence[Stop]) -> str:
    """How its numbers change from the first stop to the last; without two stops that compare, why not."""
    if len(stops) < 2:
        return texts.one_value(over)
    placed = [s for s in stops if s.point.flops_per_second.value and s.point.intensity.value]
    if not placed:
        return texts.NO_POINT  # throughput is the whole job's: it stands with its training role
    points = texts.one_point(placed[0].at) if len(placed) == 1 else _change_of_points(over, placed)
    first, last = stops[0], stops[-1]
    if last.speedup.value is None:
        return points
    begin, end = first.throughput, last.throughput
    throughput = texts.throughput(
        begin.value or 0.0, end.value or 0.0, begin.unit, end.unit, last.speedup.value
    )
    if last.efficiency.value is not None:
        throughput = texts.scaling(throughput, last.efficiency.value, over, last.at)
    return joined(points, throughput)


def _change_of_points(over: str, stops: Sequence[Stop]) -> str:
    first, last = stops[0], stops[-1]
    reached = _change([(s.at, s.point.flops_per_second.value or 0.0) for s in stops])
    intensity = _change([(s.at, s.point.intensity.value or 0.0) for s in stops])
    # How FLOP/s and intensity move together says what changed; other pairs have no one meaning.
    meaning = ""
    if reached.trend == 0 and intensity.trend == 0:
        meaning = texts.STAYS
    elif reached.trend < 0 and intensity.trend == 0:
        meaning = texts.WAITS_MORE
    elif reached.trend < 0 and intensity.trend < 0:
        meaning = texts.MORE_BYTES
        before, after = first.point.headroom.value, last.point.headroom.value
        if before and after and _trend(before, after) == 0:
            meaning = texts.MORE_BYTES_ALONG_ROOF
        elif before and after and _trend(before, after) > 0:
            meaning = texts.MORE_BYTES_BELOW_ROOF
    on_gpu = {bool(s.point.device) for s in stops}
    where = "GPU or node" if len(on_gpu) > 1 else "GPU" if on_gpu == {True} else "node"
    return texts.moves(over, (first.at, last.at), where, reached, intensity, meaning)


def _change(numbers: Sequence[tuple[str, float]]) -> texts.Change:
    """numbers: (value of the parameter, number) in order."""
    first, last = numbers[0][1], numbers[-1][1]
    peak = max(numbers[1:-1], key=itemgetter(1), default=None)
    dip = min(numbers[1:-1], key=itemgetter(1), default=None)
    if peak and _trend(max(first, last), peak[1]) <= 0:
        peak = None
    if dip and _trend(min(first, last), dip[1]) >= 0:
        dip = None
    return texts.Change(first, last, _trend(first, last), peak, dip)


def _trend(before: float, after: float) -> int:
    """1: it rises, -1: it falls, 0: it stays."""
    if abs(after - before) <= SAME * max(abs(before), abs(after)):
        return 0
    return 1 if after > before else -1
