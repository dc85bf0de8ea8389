from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.steps import (
    OWN,
    TIME_WINDOW,
    WINDOW_SAMPLES,
    WINDOWS,
    JobTables,
    adopt,
    by_time,
    correlate,
    coverage,
    stretches,
    union,
    window_length_ns,
)
from roofline_server.records import ABSENT, EventKind, RankKey, Table, rows

from ..builders import BEGIN, END, GAUGE, MS, mark_table, metric, window_table

WORKER0, WORKER1, PS, CHIEF = 1, 2, 3, 4
RANKS = {
    WORKER0: RankKey("job", "worker", 0),
    WORKER1: RankKey("job", "worker", 1),
    PS: RankKey("job", "ps", 0),
}
METRICS = {"process": [metric("cpu_ns"), metric("rss_bytes", GAUGE)]}
OF_TWO = window_table(
    [(WORKER0, 1, 0, 90), (WORKER1, 1, 10, 100), (WORKER0, 2, 100, 190), (WORKER1, 2, 110, 200)], 8
)
NO_EVENTS: Table = {}


def sampled(rank: int, *found: tuple[int, int], start_ns: int = 1) -> Table:
    """found: (time_ns, cpu_ns)."""
    time, cpu = (np.array([s[i] for s in found], np.int64) for i in range(2))
    same = np.full(len(found), 1, np.int64)
    return {
        "rank": same * rank,
        "start_ns": same * start_ns,
        "time_ns": time,
        "cpu_ns": cpu,
        "rss_bytes": cpu * 2,
    }


def job(marks: Table, samples: Table | None = None) -> JobTables:
    return JobTables(RANKS, marks, {"process": samples} if samples else {}, {}, NO_EVENTS)


def test_ranks_with_marks_have_their_own_windows() -> None:
    found = adopt(OF_TWO, {k: v for k, v in RANKS.items() if k != PS})
    assert set(found["window"].tolist()) == {OWN}
    assert rows(found) == 4


def test_serving_rank_gets_every_workers_window() -> None:
    found = adopt(OF_TWO, RANKS)
    served = found["rank"] == PS
    assert sorted(zip(found["window"][served].tolist(), found["step"][served].tolist(), strict=True)) == [
        (WORKER0, 1),
        (WORKER0, 2),
        (WORKER1, 1),
        (WORKER1, 2),
    ]


def test_chief_with_marks_of_its_own_keeps_them_and_gives_none() -> None:
    ranks = {**RANKS, CHIEF: RankKey("job", "chief", 0)}
    found = adopt(window_table([(WORKER0, 1, 0, 90), (CHIEF, 1, 5, 95)]), ranks)
    keys = sorted(zip(found["rank"].tolist(), found["window"].tolist(), strict=True))
    assert keys == [(WORKER0, OWN), (PS, WORKER0), (CHIEF, OWN)]


def test_servers_serve_no_evaluator_unless_nobody_else_steps() -> None:
    ranks = {**RANKS, CHIEF: RankKey("job", "evaluator", 0)}
    both = adopt(window_table([(WORKER0, 1, 0, 90), (CHIEF, 1, 5, 95)]), ranks)
    assert both["window"][both["rank"] == PS].tolist() == [WORKER0]
    later = adopt(window_table([(CHIEF, 1, 5, 95)]), ranks, frozenset({WORKER0}))
    assert PS not in later["rank"].tolist(), "workers have stepped before"
    alone = adopt(window_table([(CHIEF, 1, 5, 95)]), ranks)
    assert alone["window"][alone["rank"] == PS].tolist() == [CHIEF]


def test_worker_without_marks_adopts_nothing() -> None:
    found = adopt(window_table([(WORKER0, 1, 0, 90)]), RANKS)
    assert WORKER1 not in found["rank"].tolist()


def test_without_steps_there_is_nothing() -> None:
    assert correlate(job({}, sampled(PS, (0, 0), (100, 50))), METRICS) == {}
    assert adopt(window_table([]), RANKS) == {}


def test_synchronous_step_of_a_server_is_the_union_of_the_workers() -> None:
    marks = mark_table(
        [(WORKER0, BEGIN, 1, 0), (WORKER0, END, 1, 80), (WORKER1, BEGIN, 1, 10), (WORKER1, END, 1, 100)], 8
    )
    found = correlate(job(marks, sampled(PS, (0, 1000), (100, 2000))), METRICS)
    steps, process = union(_of(found["steps"], PS)), union(_of(found["steps_process"], PS))
    assert (steps["begin_ns"].tolist(), steps["end_ns"].tolist(), steps["examples"].tolist()) == (
        [0],
        [100],
        [16],
    )
    assert process["cpu_ns.end"] - process["cpu_ns.begin"] == 1000
    assert process["rss_bytes"].tolist() == [4000]


def test_asynchronous_window_of_each_worker_stands_alone() -> None:
    marks = mark_table(
        [(WORKER0, BEGIN, 1, 0), (WORKER0, END, 1, 80), (WORKER1, BEGIN, 1, 10), (WORKER1, END, 1, 100)]
    )
    found = _of(correlate(job(marks, sampled(PS, (0, 0), (100, 1000))), METRICS)["steps_process"], PS)
    delta = dict(
        zip(found["window"].tolist(), (found["cpu_ns.end"] - found["cpu_ns.begin"]).tolist(), strict=True)
    )
    assert delta == pytest.approx({WORKER0: 800, WORKER1: 900})


def _of(table: Table, rank: int) -> Table:
    return {name: column[table["rank"] == rank] for name, column in table.items()}


def served_table(*found: tuple[int, int, int, int, int]) -> Table:
    """found: (rank, whose window, step, begin_ns, end_ns)."""
    table = window_table([(rank, *rest) for rank, _, *rest in found])
    return {**table, "window": np.array([whose for _, whose, *_ in found])}


