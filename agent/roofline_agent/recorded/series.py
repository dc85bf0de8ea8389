"""Counters of a recording as samples: one row per moment and scope, cumulative from the recording's begin.

A file lists value after value; a counter set has columns. Increments are summed up; totals of a whole run
become a reading of zero at its begin and of the total at its end, so that a step gets its share by time.
Totals at a moment are readings of a counter that began before the recording, and stay as they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..records import CounterSet, Metric, MetricKind, Provenance, Rank, Sample, Scope
from .recording import Counter

MAX_METRICS = 250  # of one set; each has a coverage next to it, and the server takes 512
MAX_NAME = 200
PROCESS_SCOPES = ("", "process", "cgroup", "thread")  # of the rank; all others are of parts of its node
SCOPES = {"socket": Scope.SOCKET, "gpu": Scope.GPU, "core": Scope.SOCKET, "die": Scope.SOCKET}


class SeriesColumn(NamedTuple):
    """One metric of a set."""

    name: str
    unit: str
    kind: MetricKind
    has_coverage: bool


def columns(counters: Iterable[Counter], process: bool) -> tuple[list[SeriesColumn], int]:
    """The metrics of the counters of a process, or of all others; and how many found no room."""
    found: dict[str, SeriesColumn] = {}
    left_out: set[str] = set()
    for one in counters:
        if is_of_process(one) != process or one.value is None:
            continue
        name = metric_name(one)
        if name not in found and len(found) >= MAX_METRICS:
            left_out.add(name)
            continue
        old = found.get(name)
        covered = one.coverage is not None or (old is not None and old.has_coverage)
        kind = MetricKind.GAUGE if one.kind == "gauge" else MetricKind.CUMULATIVE
        found[name] = SeriesColumn(name, one.unit or "1", old.kind if old else kind, covered)
    return list(found.values()), len(left_out)


def metric_name(one: Counter) -> str:
    """In lower case, which the store's columns do not distinguish from upper case, and printable."""
    return _storable((one.metric or one.event).lower()) or "unnamed"


def _storable(name: str) -> str:
    """As much of a file's name for something as the server takes."""
    return "".join(c if c.isprintable() else "?" for c in name[:MAX_NAME])


def is_of_process(one: Counter) -> bool:
    return one.scope.partition(" ")[0] in PROCESS_SCOPES


def counter_set(name: str, found: Iterable[SeriesColumn], scope: Scope) -> CounterSet:
    metrics: list[Metric] = []
    for c in found:
        metrics.append(Metric(c.name, c.kind, c.unit, scope, Provenance.MEASURED, True))
        if c.has_coverage:
            gauge = MetricKind.GAUGE
            metrics.append(Metric(f"{c.name}.coverage", gauge, "1", scope, Provenance.MEASURED, True, c.name))
    return CounterSet(name, tuple(metrics))


def scope_of(instance: str) -> Scope:
    return SCOPES.get(instance.partition(" ")[0], Scope.NODE)


