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
from statistics import median
from typing import NamedTuple

from roofline.answers.roofline import RoofPoint
from roofline.answers.trajectory import Path, Stop
from roofline.answers.values import Provenance, Scope, Spread, Value, value

from .points import Level
from .roofline import MINIMUM
from .wording import path_in_words

# Parameters, or tags, that count what work is spread over: twice as much could at best be twice as fast.
RESOURCES = frozenset(("nodes", "ranks", "workers", "gpus", "threads", "cores"))
PS = "ps"
NO_EFFICIENCY = {
    PS: "parameter servers serve the workers: more of them are no more hands for the work",
    "batch": "a larger batch is no more of the machine: see speedup and FLOP/s per node",
    "ranks_per_node": "ranks of one node share its cores: more of them are no more of the machine",
}
STEPS = "steps/s"
NO_SPEEDUP = "throughput is in steps, and nobody says how many examples a step has: it may be more work"
DIGITS = frozenset("0123456789")


class Reading(NamedTuple):
    """A role in one job. points: its point by the level of the bytes; none where FLOPs or bytes are not
    known, and `without` is then what stands for it."""

    job: str
    at: str  # value of the parameter
    points: Mapping[str, RoofPoint]
    without: RoofPoint
    throughput: Value
    step_time: Value


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
    stops = [_compared(stop, stops[0], over, role) for stop in stops]
    return Path(role, stops, path_in_words(over, stops))


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
    """The median of a role's points in several jobs, number by number. What is said of it is what is said of
    the job nearest to it, and its spread over steps is known of a single job only."""
    if len(points) == 1:
        return points[0]
    reached, intensity = (
        _pooled([getattr(p, name) for p in points]) for name in ("flops_per_second", "intensity")
    )
    attainable = _pooled([p.attainable for p in points])
    nearest = min(
        points, key=lambda p: (abs((p.flops_per_second.value or 0.0) - (reached.value or 0.0)), p.host)
    )
    headroom = nearest.headroom
    if attainable.value is not None and reached.value:
        headroom = Value(
            attainable.value / reached.value, "1", Provenance.ESTIMATED, Scope.NODE, reason=attainable.reason
        )
    none: Spread | None = None
    return nearest._replace(
        flops_per_second=reached,
        intensity=intensity,
        attainable=attainable,
        headroom=headroom,
        intensity_spread=none,
        flops_spread=none,
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


def _compared(stop: Stop, first: Stop, over: str, role: str) -> Stop:
    speedup = _speedup(stop.throughput, first.throughput)
    # Named for the role, it would be read as how well more of the role are used.
    resource = PS if role == PS else over
    return stop._replace(speedup=speedup, efficiency=_efficiency(speedup, stop.at, first.at, resource))


def _speedup(now: Value, first: Value) -> Value:
    if now.value is None:
        return Value(None, "1", reason=now.reason)
    if not first.value:
        return Value(None, "1", reason=first.reason or "the first stop has no throughput")
    if STEPS in (now.unit, first.unit):
        return Value(None, "1", reason=NO_SPEEDUP)
    if now.unit != first.unit:
        return Value(None, "1", reason=f"throughput is in {now.unit}, that of the first stop in {first.unit}")
    return value(now.value / first.value, "1", now.provenance, Scope.UNSPECIFIED)


def _efficiency(speedup: Value, at: str, first: str, over: str) -> Value:
    if over not in RESOURCES:
        default = f"{over} is not known to be an amount of resources: {', '.join(sorted(RESOURCES))} are"
        return Value(None, "1", reason=NO_EFFICIENCY.get(over, default))
    if speedup.value is None:
        return Value(None, "1", reason=speedup.reason)
    now, begin = number_of(at), number_of(first)
    if now is None or begin is None or now <= 0 or begin <= 0:
        return Value(None, "1", reason=f"{over} is no number above zero at every stop")
    return speedup._replace(value=speedup.value / (now / begin))