def test_union_keeps_steps_and_ranks_apart() -> None:
    served = served_table((3, 0, 1, 0, 9), (3, 0, 2, 10, 19), (4, 0, 1, 0, 8), (3, 1, 1, 1, 10))
    found = union(served)
    assert list(zip(*(found[n].tolist() for n in ("rank", "step", "begin_ns", "end_ns")), strict=True)) == [
        (3, 1, 0, 10),
        (3, 2, 10, 19),
        (4, 1, 0, 8),
    ]


def test_the_union_ends_with_the_window_of_its_worker() -> None:
    found = union(served_table((3, 1, 1, 0, 9), (3, 0, 1, 1, 10)))
    assert (found["window"].tolist(), found["end_ns"].tolist()) == ([0], [10])


def test_unknown_border_stays_unknown_in_the_union() -> None:
    served = served_table((3, 0, 1, 0, 9), (3, 1, 1, 1, 10))
    served["cpu_ns.begin"], served["cpu_ns.end"] = np.array([np.nan, 5.0]), np.array([7.0, np.nan])
    found = union(served)
    assert np.isnan(found["cpu_ns.begin"]).all()
    assert np.isnan(found["cpu_ns.end"]).all()


def test_examples_one_worker_did_not_say_leave_the_sum_absent() -> None:
    served = served_table((3, 0, 1, 0, 9), (3, 1, 1, 1, 10))
    served["examples"] = np.array([8, ABSENT])
    assert union(served)["examples"].tolist() == [ABSENT]


def test_step_done_twice_is_two_steps_of_the_server() -> None:
    served = served_table((3, 0, 7, 0, 90), (3, 1, 7, 10, 100), (3, 0, 7, 5000, 5090), (3, 1, 7, 5010, 5100))
    assert sorted((union(served)["end_ns"] - union(served)["begin_ns"]).tolist()) == [100, 100]


def test_coverage_comes_from_its_events() -> None:
    events: Table = {
        "rank": np.array([1, 1]),
        "kind": np.array([EventKind.KERNELS_COVERED, EventKind.LOST]),
        "time_ns": np.array([5, 6]),
        "end_ns": np.array([7, 8]),
    }
    assert {n: c.tolist() for n, c in coverage(events).items()} == {
        "rank": [1],
        "begin_ns": [5],
        "end_ns": [7],
    }
    assert rows(coverage(NO_EVENTS)) == 0


def timed(samples: Table) -> dict[str, Table]:
    """Windows of equal time, a metric at a time."""

    def read(columns: Sequence[str]) -> Table:
        return {name: column for name, column in samples.items() if name in columns}

    return by_time({"process": read}, METRICS, {}, NO_EVENTS, lambda name, metrics, _: [[m] for m in metrics])


def test_life_without_steps_is_cut_into_windows_of_equal_time() -> None:
    moments = [(1500 * MS + k * 500 * MS, 7 * k) for k in range(21)]
    found = timed(sampled(PS, *moments))
    steps, process = found["steps"], found["steps_process"]
    assert steps["window"].tolist() == [TIME_WINDOW] * 3
    assert steps["step"].tolist() == [0, 1, 2]
    edges = [1500 * MS, 5000 * MS, 10_000 * MS, 11_500 * MS]
    assert (steps["begin_ns"].tolist(), steps["end_ns"].tolist()) == (edges[:-1], edges[1:])
    assert steps["examples"].tolist() == [ABSENT] * 3
    assert (process["cpu_ns.end"] - process["cpu_ns.begin"]).tolist() == [49, 70, 21]


def test_two_processes_of_one_rank_have_windows_of_their_own() -> None:
    first = sampled(PS, *((k * 100 * MS, k) for k in range(5)))
    second = sampled(PS, *((700 * MS + k * 100 * MS, k) for k in range(5)), start_ns=15)
    both = {name: np.concatenate([second[name], first[name]]) for name in first}
    process = timed(both)["steps_process"]
    found = zip(process["start_ns"], process["begin_ns"], process["end_ns"], strict=True)
    assert sorted(found) == [(1, 0, 400 * MS), (15, 700 * MS, 1000 * MS), (15, 1000 * MS, 1100 * MS)]


@given(st.integers(1, 10**16), st.integers(0, 10**7))
def test_windows_of_a_life_are_few_and_hold_samples(life_ns: int, samples: int) -> None:
    length = window_length_ns(life_ns, samples)
    assert life_ns / length <= WINDOWS
    assert length == 1_000_000_000 or samples * length / life_ns >= WINDOW_SAMPLES or length >= life_ns


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**11)), min_size=1, max_size=5),
    st.integers(10**9, 10**11),
)
def test_windows_of_a_life_follow_each_other(found: list[tuple[int, int]], length: int) -> None:
    begin = np.array([b for b, _ in found])
    lifetimes = {"rank": np.arange(len(found)), "begin_ns": begin, "end_ns": begin + [n for _, n in found]}
    cut = stretches(lifetimes, length)
    for rank in range(len(found)):
        mine = cut["rank"] == rank
        assert cut["begin_ns"][mine][0] == lifetimes["begin_ns"][rank]
        assert cut["end_ns"][mine][-1] == lifetimes["end_ns"][rank]
        assert (cut["begin_ns"][mine][1:] == cut["end_ns"][mine][:-1]).all()
        assert (cut["end_ns"][mine] - cut["begin_ns"][mine] <= length).all()


def test_counter_set_nobody_described_is_left_out() -> None:
    marks = mark_table([(WORKER0, BEGIN, 1, 0), (WORKER0, END, 1, 80)])
    assert set(correlate(job(marks, sampled(WORKER0, (0, 0), (80, 1))), {})) == {"steps"}
