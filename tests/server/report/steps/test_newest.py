"""The newest steps of a job are those of the last seconds, whatever their numbers."""

from __future__ import annotations

from pathlib import Path

from roofline_server.model.evidence import NS
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.questions import STEADY_STEPS, Steps
from roofline_server.report.steps.newest import MOST_S, newest_steps
from roofline_server.report.steps.overview import step_overview
from roofline_server.store.view import JobView

from ...builders import MS, UNIX, S
from ..odd_jobs import FIRST, Odd, stored

MANY = range(1000)  # of 20 ms: 20 s


def view_of(folder: Path, *ranks: Odd, asynchronous: bool = False) -> JobView:
    view = stored(folder, ranks, asynchronous).view("job")
    assert view is not None
    return view


def newest_of(view: JobView) -> dict[str, list[int]]:
    """Rank -> the numbers of its newest steps."""
    evidence = gather(view, newest_steps(view)).evidence.values()
    return {one.key: one.steps.step.tolist() for one in evidence}


def seconds_of(view: JobView) -> float:
    since = newest_steps(view).since_ns
    assert since is not None
    return (int(view.steps["steps"]["end_ns"].max()) - since) / NS


def test_steps_of_a_second_or_ten_of_each_rank(tmp_path: Path) -> None:
    short = newest_of(view_of(tmp_path / "short", Odd("ddp", MANY)))
    assert short == {"ddp:0": list(range(950, 1000))}
    long = newest_of(view_of(tmp_path / "long", Odd("ddp", range(60), lasting=300 * MS)))
    assert long == {"ddp:0": list(range(50, 60))}


def test_numbers_that_begin_anew_bring_back_no_older_step(tmp_path: Path) -> None:
    found = newest_of(view_of(tmp_path, Odd("ddp", list(range(20)) * 50)))
    assert found == {"ddp:0": [*range(10, 20), *range(20), *range(20)]}


def test_a_slow_worker_has_as_many_steps_as_are_needed_of_it(tmp_path: Path) -> None:
    ranks = Odd("worker", MANY), Odd("worker", range(40), lasting=500 * MS)
    found = newest_of(view_of(tmp_path, *ranks, asynchronous=True))
    assert found["worker:1"] == list(range(30, 40))
    assert found["worker:0"] == list(range(750, 1000))


def test_an_evaluator_does_not_make_all_steps_new(tmp_path: Path) -> None:
    view = view_of(tmp_path, Odd("worker", MANY), Odd("evaluator", range(8), lasting=5 * S))
    found = newest_of(view)
    assert found["worker:0"] == list(range(950, 1000)) and found["evaluator:0"] == [3, 4, 5, 6, 7]
    overview = step_overview(view, STEADY_STEPS, 0)
    assert (overview.recent[0].first_step, overview.recent[0].last_step) == (500, 999)
    assert overview.newest_ns == UNIX + FIRST + len(MANY) * 20 * MS


def test_who_has_left_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    view = view_of(tmp_path, Odd("worker", MANY), Odd("worker", range(10)), asynchronous=True)
    assert seconds_of(view) == 1.0


def test_the_longest_steps_go_back_two_minutes(tmp_path: Path) -> None:
    view = view_of(tmp_path, Odd("ddp", range(20), lasting=40 * S))
    assert seconds_of(view) == MOST_S


def test_a_job_without_steps_has_no_newest(tmp_path: Path) -> None:
    view = view_of(tmp_path, Odd("ddp"))
    assert newest_steps(view) == Steps()
    assert step_overview(view, STEADY_STEPS, 0).newest_ns == 0
