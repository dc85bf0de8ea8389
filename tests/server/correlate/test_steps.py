from __future__ import annotations

import numpy as np
import pytest
from roofline_server.correlate.steps import (
    LIFE,
    OWN,
    JobTables,
    adopt,
    correlate,
    coverage,
    union,
    whole_lives,
)
from roofline_server.records import ABSENT, EventKind, RankKey, Table, rows

from ..builders import BEGIN, END, GAUGE, mark_table, metric, window_table

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


def test_whole_life_is_one_row_per_process() -> None:
    first, second = sampled(PS, (0, 0), (10, 50)), sampled(PS, (20, 0), (50, 30), start_ns=15)
    both = {name: np.concatenate([second[name], first[name]]) for name in first}
    found = whole_lives(job({}, both), METRICS)["steps_process"]
    rows_ = sorted(
        zip(
            found["start_ns"],
            found["window"],
            found["begin_ns"],
            found["end_ns"],
            found["cpu_ns.end"],
            strict=True,
        )
    )
    assert rows_ == [(1, LIFE, 0, 10, 50), (15, LIFE, 20, 50, 30)]


def test_counter_set_nobody_described_is_left_out() -> None:
    marks = mark_table([(WORKER0, BEGIN, 1, 0), (WORKER0, END, 1, 80)])
    assert set(correlate(job(marks, sampled(WORKER0, (0, 0), (80, 1))), {})) == {"steps"}
