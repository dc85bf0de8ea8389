"""Values of metrics over time, from the rows that sources give. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..records import Samples
from .works import ANY, Expectation


class Place(NamedTuple):
    """Where a value is."""

    source: str
    metric: str
    instance: str


def place_of(expectation: Expectation) -> Place:
    return Place(expectation.source, expectation.metric, expectation.instance)


class ValueAt(NamedTuple):
    """time_ns: node time. Of a sum: when the oldest part was read."""

    time_ns: int
    value: float


class Readings:
    """Readings of some places, by source as the sources' counter sets are named."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._values: dict[Place, list[ValueAt]] = {place: [] for place in places}
        self._parts: dict[Place, dict[str, ValueAt]] = {}  # newest by instance, of sums

    def add(self, samples: Samples) -> None:
        for counter_set, rows in samples.items():
            columns = {metric.name: at for at, metric in enumerate(counter_set.metrics)}
            for place, values in self._values.items():
                if place.source != counter_set.name or place.metric not in columns:
                    continue
                at = columns[place.metric]
                new = {
                    row.instance: ValueAt(row.time_ns, row.values[at])  # type: ignore[arg-type]
                    for row in rows
                    if row.values[at] is not None and place.instance in (ANY, row.instance)
                }
                if new:
                    parts = self._parts.setdefault(place, {})
                    parts.update(new)
                    oldest = min(part.time_ns for part in parts.values())
                    values.append(ValueAt(oldest, sum(part.value for part in parts.values())))

    def since(self, place: Place, time_ns: int) -> ValueAt | None:
        """The first that is no older."""
        return next((one for one in self._values[place] if one.time_ns >= time_ns), None)

    def between(self, place: Place, begin_ns: int, end_ns: int) -> list[ValueAt]:
        return [one for one in self._values[place] if begin_ns <= one.time_ns <= end_ns]

    def parts(self, place: Place) -> int:
        """How many instances a sum is of."""
        return len(self._parts.get(place, ()))

    def forget_before(self, time_ns: int) -> None:
        for place, values in self._values.items():
            self._values[place] = [one for one in values if one.time_ns >= time_ns]
