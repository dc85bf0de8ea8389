"""perf's counts per interval as cumulative values: one row per interval and socket. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...records import CounterSet, Metric, MetricKind, Provenance, Scope
from . import hybrid as two_kinds
from .child import Interval
from .output import Reading
from .probe import WITNESS, Counted

CACHE_LINE = 64
LLC_MISSES, LLC_BOUND = "llc_misses", "dram_bytes.llc_bound"

# What perf prints already scaled, as sysfs asks it to: that is then the unit, whatever the event file has.
_UNITS = {"Bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}

Values = tuple[int | float | None, ...]


class CounterRow(NamedTuple):
    time_ns: int
    instance: str
    values: Values


def counter_set(name: str, counted: Sequence[Counted], scope: Scope = Scope.PROCESS) -> CounterSet:
    """The schema of these events: per metric its count, then its coverage; last what follows from them."""
    counts: dict[str, Metric] = {}
    for _, event in counted:
        provenance = Provenance.ESTIMATED if event.estimated else Provenance.MEASURED
        counts[event.metric] = Metric(event.metric, MetricKind.CUMULATIVE, event.unit, scope, provenance)
    if LLC_MISSES in counts:
        counts[LLC_BOUND] = Metric(LLC_BOUND, MetricKind.CUMULATIVE, "byte", scope, Provenance.ESTIMATED)
    metrics = []
    for count in counts.values():
        share = f"{count.name}.coverage"
        metrics.append(count)
        metrics.append(Metric(share, MetricKind.GAUGE, "1", scope, is_double=True, coverage_of=count.name))
    return CounterSet(name, tuple(metrics))


class Totals:
    """Sums of what was counted, over every perf process that counted it."""

    def __init__(self, counted: Sequence[Counted], hybrid: bool = False) -> None:
        """hybrid: of two kinds of core, with a PMU each, and not scaled by perf."""
        self._feeds: dict[str, list[Counted]] = {}
        for one in counted:
            feeds = self._feeds.setdefault(one.event.metric, [])
            # A perf that leaves the PMU's number out of a name prints several lines of it, added up once.
            if one.name not in {other.name for other in feeds}:
                feeds.append(one)
        self._hybrid = hybrid
        self._sums: dict[str, dict[str, float]] = {}  # by instance
        # By instance the events that it has had: the PMU of another socket is not printed for it.
        self._printed: dict[str, frozenset[str]] = {}

    def begun(self, time_ns: int, interval: Interval) -> list[CounterRow]:
        """Where counting starts, by its first interval: from 0; or again, after a gap that nobody counted."""
        rows = []
        for instance in _by_instance(interval.readings):
            coverage = 0.0 if instance in self._sums else None
            rows.append(
                CounterRow(time_ns, instance, self._row(self._sums.setdefault(instance, {}), coverage))
            )
        return rows

    def _row(self, sums: Mapping[str, float], coverage: float | None) -> Values:
        values: list[int | float | None] = []
        for metric in self._feeds:
            values += (round(sums.get(metric, 0.0)), coverage)
        return self._with_bound(values)

    def add(self, interval: Interval) -> list[CounterRow]:
        """A row for each socket in it; counts of a metric that perf missed are absent and add nothing."""
        rows = []
        for instance, readings in _by_instance(interval.readings).items():
            sums = self._sums.setdefault(instance, {})
            printed = self._printed.get(instance, frozenset()) | readings.keys()
            self._printed[instance] = printed
            if WITNESS in readings and not readings[WITNESS].value:
                values = self._row(sums, None)  # it did not run: nothing to count is no count missed
            else:
                values = self._added(sums, readings, printed)
            rows.append(CounterRow(interval.time_ns, instance, values))
        return rows

    def _added(
        self, sums: dict[str, float], readings: Mapping[str, Reading], printed: frozenset[str]
    ) -> Values:
        """The row of the sums, once these readings are added to them."""
        values: list[int | float | None] = []
        of_two_kinds = two_kinds.growths(self._feeds, readings) if self._hybrid else {}
        for metric, feeds in self._feeds.items():
            asked = [one for one in feeds if one.name in printed]
            amount, coverage = of_two_kinds.get(metric) or _growth(asked, readings)
            if amount is None:
                values += (None, coverage)
                continue
            sums[metric] = sums.get(metric, 0.0) + amount
            values += (round(sums[metric]), coverage)
        return self._with_bound(values)

    def _with_bound(self, values: list[int | float | None]) -> Values:
        if LLC_MISSES in self._feeds:
            at = 2 * list(self._feeds).index(LLC_MISSES)
            misses = values[at]
            values += (None if misses is None else misses * CACHE_LINE, values[at + 1])
        return tuple(values)


def _growth(feeds: Sequence[Counted], readings: Mapping[str, Reading]) -> two_kinds.Growth:
    """Of a metric: the sum over its events, unless one of them was not counted."""
    amounts, shares = [], []
    for one in feeds:
        reading = readings.get(one.name)
        if reading is None or reading.value is None:
            return None, 0.0
        amounts.append(reading.value * _UNITS.get(reading.unit, one.event.factor))
        shares.append(reading.running)
    return (sum(amounts), min(shares)) if amounts else (None, 0.0)


def _by_instance(readings: Iterable[Reading]) -> dict[str, dict[str, Reading]]:
    """Readings by socket and event; several of one event are added up, and absent where one of them is."""
    found: dict[str, dict[str, Reading]] = {}
    for reading in readings:
        if reading.elsewhere:
            continue
        events = found.setdefault(f"socket {reading.socket}" if reading.socket else "", {})
        other = events.get(reading.event)
        if other is not None:
            if other.value is None or reading.value is None:
                reading = other._replace(value=None, running=0.0)
            else:
                total, running = other.value + reading.value, min(other.running, reading.running)
                reading = other._replace(value=total, running=running)
        events[reading.event] = reading
    return found
