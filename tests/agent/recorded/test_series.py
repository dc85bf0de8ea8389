"""Counters of a file become rows that only grow, from zero at the recording's begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded.recording import Counter
from roofline_agent.recorded.series import MAX_METRICS, Series, columns, counter_set, scope_of
from roofline_agent.records import MetricKind, Rank, Sample, Scope

RANK = Rank("j", "worker", 0)
BEGIN, SECOND = 1000, 10**9


def counter(metric: str, value: float | None, t_s: float | None = None, **more: object) -> Counter:
    kind = "total" if t_s is None else "delta"
    return Counter(metric, metric, value, "1", t_s=t_s, **{"kind": kind, **more})  # type: ignore[arg-type]


def rows(
    *counters: Counter, rank: Rank | None = RANK, end_ns: int | None = BEGIN + 10 * SECOND
) -> list[Sample]:
    found, _ = columns(counters, process=rank is not None)
    series = Series(rank, found, BEGIN, end_ns)
    made = [row for one in counters for row in series.feed(one)]
    return made + list(series.finish())


def test_increments_are_summed_up_from_zero() -> None:
    made = rows(counter("a", 5, 1.0), counter("a", 7, 2.0))
    assert [(r.time_ns, r.values) for r in made] == [
        (BEGIN, (0.0,)),
        (BEGIN + SECOND, (5.0,)),
        (BEGIN + 2 * SECOND, (12.0,)),
    ]


def test_total_of_a_run_is_zero_at_its_begin_and_whole_at_its_end() -> None:
    made = rows(counter("a", 40), counter("b", 2))
    assert [(r.time_ns, r.values) for r in made] == [(BEGIN, (0.0, 0.0)), (BEGIN + 10 * SECOND, (40.0, 2.0))]


def test_total_of_a_run_of_unknown_length_has_no_place() -> None:
    assert rows(counter("a", 40), end_ns=None) == []


def test_events_of_one_metric_are_added_and_one_that_is_missing_leaves_no_sum() -> None:
    imc = [counter("dram_read_bytes", v, 1.0, scope="socket 0") for v in (10, 20)]
    assert rows(*imc, rank=None)[-1].values == (30.0,)
    (begun,) = rows(*imc, counter("dram_read_bytes", None, 1.0, scope="socket 0"), rank=None)
    assert (begun.time_ns, begun.values) == (BEGIN + SECOND, (0.0,)), "from here on it counts"


def test_counter_that_was_not_counted_goes_on_behind_the_gap() -> None:
    shown = [counter("a", 5, 1.0), counter("a", None, 2.0), counter("a", 7, 3.0)]
    assert [r.values for r in rows(*shown)] == [(0.0,), (5.0,), (0.0,), (7.0,)], "it falls: it began again"
    covered = [one._replace(coverage=0.0 if one.value is None else 1.0) for one in shown]
    assert [r.values for r in rows(*covered)] == [(0.0, None), (5.0, 1.0), (5.0, 0.0), (12.0, 1.0)]
    first = [counter("a", None, 1.0), counter("a", 7, 2.0)]
    assert [(r.time_ns, r.values) for r in rows(*first)] == [
        (BEGIN + SECOND, (0.0,)),
        (BEGIN + 2 * SECOND, (7.0,)),
    ]
    idle = [counter("a", 0, 1.0), counter("a", None, 2.0), counter("a", 7, 3.0)]
    assert [r.values for r in rows(*idle)] == [(0.0,), (0.0,), (None,), (7.0,)]


def test_counter_that_is_cumulative_in_the_file_grows_by_its_differences() -> None:
    """DCGM's energy: 319159 J, then 319400 J are 241 J, not their sum."""
    readings = (319159.0, 319400.0, None, 319410.0)
    made = rows(*(counter("energy", joules, at, kind="total") for at, joules in enumerate(readings)))
    assert [r.values for r in made] == [(one,) for one in readings]
    assert made[0].time_ns == BEGIN


def test_gauges_are_not_summed() -> None:
    made = rows(counter("clock", 3, 1.0, kind="gauge"), counter("clock", 2, 2.0, kind="gauge"))
    assert [r.values for r in made] == [(3.0,), (2.0,)]


def test_each_part_of_the_node_has_its_own_rows_and_sums() -> None:
    made = rows(
        counter("e", 1, 1.0, scope="socket 0"),
        counter("e", 5, 1.0, scope="socket 1"),
        counter("e", 1, 2.0, scope="socket 0"),
        counter("e", 5, 2.0, scope="socket 1"),
        rank=None,
    )
    last = {r.instance: r.values for r in made}
    assert last == {"socket 0": (2.0,), "socket 1": (10.0,)}
    assert all(r.rank is None for r in made)


def test_coverage_stands_beside_its_metric_least_first() -> None:
    made = rows(counter("a", 5, 1.0, coverage=0.5), counter("a", 5, 1.0, coverage=0.25))
    assert made[-1].values == (10.0, 0.25)
    found, _ = columns([counter("a", 5, 1.0, coverage=0.5)], process=True)
    metric, share = counter_set("perf", found, Scope.PROCESS).metrics
    assert (metric.kind, share.name, share.coverage_of) == (MetricKind.CUMULATIVE, "a.coverage", "a")


def test_coverage_is_that_of_its_own_interval() -> None:
    shares = [(0.25, 0.3), (0.5, 0.6), (1.0, 0.9)]
    made = rows(
        *(
            counter(name, 1, float(at), coverage=share)
            for at, pair in enumerate(shares, 1)
            for name, share in zip("ab", pair, strict=True)
        )
    )
    assert [r.values[1::2] for r in made[1:]] == shares


def test_what_was_never_counted_makes_no_column() -> None:
    assert columns([counter("a", None)], process=True) == ([], 0)


def test_names_that_differ_in_case_only_are_one_column() -> None:
    found, _ = columns([counter("CYCLES", 1), counter("cycles", 1)], process=True)
    assert [c.name for c in found] == ["cycles"]


def test_counters_beyond_what_a_set_takes_are_counted() -> None:
    found, left_out = columns([counter(f"m{n}", 1) for n in range(MAX_METRICS + 7)], process=True)
    assert (len(found), left_out) == (MAX_METRICS, 7)


@pytest.mark.parametrize(
    ("instance", "scope"),
    [("socket 1", Scope.SOCKET), ("gpu 0", Scope.GPU), ("cpu 3", Scope.NODE), ("", Scope.NODE)],
)
def test_scope_of_a_part(instance: str, scope: Scope) -> None:
    assert scope_of(instance) == scope


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=40))
def test_rows_never_fall_and_end_at_the_sum(found: list[tuple[str, int]]) -> None:
    made = rows(*(counter(name, value, float(at)) for at, (name, value) in enumerate(found, 1)))
    names = list(dict.fromkeys(name for name, _ in found))
    for at, name in enumerate(names):
        seen = [r.values[at] for r in made if r.values[at] is not None]
        assert seen == sorted(seen)  # type: ignore[type-var]
        assert seen[-1] == sum(value for other, value in found if other == name)
