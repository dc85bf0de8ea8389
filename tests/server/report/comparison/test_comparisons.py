"""Two jobs of a store side by side: settings that differ, speed, parts and places under the roof."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.comparison import Change, Comparison
from roofline.answers.values import Provenance, Scope, Value
from roofline_server.errors import UnknownSteps
from roofline_server.report.comparison.comparisons import _what_changed, compare
from roofline_server.report.questions import STEADY_STEPS, Steps
from roofline_server.sentences import comparisons as texts
from roofline_server.store.store import Store

from ...builders import ABSENT, BEGIN, END, MS, Node, S, batch, marks, open_store, rank
from ..work import Call, Host, kernel, run

CONVOLVE = kernel("convolution", 4_000_000_000, 100_000_000)
STEPS = 80


def between(store: Store, first: str, second: str, steps: Steps = STEADY_STEPS) -> Comparison:
    views = [store.view(job) for job in (first, second)]
    assert views[0] is not None and views[1] is not None
    return compare(views[0], views[1], steps)


def test_jobs_of_other_sizes_whose_work_is_not_known_are_not_called_faster(tmp_path: Path) -> None:
    """A step of twice the ranks may be twice the work."""
    store = open_store(tmp_path)
    for at, (job, ranks) in enumerate((("small", 1), ("large", 2), ("other", 2))):
        node = Node(f"{at}")
        node.greet(store)
        steps = [(who, k) for k in range(60) for who in range(ranks)]
        said = [
            (who, kind, k, ABSENT, 100 * S + (k + kind) * (20 + 10 * at) * MS)
            for who, k in steps
            for kind in (BEGIN, END)
        ]
        own = [rank(job, "ddp", index=i, pid=100 + i) for i in range(ranks)]
        node.put(store, batch(1, 100 * S, 110 * S, ranks=own, marks=marks(sorted(said, key=lambda m: m[4]))))
    found = between(store, "small", "large").headline
    assert found.startswith("steps of large take 1.5x as long as those of small (")
    assert "), and may do more work" in found
    assert between(store, "large", "other").headline.startswith("other is 0.75x as fast as large")


def sized(store: Store, name: str, at: int, ranks: int, examples: int, lasting: int, steps: int = 60) -> None:
    node = Node(name)
    node.greet(store)
    first = (100 + 20 * at) * S
    said = [
        (who, kind, k, examples, first + (k + kind) * lasting)
        for k in range(steps)
        for who in range(ranks)
        for kind in (BEGIN, END)
    ]
    own = [rank(name, "ddp", index=i, pid=100 + i) for i in range(ranks)]
    said.sort(key=lambda mark: mark[4])
    node.put(store, batch(1, first, first + 10 * S, ranks=own, marks=marks(said)))


def test_longer_steps_are_no_reason_for_a_higher_rate(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sized(store, "small", 0, ranks=1, examples=8, lasting=20 * MS)
    sized(store, "large", 1, ranks=4, examples=8, lasting=30 * MS)
    sized(store, "batch", 2, ranks=4, examples=32, lasting=30 * MS)
    assert between(store, "small", "large").headline == (
        "large is 2.67x as fast as small (2.67x to 2.67x), with 4 ranks instead of 1; its steps take 1.5x as "
        "long: unexplained time +10 ms a step"
    )
    assert between(store, "large", "batch").headline.endswith(
        "with 32 examples a rank and step instead of 8; its steps take as long, within noise"
    )
    assert "with 1 rank instead of 4 and 8 examples a rank and step instead of 32; its steps take 0.667x" in (
        between(store, "batch", "small").headline
    )


def test_steps_without_an_interval_are_not_said_to_take_as_long(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sized(store, "small", 0, ranks=1, examples=8, lasting=20 * MS)
    sized(store, "short", 1, ranks=4, examples=8, lasting=30 * MS, steps=1)
    assert between(store, "small", "short").headline.endswith(
        "with 4 ranks instead of 1; its steps take 1.5x as long (too few steps for an interval)"
    )


@pytest.mark.parametrize(("batches", "shown"), [((8, 16), [("8", "16")]), ((8, 8), []), ((0, 0), [])])
def test_other_numbers_of_examples_are_a_setting_that_differs(
    tmp_path: Path, batches: tuple[int, int], shown: list[tuple[str, str]]
) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    for at, (job, examples) in enumerate(zip(("one", "other"), batches, strict=True)):
        first = (100 + 20 * at) * S
        said = [
            (0, kind, k, examples or ABSENT, first + (k + kind) * 20 * MS)
            for k in range(60)
            for kind in (BEGIN, END)
        ]
        own = [rank(job, "ddp", pid=100 + at)]
        node.put(store, batch(at + 1, first, first + 10 * S, ranks=own, marks=marks(said)))
    found = between(store, "one", "other")
    assert [(one.first, one.second) for one in found.settings] == shown
    assert (texts.SAME_SETTINGS in found.notes) == (not shown)


def change(found: Comparison, kind: str, subject: str = "") -> Change:
    return next(one for one in found.changes if (one.kind, one.subject) == (kind, subject))


@pytest.fixture
def jobs(store: Store) -> Store:
    run(
        store,
        Host("a", host="n1"),
        [Call(CONVOLVE, 1, 60 * MS)],
        "slow",
        steps=STEPS,
        facts=["setting.OMP_NUM_THREADS=1"],
    )
    run(
        store,
        Host("b", host="n1"),
        [Call(CONVOLVE, 1, 30 * MS)],
        "fast",
        steps=STEPS,
        facts=["setting.OMP_NUM_THREADS=2"],
    )
    run(
        store,
        Host("c", host="n1"),
        [Call(CONVOLVE, 1, 60 * MS)],
        "same",
        steps=STEPS,
        facts=["setting.OMP_NUM_THREADS=1"],
    )
    return store


def test_setting_that_differs_and_the_part_that_it_changed(jobs: Store) -> None:
    found = between(jobs, "slow", "fast")
    assert [(s.name, s.first, s.second) for s in found.settings] == [("setting.OMP_NUM_THREADS", "1", "2")]
    compute = change(found, "part", "compute|contention")
    assert compute.change.value == pytest.approx(-0.03, rel=1e-3) and not compute.within_noise
    assert (compute.low, compute.high) == (pytest.approx(-0.03), pytest.approx(-0.03))


def test_intensity_stays_and_the_place_under_the_roof_is_the_same_for_the_same_work(jobs: Store) -> None:
    found = between(jobs, "slow", "same")
    assert change(found, "intensity", "worker").change.value == pytest.approx(1.0)
    assert change(found, "roof_share", "worker").change.value == pytest.approx(0.0)


def test_job_against_itself_is_within_noise(jobs: Store) -> None:
    found = between(jobs, "slow", "slow")
    assert found.settings == [] and texts.SAME_SETTINGS in found.notes
    assert {one.within_noise for one in found.changes if one.kind in ("step", "part")} == {True}
    assert "within noise" in found.headline


def test_parts_add_up_to_the_change_of_the_step(jobs: Store) -> None:
    found = between(jobs, "slow", "fast")
    step = change(found, "step")
    parts = sum(one.change.value or 0.0 for one in found.changes if one.kind == "part")
    assert parts == pytest.approx((step.second.value or 0.0) - (step.first.value or 0.0), abs=1e-6)


def test_steps_that_a_job_does_not_have(jobs: Store) -> None:
    with pytest.raises(UnknownSteps):
        between(jobs, "slow", "fast", Steps(1000, 2000))


def test_job_without_steps_says_which(jobs: Store, tmp_path: Path) -> None:
    run(jobs, Host("d", host="n1"), [Call(CONVOLVE, 1, 60 * MS)], "bare", steps=STEPS, marked=False)
    found = between(jobs, "slow", "bare")
    assert found.headline == texts.NO_STEPS.format("bare")
    assert not any(one.kind in ("step", "part", "throughput") for one in found.changes)


def part(name: str, seconds: float, noise: bool) -> Change:
    number = Value(seconds, "s", Provenance.ESTIMATED, Scope.ROLE)
    return Change("part", name, number, number, number, None, None, noise)


def test_a_small_sure_change_is_not_all_that_is_said_of_a_large_one_that_is_unsure() -> None:
    changes = [part("host", 0.003, False), part("contention", 0.08, True), part("input", 1e-5, False)]
    sure, unsure = _what_changed(changes, 1e-3, 0.083)
    assert (sure, unsure) == ([("host", 0.003)], ("contention", 0.08))
    assert texts.mostly(sure, unsure) == (
        ": CPU time outside kernels +3 ms a step; "
        "time runnable without a CPU +80 ms a step, which varies too much to be sure"
    )
    assert _what_changed(changes, 1e-3, 0.0) == (sure, None)  # the steps are as long, within noise
    assert _what_changed([part("host", 0.09, False), *changes[1:]], 1e-3, 0.1) == ([("host", 0.09)], None)


def test_what_became_shorter_does_not_explain_longer_steps() -> None:
    changes = [part("input", -0.02, False), part("host", 0.012, False), part("transfer", 0.011, False)]
    assert _what_changed(changes, 1e-3, 0.003) == ([("host", 0.012), ("transfer", 0.011)], None)
    assert _what_changed(changes, 1e-3, -0.003) == ([("input", -0.02)], None)
    assert len(_what_changed(changes, 1e-3, 0.0)[0]) == 3
