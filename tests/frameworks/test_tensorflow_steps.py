"""Real TensorFlow and Keras loops: steps, examples and what lies between, against their own clock."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from roofline_step import BEGIN, END

from .conftest import interpreter
from .torch_runs import Heard, listened_by_kind, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

LOOPS = Path(__file__).with_name("tf_loops.py")
KINDS = (
    *(
        "function",
        "eager",
        "loop_in_python",
        "loop_in_graph",
        "loop_of_one_batch",
        "strategy_loop",
        "strategy_of_two",
        "by_hand",
    ),
    *(
        "accumulate",
        "accumulate_apart",
        "apply_eagerly",
        "accumulating",
        "fit_accumulating",
        "gan",
        "fit",
        "fit_several",
        "fit_with_breaks",
        "fit_custom",
        "fit_eagerly",
    ),
    *("train_on_batch", "breaks"),
)
CLOSE_NS = 5_000_000  # between an event by the training's clock and by ours
PYTHONS = ("ROOFLINE_TF_PYTHON", "ROOFLINE_KERAS3_PYTHON")


class Window(NamedTuple):
    """A step as marked."""

    begin_ns: int
    end_ns: int
    examples: int | None
    like: int


class Training(NamedTuple):
    """What one said of itself, and what was marked."""

    calls: list[tuple[int, int, int]]  # end, updates, examples
    between: list[tuple[str, int, int]]
    windows: list[Window]
    heard: Heard


@pytest.fixture(scope="module", params=PYTHONS)
def trainings(request: pytest.FixtureRequest) -> tuple[str, dict[str, Training]]:
    """The Python, and all kinds."""
    python = interpreter(request.param)
    return python, train(python, *KINDS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def one(kind: str, trainings: tuple[str, dict[str, Training]], request: pytest.FixtureRequest) -> Training:
    """A training of this kind; another one for a test that is run again."""
    python, found = trainings
    if getattr(request.node, "execution_count", 1) > 1:
        found.update(train(python, kind))
    return found[kind]


def train(python: str, *kinds: str) -> dict[str, Training]:
    heard = listened_by_kind([str(part) for part in [*wrapping(), python, LOOPS, *kinds]])
    return {kind: training(*heard[kind]) for kind in kinds}


def training(line: dict[str, Any], mine: Heard) -> Training:
    begun = {mark.step: mark for mark in mine.marks if mark.kind == BEGIN}
    windows = [
        Window(begun[mark.step].time_ns, mark.time_ns, mark.examples, mark.like)
        for mark in mine.marks
        if mark.kind == END
    ]
    assert [mark.step for mark in mine.marks if mark.kind == END] == list(range(len(windows)))
    return Training(
        [tuple(call) for call in line["calls"]],  # type: ignore[misc]
        [tuple(stretch) for stretch in line["between"]],  # type: ignore[misc]
        windows,
        mine,
    )


def own_durations(one: Training) -> list[float]:
    """Of each update but those of the first call: an equal part of its call and of what came before it."""
    found: list[float] = []
    for (before, _, _), (end, updates, _) in pairwise(one.calls):
        away = sum(
            last - first for _, first, last in one.between if before <= first + CLOSE_NS and last <= end
        )
        found += [(end - before - away) / updates] * updates
    return found


def test_every_update_and_example_is_counted(one: Training) -> None:
    assert len(one.windows) == sum(updates for _, updates, _ in one.calls)
    assert sum(window.examples or 0 for window in one.windows) == sum(size for _, _, size in one.calls)
    assert not {k: v for k, v in one.heard.facts.items() if k.startswith("hook.") and v != "installed"}


def test_steps_last_as_long_as_by_the_trainings_clock(one: Training, kind: str) -> None:
    own = own_durations(one)
    ours = [window.end_ns - window.begin_ns for window in one.windows[-len(own) :]]
    # Step by step: other programs on the machine make neighbours differ by more than what is allowed.
    apart = [mine - its for mine, its in zip(ours, own, strict=True)]
    assert abs(median(apart)) <= 0.02 * median(own)
    if kind.startswith("fit"):
        return  # what Keras does between its epochs is in no step of ours
    others = [span.end - span.begin for span in one.heard.spans if span.name == "between.other"]
    # In the first of these is what hooks do once, behind a border that the training sees later.
    assert sum(ours[1:]) + sum(others) == pytest.approx(sum(own[1:]), rel=0.01)


@pytest.mark.parametrize("kind", ["fit_with_breaks", "breaks"])
def test_evaluations_and_checkpoints_are_in_no_step(one: Training) -> None:
    spans = [span for span in one.heard.spans if span.name in ("between.evaluation", "between.checkpoint")]
    last = one.windows[-1].end_ns
    told = [stretch for stretch in one.between if stretch[1] < last - CLOSE_NS]
    assert [span.name for span in spans] == [f"between.{name}" for name, _, _ in told]
    for span, (_, begin, end) in zip(spans, told, strict=True):
        assert begin - 100 * CLOSE_NS < span.begin <= begin + CLOSE_NS
        assert span.end >= end - CLOSE_NS
        assert all(window.end_ns <= span.begin or span.end <= window.begin_ns for window in one.windows)
    ordinary = median(window.end_ns - window.begin_ns for window in one.windows)
    after = [next(w for w in one.windows if w.begin_ns >= span.end) for span in spans]
    assert median(window.end_ns - window.begin_ns for window in after) < 2 * ordinary


def test_steps_that_are_alike_have_one_number(one: Training, kind: str) -> None:
    numbers = [window.like for window in one.windows[2:]]
    assert all(numbers), "known for every step"
    for number in set(numbers):
        sizes = {w.examples for w in one.windows if w.like == number}
        assert len(sizes) == 1 or kind == "fit_several"
    assert len(set(numbers)) <= 4


@pytest.mark.parametrize("kind", ["fit"])
def test_hooks_report_their_cost(one: Training) -> None:
    assert 0 < int(one.heard.facts["cost.hooks_ns"]) < 1_000_000
