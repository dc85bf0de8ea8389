"""perf's counts per interval as cumulative values: one row per interval and socket. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...records import CounterSet, Metric, MetricKind, Provenance, Scope
from .child import Interval
from .output import Reading
from .probe import WITNESS, Counted

CACHE_LINE = 64
LLC_MISSES, LLC_BOUND = "llc_misses", "dram_bytes.llc_bound"

# What perf prints already scaled, as sysfs tells it to: that is then the unit, whatever our file says.
_UNITS = {"Bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}

Values = tuple[int | float | None, ...]


class Row(NamedTuple):
    time_ns: int
    instance: str
    values: Values


def counter_set(name: str, counted: Sequence[Counted], scope: Scope = Scope.PROCESS) -> CounterSet:
    """The schema of these events: per metric its count, then its coverage; last what follows from them."""
    metrics: dict[str, Metric] = {}
    for _, event in counted:
        provenance = Provenance.ESTIMATED if event.estimated else Provenance.MEASURED
        metrics[event.metric] = Metric(event.metric, MetricKind.CUMULATIVE, event.unit, scope, provenance)
    if LLC_MISSES in metrics:
        metrics[LLC_BOUND] = Metric(LLC_BOUND, MetricKind.CUMULATIVE, "byte", scope, Provenance.ESTIMATED)
    both = [part for metric in metrics.values() for part in (metric, _coverage(metric))]
    return CounterSet(name, tuple(both))


def _coverage(of: Metric) -> Metric:
    return Metric(f"{of.name}.coverage", MetricKind.GAUGE, "1", of.scope, is_double=True, coverage_of=of.name)


class Totals:
    """Sums of what was counted, over every perf process that counted it."""

    def __init__(self, counted: Sequence[Counted], hybrid: bool = False) -> None:
        """hybrid: events of one metric share the time between them (two kinds of core), unscaled."""
        self._feeds: dict[str, list[Counted]] = {}
        for one in counted:
            feeds = self._feeds.setdefault(one.event.metric, [])
            # A perf that leaves the PMU's number out of a name prints several lines of it, added up once.
            if one.name not in {other.name for other in feeds}:
                feeds.append(one)
        self._hybrid = hybrid
        self._sums: dict[str, dict[str, float]] = {}  # by instance

    def begun(self, time_ns: int, interval: Interval) -> list[Row]:
        """Where counting starts, by its first interval: from 0; or anew, behind a gap that nobody counted."""
        rows = []
        for instance in _by_instance(interval.readings):
            coverage = 0.0 if instance in self._sums else None
            rows.append(Row(time_ns, instance, self._row(self._sums.setdefault(instance, {}), coverage)))
        return rows

    def _row(self, sums: Mapping[str, float], coverage: float | None) -> Values:
        values: list[int | float | None] = []
        for metric in self._feeds:
            values += (round(sums.get(metric, 0.0)), coverage)
        return self._with_bound(values)

    def add(self, interval: Interval) -> list[Row]:
        """A row for each socket in it; counts of a metric that perf missed are absent and add nothing."""
        return [
            Row(interval.time_ns, instance, self._added(self._sums.setdefault(instance, {}), readings))
            for instance, readings in _by_instance(interval.readings).items()
        ]

    def _added(self, sums: dict[str, float], readings: Mapping[str, Reading]) -> Values:
        if WITNESS in readings and not readings[WITNESS].value:
            return self._row(sums, None)  # it did not run: nothing to count is no count missed
        values: list[int | float | None] = []
        for metric, feeds in self._feeds.items():
            amount, running = self._of(feeds, readings)
            if amount is not None:
                sums[metric] = sums.get(metric, 0.0) + amount
                amount = round(sums[metric])
            values += (amount, running)
        return self._with_bound(values)

    def _of(self, feeds: Sequence[Counted], readings: Mapping[str, Reading]) -> tuple[float | None, float]:
        found = [(readings.get(one.name), one) for one in feeds]
        amounts = [
            (_amount(reading.value, reading.unit, one), reading.running)
            for reading, one in found
            if reading is not None and reading.value is not None
        ]
        if not amounts or (len(amounts) < len(feeds) and not self._hybrid):
            return None, 0.0
        shares = [running for _, running in amounts]
        return sum(a for a, _ in amounts), min(1.0, sum(shares)) if self._hybrid else min(shares)

    def _with_bound(self, values: list[int | float | None]) -> Values:
        if LLC_MISSES in self._feeds:
            at = 2 * list(self._feeds).index(LLC_MISSES)
            misses = values[at]
            values += (None if misses is None else misses * CACHE_LINE, values[at + 1])
        return tuple(values)


def _amount(value: float, unit: str, one: Counted) -> float:
    return value * _UNITS.get(unit, one.event.factor)


def _by_instance(readings: Iterable[Reading]) -> dict[str, dict[str, Reading]]:
    found: dict[str, dict[str, Reading]] = {}
    for reading in readings:
        of = found.setdefault(f"socket {reading.socket}" if reading.socket else "", {})
        of[reading.event] = _both(of[reading.event], reading) if reading.event in of else reading
    return found


def _both(one: Reading, other: Reading) -> Reading:
    if one.value is None or other.value is None:
        return one._replace(value=None, running=0.0)
    return one._replace(value=one.value + other.value, running=min(one.running, other.running))
