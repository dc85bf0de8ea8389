"""Steps of PyTorch trainings of many structures, and what lies between, against each training's own clock.

What is exact is asserted as such. Times agree within 1 % in sum and 2 % in the median: the training reads its
clock some microseconds after the hooks, or loses its CPU in between.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from .conftest import interpreter
from .torch_runs import Heard, listened, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

STEPS = Path(__file__).with_name("torch_steps.py")
EVALUATED = ("no_gradients", "eval_mode", "inference", "batches")
ONE_PIECE = ("ordinary", "acting", "inside", "gan", "wgan", "replaced", "in_backward", "chunks", "container")
BY_HAND = ("by_hand", "by_hand_data", "late")
SHARED = ("ddp", "fsdp", "fully_shard")
ZERO = ("zero0", "zero1", "zero2", "zero3")

# What the loop does after an update belongs to the next step, but to what lies between if that follows.
AFTER_UPDATE_NS = 2_000_000

Own = dict[str, Any]


def run(kind: str, variable: str = "ROOFLINE_TORCH_PYTHON", ranks: int = 0) -> list[tuple[Own, Heard]]:
    """What each rank says of itself, and what was seen of it."""
    python = interpreter(variable)
    wrap = wrapping("--no-kernels")
    if ranks:
        command = torchrun(python, wrap, [STEPS, kind], ranks)
    else:
        command = [str(part) for part in [*wrap, python, STEPS, kind]]
    own, heard = listened(command)
    return [(own[rank][0], heard[rank]) for rank in sorted(own)]


def check_steps(own: Own, heard: Heard) -> None:
    """Step 0 has no begin that a training could know; of the others all is compared."""
    assert heard.steps == list(range(-1, len(own["steps"])))
    seen = [end - begin for begin, end in map(heard.window, heard.steps[2:])]
    truth = [end - begin for begin, end in own["steps"][1:]]
    after_updates = AFTER_UPDATE_NS * len(own["between"])
    assert sum(seen) == pytest.approx(sum(truth), abs=0.01 * sum(truth) + after_updates)
    assert statistics.median(seen) == pytest.approx(statistics.median(truth), rel=0.02)


def check_between(own: Own, heard: Heard, kinds: set[str]) -> None:
    """Steps and what lies between them are all the time there is; the latter lasts as the training says."""
    last = own["steps"][-1][1]
    truth = [one for one in own["between"] if one[2] < last]
    assert {span.name for span in heard.spans if span.name.startswith("between.")} - {"between.other"} == {
        f"between.{kind}" for kind in kinds
    }
    stretches = heard.between()
    total = sum(end - begin for _, begin, end in truth)
    slack = 0.05 * total + AFTER_UPDATE_NS * len(truth)
    assert sum(end - begin for begin, end in stretches) == pytest.approx(total, abs=slack)
    begins = [heard.window(step)[0] for step in heard.steps[1:]]
    ends = [heard.window(step)[1] for step in heard.steps[1:]]
    gaps = sum(after - before for before, after in zip(ends[:-1], begins[1:], strict=True))
    assert gaps == sum(end - begin for begin, end in stretches)


@pytest.mark.parametrize("kind", ONE_PIECE)
def test_loops_without_anything_between(kind: str) -> None:
    ((own, heard),) = run(kind)
    check_steps(own, heard)
    assert heard.between() == []
    assert not heard.phases_overlap()


@pytest.mark.parametrize("kind", EVALUATED)
def test_evaluations(kind: str) -> None:
    ((own, heard),) = run(kind)
    check_steps(own, heard)
    check_between(own, heard, {"evaluation"})


def test_checkpoints_and_both() -> None:
    for kind, kinds in (("save", {"checkpoint"}), ("both", {"evaluation", "checkpoint"})):
        ((own, heard),) = run(kind)
        check_steps(own, heard)
        check_between(own, heard, kinds)
        likes = heard.likes[5:]
        assert set(likes) == {likes[0]} != {0}, "also after a checkpoint"


@pytest.mark.parametrize("kind", BY_HAND)
def test_updates_by_hand(kind: str) -> None:
    ((own, heard),) = run(kind)
    check_steps(own, heard)
    assert heard.facts["steps.seen_by"] == ("optimizer" if kind == "late" else "backward")


@pytest.mark.parametrize("kind", SHARED)
def test_ranks_that_evaluate_and_save(kind: str) -> None:
    for own, heard in run(kind, ranks=2):
        check_steps(own, heard)
        check_between(own, heard, {"evaluation", "checkpoint"})


@pytest.mark.parametrize("kind", ["accelerate", "trainer", "lightning", "lightning_gan"])
def test_trainers(kind: str) -> None:
    ((own, heard),) = run(kind, "ROOFLINE_TRAINERS_PYTHON")
    check_steps(own, heard)
    check_between(own, heard, {one[0] for one in own["between"]})


@pytest.mark.parametrize("kind", ZERO)
def test_deepspeed(kind: str) -> None:
    for own, heard in run(kind, "ROOFLINE_TRAINERS_PYTHON", ranks=2):
        check_steps(own, heard)