class Series:
    """Turns the counters of one scope kind into rows. Feed them in the file's order, then `finish`."""

    def __init__(
        self, rank: Rank | None, found: list[SeriesColumn], begin_ns: int, end_ns: int | None
    ) -> None:
        """end_ns None: nobody knows when the run ended, so its totals have no place in time."""
        self._rank = rank
        self._columns = found
        self._names = {c.name for c in found}
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._sums: dict[tuple[str, str], float] = {}  # (instance, metric) -> so far
        self._read: set[str] = set()  # metrics that are cumulative in the file
        self._totals: dict[str, dict[str, float | None]] = {}  # instance -> of the whole run
        self._now: dict[str, dict[str, float | None]] = {}  # instance -> of the moment t_s
        self._coverage: dict[tuple[str, str], float] = {}
        self._t_s: float | None = None
        self._begun: set[str] = set()

    def rows(self, counters: Iterable[Counter]) -> Iterator[Sample]:
        """All rows of the counters."""
        for one in counters:
            yield from self.feed(one)
        yield from self.finish()

    def feed(self, one: Counter) -> Iterator[Sample]:
        """Rows that are complete now that this counter has come."""
        name = metric_name(one)
        if name not in self._names:
            return
        instance = "" if self._rank is not None else one.scope
        if one.t_s is None:
            self._note_coverage(instance, name, one.coverage)
            _add(self._totals.setdefault(instance, {}), name, one.value, one.kind)
            return
        if one.t_s != self._t_s:
            yield from self._moment()
            self._t_s = one.t_s
        self._note_coverage(instance, name, one.coverage)
        if one.kind == "total":
            self._read.add(name)
        _add(self._now.setdefault(instance, {}), name, one.value, one.kind)

    def _note_coverage(self, instance: str, name: str, coverage: float | None) -> None:
        if coverage is not None:
            key = (instance, name)
            self._coverage[key] = min(coverage, self._coverage.get(key, 1.0))

    def finish(self) -> Iterator[Sample]:
        """The rows that were still open, and those of totals."""
        yield from self._moment()
        if self._end_ns is None:
            # A single reading, of which only what is no total can be placed: at its begin.
            for instance, values in self._totals.items():
                gauges = {c.name: values.get(c.name) for c in self._columns if c.kind == MetricKind.GAUGE}
                if any(value is not None for value in gauges.values()):
                    yield self._row(instance, self._begin_ns, gauges)
            return
        for instance, values in self._totals.items():
            if any(c.kind == MetricKind.CUMULATIVE and c.name in values for c in self._columns):
                yield self._row(instance, self._begin_ns, self._zeros(values), has_coverage=False)
            yield self._row(instance, self._end_ns, values)

    def _zeros(self, values: dict[str, float | None]) -> dict[str, float | None]:
        return {
            c.name: 0.0
            for c in self._columns
            if c.kind == MetricKind.CUMULATIVE and values.get(c.name) is not None
        }

    def _moment(self) -> Iterator[Sample]:
        if self._t_s is None:
            return
        time_ns = self._begin_ns + round(self._t_s * 1e9)
        summed = {c.name for c in self._columns if c.kind == MetricKind.CUMULATIVE} - self._read
        for instance, values in self._now.items():
            if instance not in self._begun:
                self._begun.add(instance)
                if zeros := self._zeros({name: values[name] for name in values if name in summed}):
                    yield self._row(instance, min(self._begin_ns, time_ns), zeros, has_coverage=False)
            for name, value in values.items():
                if name in summed:
                    values[name] = self._sum(instance, name, value)
            yield self._row(instance, time_ns, values)
        self._now, self._coverage = {}, {}

    def _sum(self, instance: str, name: str, value: float | None) -> float | None:
        """The counter's reading behind an increment. One that nobody knows is a gap, behind which it goes on:
        the coverage of 0 says so, else it begins again."""
        key = (instance, name)
        sum_so_far = self._sums.get(key, 0.0)
        if value is None and key in self._sums and self._coverage.get(key) != 0:
            if not sum_so_far:
                return None  # a counter that has counted nothing yet cannot fall
            sum_so_far = 0.0
        self._sums[key] = sum_so_far + (value or 0.0)
        return self._sums[key]

    def _row(
        self, instance: str, time_ns: int, values: dict[str, float | None], has_coverage: bool = True
    ) -> Sample:
        """has_coverage: not of the zeros at a begin, as a coverage is of the time before."""
        row: list[float | None] = []
        for c in self._columns:
            row.append(values.get(c.name))
            if c.has_coverage:
                row.append(self._coverage.get((instance, c.name)) if has_coverage else None)
        return Sample(self._rank, time_ns, tuple(row), _storable(instance))


def _add(values: dict[str, float | None], name: str, value: float | None, kind: str) -> None:
    """Several events make one metric (24 memory channels): they are summed, and without one there is no sum.
    Of gauges the largest stays."""
    if name not in values:
        values[name] = value
        return
    old = values[name]
    if old is None or value is None:
        known = value if old is None else old
        values[name] = known if kind == "gauge" else None
    else:
        values[name] = max(old, value) if kind == "gauge" else old + value
