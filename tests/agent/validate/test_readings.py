"""What of the sources' rows is taken, and when it was read."""

from __future__ import annotations

from roofline_agent.records import CounterSet, Metric, MetricKind, Rank, Sample
from roofline_agent.validate.readings import Place, Readings, ValueAt

RANK = Rank("validate", "worker", 0, 7, 1)
SET = CounterSet("s", tuple(Metric(name, MetricKind.CUMULATIVE, "byte") for name in ("a", "b")))
WHOLE, SUM = Place("s", "a", ""), Place("s", "b", "*")


def rows(*each: tuple[int, str, int | None, int | None]) -> dict[CounterSet, list[Sample]]:
    return {SET: [Sample(RANK, at, (a, b), instance) for at, instance, a, b in each]}


def test_absent_values_and_other_instances_are_no_readings() -> None:
    readings = Readings([WHOLE])
    readings.add(rows((1, "", None, 5), (2, "peer", 9, 9), (3, "", 4, None)))
    readings.add({CounterSet("other", SET.metrics): [Sample(RANK, 9, (9, 9))]})
    assert readings.between(WHOLE, 0, 99) == [ValueAt(3, 4)]


def test_sum_over_instances_is_as_old_as_its_oldest_part() -> None:
    readings = Readings([SUM])
    readings.add(rows((10, "socket 0", 0, 1), (11, "socket 1", 0, 2)))
    readings.add(rows((20, "socket 0", 0, 5)))
    readings.add(rows((21, "socket 1", 0, 7)))
    assert readings.between(SUM, 0, 99) == [ValueAt(10, 3), ValueAt(11, 7), ValueAt(20, 12)]
    assert readings.parts(SUM) == 2


def test_first_reading_since_a_moment() -> None:
    readings = Readings([WHOLE])
    for at in (1, 5, 9):
        readings.add(rows((at, "", at, None)))
    assert readings.since(WHOLE, 5) == ValueAt(5, 5)
    assert readings.since(WHOLE, 6) == ValueAt(9, 9)
    assert readings.since(WHOLE, 10) is None
    readings.forget_before(5)
    assert readings.between(WHOLE, 0, 99) == [ValueAt(5, 5), ValueAt(9, 9)]
