from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.kernels import counted_calls, covered, merge, total
from roofline_server.records import ABSENT, Ints, Table, precision_code, rows

from ..builders import MS, table, window_table


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def calls(
    *found: tuple[int, int, int], flops: int = 1000, traffic: int = 10, precision: str = "f32"
) -> Table:
    """found: (rank, time_ns, duration_ns)."""
    n = len(found)
    return {
        **{name: ints(*(c[i] for c in found)) for i, name in enumerate(("rank", "time_ns", "duration_ns"))},
        "flops": np.full(n, flops, np.int64),
        "bytes": np.full(n, traffic, np.int64),
        "precision": np.full(n, precision_code(precision), np.int64),
    }


def coverage(*found: tuple[int, int, int]) -> Table:
    return {name: ints(*(c[i] for c in found)) for i, name in enumerate(("rank", "begin_ns", "end_ns"))}


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=12)


@given(INTERVALS)
def test_merged_intervals_hold_the_same_moments_and_are_apart(found: list[tuple[int, int]]) -> None:
    begin, end = ints(*(b for b, _ in found)), ints(*(b + n for b, n in found))
    first, last = merge(begin, end)
    moments = {
        2 * t + half
        for b, n in found
        for t in range(b, b + n + 1)
        for half in (0, 1)
        if t + half / 2 <= b + n
    }
    merged = {
        2 * t + half
        for b, e in zip(first, last, strict=True)
        for t in range(b, e + 1)
        for half in (0, 1)
        if t + half / 2 <= e
    }
    assert merged == moments
    assert (first[1:] > last[:-1]).all()


def test_small_holes_are_closed_and_larger_stay() -> None:
    assert [c.tolist() for c in merge(ints(0, 11, 30), ints(10, 20, 40), slack_ns=1)] == [[0, 30], [20, 40]]


def test_window_is_covered_by_one_stretch_alone() -> None:
    assert covered(ints(0, 5, 9, 20), ints(5, 10, 21, 30), ints(0, 20), ints(10, 30)).tolist() == [
        True,
        True,
        False,
        True,
    ]
    assert covered(ints(0), ints(1), ints(), ints()).tolist() == [False]


def test_calls_are_summed_in_the_window_of_their_middle() -> None:
    windows = window_table([(1, 1, 0, 100), (1, 2, 100, 200)])
    found = total(windows, calls((1, 10, 20), (1, 90, 19), (1, 90, 20), (1, 199, 2), (1, 300, 1)), coverage())
    assert found["calls"].tolist() == [2, 1]
    assert found["flops"].tolist() == [2000, 1000]
    assert found["bytes"].tolist() == [20, 10]
    assert found["kernel_ns"].tolist() == [39, 20]


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 50), st.integers(0, 2**40)), max_size=30),
    st.lists(st.integers(1, 1100), min_size=1, max_size=8, unique=True),
)
def test_sums_over_adjacent_windows_are_exact(found: list[tuple[int, int, int]], borders: list[int]) -> None:
    cuts = [0, *sorted(borders), 1200]
    windows = window_table([(1, k, a, b) for k, (a, b) in enumerate(itertools.pairwise(cuts))])
    made = calls(*((1, t, d) for t, d, _ in found))
    made["flops"] = ints(*(f for *_, f in found))
    summed = total(windows, made, coverage((1, 0, 1200)))
    assert int(summed["flops"].sum()) == sum(f for *_, f in found)
    assert int(summed["calls"].sum()) == len(found)


def test_large_sums_are_exact() -> None:
    found = total(window_table([(1, 1, 0, 100)]), calls(*[(1, 5, 1)] * 3, flops=2**60 + 1), coverage())
    assert found["flops"].tolist() == [3 * (2**60 + 1)]


def test_call_nobody_can_count_is_unmodelled_and_not_zero() -> None:
    found = total(window_table([(1, 1, 0, 100)]), calls((1, 5, 1), flops=ABSENT, traffic=ABSENT), coverage())
    assert (found["flops"].tolist(), found["bytes"].tolist(), found["unmodelled"].tolist()) == ([0], [0], [1])


def test_call_whose_bytes_nobody_knows_is_unmodelled() -> None:
    found = total(window_table([(1, 1, 0, 100)]), calls((1, 5, 1), traffic=ABSENT), coverage())
    assert found["unmodelled"].tolist() == [1]


