"""Counts of a rank on two kinds of core with a PMU each, of which one counts at a time. Pure.

perf must not scale: it would take the time on the other kind of core for time without a counter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .groups import pmu_of
from .output import Reading
from .probe import Counted

Growth = tuple[float | None, float]  # of a metric, and the share of the time in which it is known


def growths(feeds: Mapping[str, Sequence[Counted]], readings: Mapping[str, Reading]) -> dict[str, Growth]:
    """What each metric grew in an interval in which the process ran."""
    times = _times(feeds, readings)
    kinds = {(pmu_of(one.event), _kind(metric)) for metric, events in feeds.items() for one in events}
    found: dict[str, Growth] = {}
    for metric, events in feeds.items():
        amount, known = 0.0, 0.0
        of_pmus = {pmu_of(one.event): one for one in events}
        for pmu, time in times.items():
            one = of_pmus.get(pmu)
            reading = readings.get(one.name) if one else None
            if one and reading and reading.value is not None and reading.running > 0:
                amount += reading.value * one.event.factor * time / reading.running
                known += reading.running
            elif one is None and (pmu, _kind(metric)) in kinds:
                known += time  # what these cores do of the kind is in other metrics: nothing of it here
        found[metric] = (amount, min(1.0, known)) if known else (None, 0.0)
    return found


def _times(feeds: Mapping[str, Sequence[Counted]], readings: Mapping[str, Reading]) -> dict[str, float]:
    """Share of its time that the process spent on the cores of each PMU: that of the event that counted most,
    for events that take turns count a part of it."""
    longest: dict[str, float] = {}
    for events in feeds.values():
        for one in events:
            reading = readings.get(one.name)
            if reading and reading.value is not None and reading.running > 0:
                pmu = pmu_of(one.event)
                longest[pmu] = max(longest.get(pmu, 0.0), reading.running)
    whole = sum(longest.values())
    return {pmu: share / whole for pmu, share in longest.items()}


def _kind(metric: str) -> str:
    return metric.partition(".")[0]  # "flops" of "flops.f32.256"
