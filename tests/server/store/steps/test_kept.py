"""What is kept of step tables between two questions, and for how long."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from roofline_server.records import Table, constant
from roofline_server.store.segments.stacking import RowSource, source_of
from roofline_server.store.steps.kept import KEPT_S, UNSEALED_KEPT_S, Kept, KeptSteps, Wanted, same

TABLE = {"rank": np.arange(10), "a": np.ones(10), "b": np.zeros(10), "window": constant(-1, 10)}
BYTES = 3 * 80  # a column that is the same everywhere takes none


class Reading:
    """Counts how often a table is read."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> list[RowSource]:
        self.times += 1
        return [source_of(TABLE, ["rank", "a"])]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(kept: Kept, reading: Reading, *columns: str) -> Table:
    with kept.lock:
        return kept.table(Wanted("steps", columns or None), reading)


def test_the_same_moment_is_read_once_and_another_one_again() -> None:
    kept, reading = KeptSteps(), Reading()
    for moment in (1, 1, 2, 2, 1):
        found = asked(kept.of("42", moment, True), reading)
        assert found.keys() == TABLE.keys()
    assert reading.times == 3


def test_fewer_columns_are_not_read_again_and_others_are() -> None:
    kept, reading = KeptSteps().of("42", 1, True), Reading()
    assert asked(kept, reading, "rank", "a", "c").keys() == {"rank", "a"}
    assert asked(kept, reading, "a").keys() == {"a"}
    assert reading.times == 1
    assert asked(kept, reading, "b").keys() == {"b"}
    assert reading.times == 2
    asked(kept, reading)
    assert asked(kept, reading, "rank", "b").keys() == {"rank", "b"}
    assert reading.times == 3


def test_columns_that_are_the_same_in_two_tables_take_memory_once() -> None:
    kept, reading = KeptSteps().of("42", 1, True), Reading()
    other = {**TABLE, "b": np.ones(10)}
    with kept.lock:
        kept.table(Wanted("steps", None), reading)
        found = kept.table(Wanted("steps_tcp", None), lambda: [source_of(other, ["rank", "a"])])
    assert kept.bytes == BYTES + 80, "a and rank are those of the other table, b is not"
    assert {name: column.tolist() for name, column in found.items()} == {
        n: c.tolist() for n, c in other.items()
    }


def test_what_is_kept_cannot_be_written_to() -> None:
    found = asked(KeptSteps().of("42", 1, True), Reading())
    with pytest.raises(ValueError, match="read-only"):
        found["a"][0] = 7
    found.clear()


@pytest.mark.parametrize(("is_sealed", "lasts_s"), [(True, KEPT_S), (False, UNSEALED_KEPT_S)])
def test_what_nobody_asks_for_goes(is_sealed: bool, lasts_s: float) -> None:
    clock, reading = Clock(), Reading()
    kept = KeptSteps(now=clock)
    asked(kept.of("42", 1, is_sealed), reading)
    clock.now = 0.9 * lasts_s
    assert kept.forget() == 0
    asked(kept.of("42", 1, is_sealed), reading)
    clock.now = 1.8 * lasts_s
    assert kept.forget() == 0 and reading.times == 1
    clock.now = 2 * lasts_s
    assert kept.forget() == BYTES
    asked(kept.of("42", 1, is_sealed), reading)
    assert reading.times == 2


def test_beyond_so_many_bytes_what_was_asked_for_longest_ago_goes() -> None:
    kept, reading = KeptSteps(2 * BYTES), Reading()
    for job in ("1", "2", "1", "3"):
        asked(kept.of(job, 1, True), reading)
    assert kept.forget() == BYTES and reading.times == 3
    asked(kept.of("1", 1, True), reading)
    assert reading.times == 3
    asked(kept.of("2", 1, True), reading)
    assert reading.times == 4


def test_a_job_that_alone_is_too_much_is_not_kept() -> None:
    kept, reading = KeptSteps(BYTES - 1), Reading()
    asked(kept.of("42", 1, True), reading)
    assert kept.forget() == BYTES


@pytest.mark.parametrize(
    "one",
    [
        [1, "a", None, float("nan")],
        {"a": np.array([1.0, np.nan]), "b": np.array(["x"], object)},
        Wanted("steps", ("a",)),
    ],
)
def test_equal_values_are_the_same(one: object) -> None:
    assert same(one, copy.deepcopy(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(2), np.arange(2.0)),
        (np.arange(2), np.arange(3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": np.zeros(2)}, {"a": np.array([0.0, np.nan])}),
        ([1], (1,)),
        (["a"], ["b"]),
        (Wanted("steps", ("a",)), Wanted("steps", None)),
    ],
)
def test_values_that_differ_in_anything_are_not_the_same(one: object, other: object) -> None:
    assert not same(one, other)
