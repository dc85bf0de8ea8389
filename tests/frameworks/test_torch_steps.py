"""Steps of PyTorch trainings of many structures, and what lies between, against each training's own clock.

What is exact is asserted as such. Times agree within 1 % in sum and 2 % in the median of the steps: the
training reads its clock some microseconds after the hooks. It may lose its CPU in between, so the time that
it waited for one is allowed in a sum.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from .conftest import interpreter
from .torch_runs import Heard, listened, listened_by_kind, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

STEPS = Path(__file__).with_name("torch_steps.py")
EVALUATED = ("no_gradients", "eval_mode", "inference", "batches")
ONE_PIECE = ("ordinary", "acting", "inside", "gan", "wgan", "replaced", "in_backward", "chunks", "container")
SAVED = {"save": {"checkpoint"}, "both": {"evaluation", "checkpoint"}}
BY_HAND = ("by_hand", "by_hand_data", "late")
ALONE = (*ONE_PIECE, *EVALUATED, *SAVED, *BY_HAND)
SHARED = ("ddp", "fsdp", "fully_shard")
ZERO = ("zero0", "zero1", "zero2", "zero3")

# What the loop does after an update belongs to the next step, but to what lies between if that follows.
AFTER_UPDATE_NS = 2_000_000

Own = dict[str, Any]


@pytest.fixture(scope="module")
def trainings() -> dict[str, tuple[Own, Heard]]:
    return alone(*ALONE)


@pytest.fixture
def one(
    kind: str, trainings: dict[str, tuple[Own, Heard]], request: pytest.FixtureRequest
) -> tuple[Own, Heard]:
    """What a training of this kind says of itself, and what was seen of it; of another one for a test that is
    run again."""
    if getattr(request.node, "execution_count", 1) > 1:
        trainings.update(alone(kind))
    return trainings[kind]


def alone(*kinds: str, variable: str = "ROOFLINE_TORCH_PYTHON") -> dict[str, tuple[Own, Heard]]:
    """Trainings of one process each."""
    command = [*wrapping("--no-kernels"), interpreter(variable), STEPS, *kinds]
    return listened_by_kind([str(part) for part in command])


def together(kind: str, variable: str = "ROOFLINE_TORCH_PYTHON") -> list[tuple[Own, Heard]]:
    """Of each rank of a training of two."""
    own, heard = listened(torchrun(interpreter(variable), wrapping("--no-kernels"), [STEPS, kind]))
    return [(own[rank][0], heard[rank]) for rank in sorted(own)]


def check_steps(own: Own, heard: Heard) -> None:
    """Step 0 has no begin that a training could know; of the others all is compared."""
    assert heard.steps == list(range(-1, len(own["steps"])))
    seen = [end - begin for begin, end in map(heard.window, heard.steps[2:])]
    truth = [end - begin for begin, end in own["steps"][1:]]
    after_updates = AFTER_UPDATE_NS * len(own["between"])
    assert sum(seen) == pytest.approx(sum(truth), abs=0.01 * sum(truth) + after_updates + own["waited_ns"])
    # Step by step: where other programs run, neighbours differ by more than what is allowed.
    apart = [mine - its for mine, its in zip(seen, truth, strict=True)]
    assert abs(statistics.median(apart)) <= 0.02 * statistics.median(truth)


def check_between(own: Own, heard: Heard, kinds: set[str]) -> None:
    """Steps and what lies between them are all the time there is; the latter lasts as the training says."""
    last = own["steps"][-1][1]
    truth = [one for one in own["between"] if one[2] < last]
    assert {span.name for span in heard.spans if span.name.startswith("between.")} - {"between.other"} == {
        f"between.{kind}" for kind in kinds
    }
    stretches = heard.between()
    total = sum(end - begin for _, begin, end in truth)
    slack = 0.05 * total + AFTER_UPDATE_NS * len(truth) + own["waited_ns"]
    assert sum(end - begin for begin, end in stretches) == pytest.approx(total, abs=slack)
    begins = [heard.window(step)[0] for step in heard.steps[1:]]
    ends = [heard.window(step)[1] for step in heard.steps[1:]]
    gaps = sum(after - before for before, after in zip(ends[:-1], begins[1:], strict=True))
    assert gaps == sum(end - begin for begin, end in stretches)


@pytest.mark.parametrize("kind", ONE_PIECE)
def test_loops_without_anything_between(one: tuple[Own, Heard]) -> None:
    own, heard = one
    check_steps(own, heard)
    assert heard.between() == []
    assert not heard.phases_overlap()


@pytest.mark.parametrize("kind", EVALUATED)
def test_evaluations(one: tuple[Own, Heard], kind: str) -> None:
    own, heard = one
    check_steps(own, heard)
    check_between(own, heard, {"without_gradients" if kind == "no_gradients" else "evaluation"})


@pytest.mark.parametrize("kind", SAVED)
def test_checkpoints_and_both(one: tuple[Own, Heard], kind: str) -> None:
    own, heard = one
    check_steps(own, heard)
    check_between(own, heard, SAVED[kind])
    likes = heard.likes[5:]
    assert set(likes) == {likes[0]} != {0}, "also after a checkpoint"
    last = own["steps"][-1][1]
    names = [span.name for span in heard.spans]
    for each in SAVED[kind]:
        assert names.count(f"between.{each}") == sum(end < last for _, _, end in own["between"])


@pytest.mark.parametrize("kind", BY_HAND)
def test_updates_by_hand(one: tuple[Own, Heard], kind: str) -> None:
    own, heard = one
    check_steps(own, heard)
    assert heard.facts["steps.seen_by"] == ("optimizer" if kind == "late" else "backward")


@pytest.mark.parametrize("kind", SHARED)
def test_ranks_that_evaluate_and_save(kind: str) -> None:
    for own, heard in together(kind):
        check_steps(own, heard)
        check_between(own, heard, {"evaluation", "checkpoint"})


@pytest.mark.parametrize("kind", ["accelerate", "trainer", "lightning", "lightning_gan"])
def test_trainers(kind: str) -> None:
    own, heard = alone(kind, variable="ROOFLINE_TRAINERS_PYTHON")[kind]
    check_steps(own, heard)
    check_between(own, heard, {one[0] for one in own["between"]})


@pytest.mark.parametrize("kind", ZERO)
def test_deepspeed(kind: str) -> None:
    for own, heard in together(kind, "ROOFLINE_TRAINERS_PYTHON"):
        check_steps(own, heard)
