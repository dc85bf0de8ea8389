from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from roofline_server.correlate import counters
from roofline_server.correlate.counters import (
    as_float,
    at_borders,
    cut,
    cut_node,
    intervals,
    largest,
    least_share,
    restarted,
    uncounted,
)
from roofline_server.records import ABSENT, Floats, Ints, Table, concatenate, rows, take

from ..builders import GAUGE, UNIX, S, metric


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def floats(*values: float) -> Floats:
    return np.array(values, np.float64)


def windows(*found: tuple[int, int, int], rank: int = 1) -> Table:
    """found: (step, begin_ns, end_ns)."""
    step, begin, end = (np.array([w[i] for w in found], np.int64) for i in range(3))
    same = np.full(len(found), rank, np.int64)
    return {"rank": same, "window": same * 0 - 1, "step": step, "begin_ns": begin, "end_ns": end}


def sampled(*found: tuple[int, int, int], rank: int = 1, **columns: list[float]) -> Table:
    """found: (start_ns, time_ns, cpu_ns)."""
    start, time, cpu = (np.array([s[i] for s in found], np.int64) for i in range(3))
    more = {name: np.array(values) for name, values in columns.items()}
    return {
        "rank": np.full(len(found), rank, np.int64),
        "start_ns": start,
        "time_ns": time,
        "cpu_ns": cpu,
        **more,
    }


def test_absent_integers_become_nan() -> None:
    assert np.array_equal(as_float(ints(1, ABSENT)), floats(1, np.nan), equal_nan=True)


def test_counter_is_read_between_samples_in_proportion() -> None:
    read = at_borders(ints(0, 10, 20), floats(0, 100, 120), ints(0, 5, 10, 15, 20))
    assert read.tolist() == [0, 50, 100, 110, 120]


def test_counter_has_no_value_outside_its_samples() -> None:
    assert np.isnan(at_borders(ints(10, 20), floats(0, 1), ints(9, 21))).all()
    assert np.isnan(at_borders(ints(10), floats(np.nan), ints(10))).all()


def test_absent_samples_are_passed_over() -> None:
    assert at_borders(ints(0, 10, 20), floats(0, np.nan, 200), ints(10)).tolist() == [100]


def test_unix_times_lose_no_precision() -> None:
    read = at_borders(ints(UNIX, UNIX + S), floats(0, S), UNIX + ints(1, 999_999_999))
    assert read == pytest.approx([1, 999_999_999], abs=1e-3)


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**12)), min_size=2, max_size=30),
    st.lists(st.floats(0, 1), min_size=2, max_size=20),
)
def test_adjacent_windows_add_up_to_the_whole(found: list[tuple[int, int]], shares: list[float]) -> None:
    times = UNIX + np.cumsum([dt for dt, _ in found])
    values = np.cumsum([dv for _, dv in found])
    borders = np.unique([int(times[0] + share * (times[-1] - times[0])) for share in [0, *sorted(shares), 1]])
    borders = np.clip(borders, times[0], times[-1])
    samples = sampled(*((0, int(t), int(v)) for t, v in zip(times, values, strict=True)))
    made = windows(*((k, int(a), int(b)) for k, (a, b) in enumerate(itertools.pairwise(borders))))
    if not rows(made):
        return
    table = cut(made, samples, [metric("cpu_ns")])
    each = table["cpu_ns.end"] - table["cpu_ns.begin"]
    assert (each >= 0).all()
    assert each.sum() == pytest.approx(values[-1] - values[0], rel=1e-9, abs=1e-3)


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20, unique=True), st.integers(0, 100))
def test_counter_never_falls(times: list[int], _: int) -> None:
    at = np.array(sorted(times))
    read = at_borders(at, np.arange(len(at)) ** 2.0, np.arange(at[0], at[-1] + 1))
    assert (np.diff(read) >= 0).all()


