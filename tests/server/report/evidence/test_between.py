"""What lies between two steps counts in none of them, and is shown by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from roofline.answers.report import Report
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, STEADY_STEPS, Steps
from roofline_server.report.steps.steps import steps_table
from roofline_server.report.steps.timeline import timeline
from roofline_server.store.store import Store

from ...builders import ABSENT, BEGIN, BORDER, END, MS, Node, S, batch, marks, open_store, rank, spans

FIRST = 10 * S


def store_of(root: Path, seal: bool = False, seen: bool = True, pairs: bool = False) -> Store:
    """30 steps of 100 ms, 32 examples each; after every tenth an evaluation of 800 ms, in which a checkpoint
    of 200 ms follows. The last of both comes after the last step. pairs: each step has a begin and an end of
    its own."""
    store, node = open_store(root), Node("a")
    node.greet(store)
    now = FIRST
    said, apart = [] if pairs else [(0, BORDER, 0, 0, now)], []
    for step in range(1, 31):
        if pairs or (step > 1 and step % 10 == 1):
            said.append((0, BEGIN, step, ABSENT, now))
        now += 100 * MS
        said.append((0, END if pairs else BORDER, step, 32, now))
        apart.append((0, "phase.forward", now - 90 * MS, now - 50 * MS, ABSENT, 1))
        if step % 10 == 0:
            apart.append((0, "between.evaluation", now, now + 800 * MS, ABSENT, 1))
            apart.append((0, "between.checkpoint", now + 800 * MS, now + S, ABSENT, 1))
            now += S
    if not seen:
        apart = [span for span in apart if not span[1].startswith("between")]
    node.put(store, batch(1, FIRST, now + S, ranks=[rank()], marks=marks(said), spans=spans(apart)))
    if seal:
        store.seal()
    return store


def view_of(store: Store) -> Any:
    view = store.view("job")
    assert view is not None
    return view


def values(report: Report) -> dict[str, float | None]:
    return {name: value.value for name, value in report.ranks[0].summary.values.items()}


@pytest.mark.parametrize("seal", [False, True])
def test_report_says_how_often_and_how_long(tmp_path: Path, seal: bool) -> None:
    report = build(view_of(store_of(tmp_path, seal)), ALL_STEPS)
    found = values(report)
    assert found["between.evaluation.count"] == 3
    assert found["between.evaluation.time"] == pytest.approx(0.8)
    assert found["between.checkpoint.time"] == pytest.approx(0.2)
    assert found["between.share"] == pytest.approx(3 / 6)
    assert report.roles[0].summary.values["between.checkpoint.count"].value == 3


def test_steps_that_are_left_out_are_part_of_the_time_too(tmp_path: Path) -> None:
    report = build(view_of(store_of(tmp_path)))
    assert values(report)["steps"] == 29
    assert values(report)["between.share"] == pytest.approx(3 / 6)


def test_steps_last_as_long_as_without_what_lies_between(tmp_path: Path) -> None:
    found = values(build(view_of(store_of(tmp_path)), ALL_STEPS))
    assert found["steps"] == 30
    assert found["step_time_p95"] == pytest.approx(0.1)
    assert found["examples_per_second"] == pytest.approx(320)
    assert found["forward_time_per_step"] == pytest.approx(0.04)


@pytest.mark.parametrize("steps", [ALL_STEPS, STEADY_STEPS])
def test_examples_are_held_against_the_time_of_steps_that_have_their_own_begin(
    tmp_path: Path, steps: Steps
) -> None:
    found = build(view_of(store_of(tmp_path, pairs=True)), steps)
    assert values(found)["examples_per_second"] == pytest.approx(320)
    assert found.verdict and found.verdict.examples_per_second.value == pytest.approx(320)


def test_range_of_steps_has_what_lay_between_these(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    found = values(build(view_of(store), Steps(5, 25)))
    assert (found["between.evaluation.count"], found["between.checkpoint.count"]) == (2, 2)
    assert "between.evaluation.count" not in values(build(view_of(store), Steps(2, 9)))


def test_nothing_seen_is_not_reported_as_nothing_done(tmp_path: Path) -> None:
    found = values(build(view_of(store_of(tmp_path, seen=False)), ALL_STEPS))
    assert not any(name.startswith("between") for name in found)
    assert found["step_time_p95"] == pytest.approx(0.1)


def test_table_of_steps_shows_nothing_of_it_and_the_timeline_all(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    (chunk,) = steps_table(view_of(store), [], ALL_STEPS, "synchronous")
    assert not any("between" in column.name for column in chunk.columns)
    raw = store.raw("job")
    assert raw is not None
    rows = []
    for part in timeline(view_of(store), raw, [], ALL_STEPS, "synchronous"):
        columns = {column.name: column.values.tolist() for column in part.columns}
        rows += list(zip(columns["row"], columns["name"], strict=True))
    assert rows.count(("between", "evaluation")) == rows.count(("between", "checkpoint")) == 3