def test_flops_are_kept_by_precision() -> None:
    one, other, third = (calls((1, 5, 1), precision=p) for p in ("f32", "f64", "bf16"))
    made = {name: np.concatenate([one[name], other[name], third[name]]) for name in one}
    found = total(window_table([(1, 1, 0, 100)]), made, coverage())
    assert (found["flops"].tolist(), found["flops_f32"].tolist(), found["flops_f64"].tolist()) == (
        [3000],
        [1000],
        [1000],
    )


def test_flops_of_every_precision_have_a_sum_and_of_none_no_column() -> None:
    made = [calls((r, 5, 1), flops=r, precision=p) for r, p in ((1, "bf16"), (2, "f8_e4m3"), (2, "f8_e5m2"))]
    both = {name: np.concatenate([one[name] for one in made]) for name in made[0]}
    found = total(window_table([(1, 1, 0, 100), (2, 1, 0, 100)]), both, coverage())
    assert found["flops_bf16"].tolist() == [1, ABSENT]
    assert (found["flops_f8_e4m3"].tolist(), found["flops_f8_e5m2"].tolist()) == ([ABSENT, 2], [ABSENT, 2])
    assert (found["flops_f32"].tolist(), "flops_f16" in found) == ([0, 0], False)


def test_traffic_of_caches_is_summed_over_the_calls_that_have_it() -> None:
    made = {**calls((1, 5, 1), (1, 6, 1), (1, 150, 1)), "l1": ints(7, ABSENT, 5), "l2": ints(1, 2, 3)}
    found = total(window_table([(1, 1, 0, 100), (1, 2, 100, 200)]), made, coverage())
    assert (found["l1"].tolist(), found["l1_calls"].tolist()) == ([7, 5], [1, 1])
    assert (found["l2"].tolist(), found["l2_calls"].tolist()) == ([3, 3], [2, 1])
    assert "l1" not in total(window_table([(1, 1, 0, 100)]), calls((1, 5, 1)), coverage())


def test_windows_have_counted_flops_where_a_gpu_has_unless_it_is_said_otherwise() -> None:
    windows = window_table([(1, 1, 0, 100), (2, 1, 0, 100)])
    made = {**calls((1, 5, 1), (1, 6, 1), (2, 7, 1)), "on_gpu": ints(1, 1, 1)}
    plain = total(windows, made, coverage())
    assert ("counted_calls" in plain, counted_calls(plain).tolist()) == (False, [2, 1])
    made["flops"][1] = ABSENT  # of a kernel that helps
    found = total(windows, made | {"counted": ints(0, ABSENT, 1)}, coverage())
    assert counted_calls(found).tolist() == [0, 1]
    on_cpu = made | {"on_gpu": ints(0, 0, 0), "counted": ints(1, 0, ABSENT)}
    assert counted_calls(total(windows, on_cpu, coverage())).tolist() == [1, 0]


def test_window_is_complete_when_all_of_it_was_watched() -> None:
    windows = window_table([(1, 1, 0, 100), (1, 2, 100, 200), (1, 3, 200, 300)])
    found = total(windows, calls((1, 5, 1)), coverage((1, 0, 90), (1, 50, 200), (1, 200 + 2 * MS, 10 * MS)))
    assert found["complete"].tolist() == [1, 1, 0]


def test_watched_window_without_calls_has_a_row_and_no_calls() -> None:
    found = total(window_table([(1, 1, 0, 100)]), calls(), coverage((1, 0, 100)))
    assert (found["calls"].tolist(), found["complete"].tolist()) == ([0], [1])


def test_rank_nobody_watched_has_no_row() -> None:
    assert total(window_table([(1, 1, 0, 100)]), calls((2, 5, 1)), coverage((3, 0, 100))) == {}


def test_other_ranks_calls_do_not_count() -> None:
    found = total(
        window_table([(1, 1, 0, 100), (2, 1, 0, 100)]), calls((1, 5, 1), (2, 5, 1), (2, 6, 1)), coverage()
    )
    assert dict(zip(found["rank"].tolist(), found["calls"].tolist(), strict=True)) == {1: 1, 2: 2}


def test_empty_table_has_no_rows() -> None:
    assert rows(table(rank=[])) == 0


def test_short_step_that_was_left_out_is_not_taken_for_a_hole_between_two_batches() -> None:
    """Steps of 0.4 ms, of which every other one was recorded; and a batch that ends within a step."""
    windows = window_table([(1, k, k * 400_000, (k + 1) * 400_000) for k in range(4)])
    recorded = coverage((1, 0, 400_000), (1, 800_000, 1_100_000), (1, 1_100_100, 1_200_000))
    assert total(windows, calls(), recorded)["complete"].tolist() == [1, 0, 1, 0]