def test_gauge_is_the_largest_inside_and_the_one_before() -> None:
    times, values = ints(0, 10, 20, 30), floats(9, 1, 3, 2)
    assert largest(times, values, ints(5, 10, 12), ints(15, 30, 13)).tolist() == [9, 3, 1]


def test_gauge_before_the_first_sample_has_no_value() -> None:
    assert np.isnan(largest(ints(10, 20), floats(1, 2), ints(0), ints(9))).all()
    assert largest(ints(10, 20), floats(1, 2), ints(0), ints(10)).tolist() == [1]


def test_gauge_of_absent_samples_has_no_value() -> None:
    assert np.isnan(largest(ints(0, 10), floats(np.nan, np.nan), ints(0), ints(10))).all()
    assert largest(ints(0, 5, 10), floats(np.nan, 4, np.nan), ints(0), ints(10)).tolist() == [4]


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.floats(-5, 5) | st.just(float("nan"))), min_size=1, max_size=15
    ),
    st.lists(st.tuples(st.integers(-5, 105), st.integers(0, 20)), min_size=1, max_size=10),
)
def test_gauge_is_what_a_loop_over_samples_gives(
    found: list[tuple[int, float]], asked: list[tuple[int, int]]
) -> None:
    found = sorted(dict(found).items())
    times, values = ints(*(t for t, _ in found)), floats(*(v for _, v in found))
    begin, end = ints(*(b for b, _ in asked)), ints(*(b + n for b, n in asked))
    wanted = []
    for b, e in zip(begin.tolist(), end.tolist(), strict=True):
        before = [v for t, v in found if t <= b][-1:]
        inside = [v for t, v in found if b < t <= e]
        known = [v for v in before + inside if v == v]
        wanted.append(max(known) if known else np.nan)
    assert np.array_equal(largest(times, values, begin, end), wanted, equal_nan=True)


def test_cut_repeats_the_window_and_counts_its_samples() -> None:
    table = cut(
        windows((7, 5, 25)), sampled((3, 0, 0), (3, 10, 100), (3, 20, 200), (3, 30, 300)), [metric("cpu_ns")]
    )
    assert {name: column.tolist() for name, column in table.items()} == {
        "rank": [1],
        "window": [-1],
        "step": [7],
        "begin_ns": [5],
        "end_ns": [25],
        "start_ns": [3],
        "samples": [2],
        "cpu_ns.begin": [50],
        "cpu_ns.end": [250],
    }


def test_windows_of_all_ranks_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = range(20)
    every = concatenate([windows((7, 5, 25), (8, 15, 25), rank=r) for r in reversed(ranks)])
    read = concatenate([sampled((3, 0, 0), (3, 30, 300 * r), rank=r) for r in ranks])
    looked = []

    def counted(table: Table, which: NDArray[np.generic]) -> Table:
        looked.append(len(which) if "step" in table else 0)
        return take(table, which)

    monkeypatch.setattr(counters, "take", counted)
    table = cut(every, read, [metric("cpu_ns")])
    assert sum(looked) == rows(every) == rows(table)
    grown = table["cpu_ns.end"] - table["cpu_ns.begin"]
    assert grown == pytest.approx(table["rank"] * 10 * (table["end_ns"] - table["begin_ns"]))


def test_samples_need_no_order() -> None:
    shuffled = sampled((3, 20, 200), (3, 0, 0), (3, 30, 300), (3, 10, 100))
    assert cut(windows((7, 5, 25)), shuffled, [metric("cpu_ns")])["cpu_ns.end"].tolist() == [250]


def test_window_beyond_all_samples_has_no_row() -> None:
    assert cut(windows((1, 100, 110)), sampled((3, 0, 0), (3, 10, 1)), [metric("cpu_ns")]) == {}


def test_window_half_beyond_the_samples_has_one_border() -> None:
    table = cut(windows((1, 5, 15)), sampled((3, 0, 0), (3, 10, 100)), [metric("cpu_ns")])
    assert table["cpu_ns.begin"].tolist() == [50]
    assert np.isnan(table["cpu_ns.end"]).all()


def test_counter_starts_again_with_each_process_of_the_rank() -> None:
    samples = sampled((3, 0, 1000), (3, 10, 2000), (12, 12, 0), (12, 22, 100))
    table = cut(windows((1, 2, 8), (2, 9, 14), (3, 13, 20)), samples, [metric("cpu_ns")])
    by_life = dict(
        zip(zip(table["start_ns"].tolist(), table["step"].tolist(), strict=True), range(9), strict=False)
    )
    assert set(by_life) == {(3, 1), (3, 2), (12, 2), (12, 3)}
    delta = table["cpu_ns.end"] - table["cpu_ns.begin"]
    assert delta[by_life[3, 1]] == 600
    assert delta[by_life[12, 3]] == pytest.approx(70)
    assert np.isnan(delta[by_life[3, 2]])
    assert np.isnan(delta[by_life[12, 2]])


def test_other_rank_has_other_counters() -> None:
    assert cut(windows((1, 0, 10), rank=2), sampled((3, 0, 0), (3, 10, 1)), [metric("cpu_ns")]) == {}


COUNTED = [metric("cpu_ns"), metric("share", GAUGE, is_double=True)._replace(coverage_of="cpu_ns")]


def test_window_with_a_gap_in_it_has_no_reading() -> None:
    """Nothing counted between 10 and 20: the coverage of the sample behind a gap is 0."""
    samples = sampled(
        (3, 0, 0), (3, 10, 100), (3, 20, 100), (3, 30, 200), (3, 40, 300), share=[1.0, 0.5, 0.0, 1.0, 0.25]
    )
    table = cut(
        windows((1, 2, 8), (2, 8, 11), (3, 12, 18), (4, 10, 20), (5, 20, 30), (6, 25, 35)), samples, COUNTED
    )
    delta = table["cpu_ns.end"] - table["cpu_ns.begin"]
    assert np.isnan(delta[1:4]).all() and np.isnan(table["share"][1:4]).all()
    assert delta[[0, 4, 5]] == pytest.approx([60, 100, 100])
    assert table["share"][[0, 4, 5]].tolist() == [0.5, 1, 0.25], "of the time since the sample before"


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.5, 1.0])), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=8),
)
def test_gaps_are_what_a_loop_over_intervals_finds(
    found: list[tuple[int, float]], asked: list[tuple[int, int]]
) -> None:
    found = sorted(dict(found).items())
    times, shares = ints(*(t for t, _ in found)), floats(*(v for _, v in found))
    first, last = found[0][0], found[-1][0]
    asked = [(b, e) for b, e in ((b, b + n) for b, n in asked) if first <= b and e <= last]
    begin, end = ints(*(b for b, _ in asked)), ints(*(e for _, e in asked))
    each = [
        [share for (t0, _), (t1, share) in itertools.pairwise(found) if b < t1 and e > t0] for b, e in asked
    ]
    first, behind = intervals(times, begin, end)
    assert uncounted(shares, first, behind).tolist() == [0.0 in some for some in each]
    assert least_share(shares, first, behind).tolist() == [min(some) for some in each]


def test_metric_without_a_column_is_left_out() -> None:
    table = cut(windows((1, 0, 10)), sampled((3, 0, 0), (3, 10, 1)), [metric("cpu_ns"), metric("new", GAUGE)])
    assert "new" not in table
    assert "cpu_ns.begin" in table


def test_window_in_which_a_counter_began_anew_has_no_reading() -> None:
    samples = sampled((3, 0, 100), (3, 10, 200), (3, 20, 5), (3, 30, 105))
    table = cut(
        windows((1, 2, 8), (2, 9, 12), (3, 12, 18), (4, 5, 25), (5, 21, 29)), samples, [metric("cpu_ns")]
    )
    delta = dict(
        zip(table["step"].tolist(), (table["cpu_ns.end"] - table["cpu_ns.begin"]).tolist(), strict=True)
    )
    assert delta[1] == 60
    assert np.isnan([delta[2], delta[3], delta[4]]).all()
    assert delta[5] == pytest.approx(80)


def of_node(*found: tuple[str, int, int], node: int = 7) -> Table:
    """found: (instance, time_ns, cpu_ns)."""
    count = len(found)
    return {
        "rank": np.full(count, -1, np.int64),
        "node": np.full(count, node, np.int64),
        "start_ns": np.zeros(count, np.int64),
        "instance": np.array([f[0] for f in found], object),
        "time_ns": ints(*(f[1] for f in found)),
        "cpu_ns": ints(*(f[2] for f in found)),
    }


def test_parts_of_a_node_are_added_up_in_the_windows_of_its_ranks() -> None:
    samples = of_node(
        ("socket 0", 0, 0), ("socket 1", 0, 1000), ("socket 0", 10, 100), ("socket 1", 10, 1010)
    )
    one, other = windows((1, 2, 8)), windows((1, 2, 8), rank=2)
    both = {name: np.concatenate([one[name], other[name]]) for name in one}
    table = cut_node(
        both, np.where(both["rank"] == 1, 7, 8), samples, [metric("cpu_ns"), metric("load", GAUGE)]
    )
    assert table["rank"].tolist() == [1], "the other rank lives elsewhere"
    assert (table["cpu_ns.end"] - table["cpu_ns.begin"]).tolist() == [66]
    assert "load" not in table


def test_node_has_no_sum_where_a_part_was_not_read() -> None:
    samples = of_node(("socket 0", 0, 0), ("socket 0", 10, 100), ("socket 1", 5, 0), ("socket 1", 10, 10))
    table = cut_node(windows((1, 2, 8), (2, 6, 9)), ints(7, 7), samples, [metric("cpu_ns")])
    deltas = dict(
        zip(table["step"].tolist(), (table["cpu_ns.end"] - table["cpu_ns.begin"]).tolist(), strict=True)
    )
    assert np.isnan(deltas[1])
    assert deltas[2] == pytest.approx(36)


def test_gap_of_a_part_is_a_gap_of_its_node() -> None:
    samples = of_node(*((f"socket {n}", t, 10 * t) for t in (0, 10, 20, 30, 40) for n in (0, 1)))
    samples["share"] = np.array([1.0, 1.0, 0.5, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.25])
    table = cut_node(
        windows((1, 0, 10), (2, 10, 20), (3, 20, 30), (4, 30, 40)), ints(7, 7, 7, 7), samples, COUNTED
    )
    assert table["step"].tolist() == [1, 2, 3, 4], "what lies between is told to be unknown"
    delta = table["cpu_ns.end"] - table["cpu_ns.begin"]
    assert np.isnan(delta[1]) and delta[[0, 2, 3]].tolist() == [200, 200, 200]
    assert table["share"][[0, 2, 3]].tolist() == [0.5, 1, 0.25]


def test_node_nobody_read_in_a_window_has_no_row() -> None:
    assert (
        rows(cut_node(windows((1, 20, 30)), ints(7), of_node(("", 0, 0), ("", 10, 1)), [metric("cpu_ns")]))
        == 0
    )


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.0, float("nan")])), max_size=12),
    st.lists(st.tuples(st.integers(-5, 35), st.integers(0, 10)), min_size=1, max_size=5),
)
def test_a_counter_began_anew_in_windows_that_touch_a_fall(
    samples: list[tuple[int, float]], some: list[tuple[int, int]]
) -> None:
    samples.sort(key=lambda one: one[0])
    begin, end = ints(*(first for first, _ in some)), ints(*(first + length for first, length in some))
    known = [(time, value) for time, value in samples if not np.isnan(value)]
    falls = [(a, b) for (a, high), (b, low) in itertools.pairwise(known) if low < high]
    expected = [any(b < fell and e > from_ for from_, fell in falls) for b, e in zip(begin, end, strict=True)]
    times, values = ints(*(time for time, _ in samples)), floats(*(value for _, value in samples))
    assert restarted(times, values, begin, end).tolist() == expected
