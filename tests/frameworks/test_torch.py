"""Real PyTorch trainings: steps, examples, phases and collectives against what a training says of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from ..end_to_end.conftest import Site, values, wait_until
from ..fakes import clean_environ
from .conftest import interpreter
from .torch_runs import DDP, LOOPS, Heard, finish, listened, said, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

TRAINING = Path(__file__).with_name("torch_training.py")
COMPILED = Path(__file__).with_name("torch_compiled.py")
FLOPS_PER_STEP = 1_969_471_488
STEPS = 40
ALONE = ("plain", "accumulate", "joined", "gan", "scaler", "lbfgs", "odd", "compiled")
OF_RANKS = ("by_hand", "by_hand_async", "ddp_odd", "fsdp", "fully_shard")
NEEDS = {"lightning": "lightning", "transformers": "accelerate"}
BY_HAND = 4 * (256 * 256 + 256 + 256 + 1)  # bytes of the gradients
SHARDED = 4 * (3 * (256 * 256 + 256) + 257)

Said = list[dict[str, Any]]


class Trainings(NamedTuple):
    """Several trainings of one process or group, one after another."""

    own: dict[int, Said]
    heard: dict[int, Heard]
    bare: dict[int, Said]

    def steps(self, kind: str) -> range:
        """Numbers of the steps that a training of the group made."""
        at = 0
        for line in self.own[0]:
            if line["kind"] == kind:
                return range(at, at + len(line["examples"]))
            at += len(line["examples"])
        raise AssertionError(f"no {kind}")


def run(python: str, wrap: list[Any], *script: Any) -> list[str]:
    return [str(part) for part in [*wrap, python, *script]]


def has(python: str, module: str) -> bool:
    return any(Path(python).parents[1].glob(f"lib/python3*/site-packages/{module}"))


def examples(own: Said) -> list[int]:
    return [size for line in own for size in line["examples"]]


def computed(own: dict[int, Said]) -> dict[int, list[tuple[str, str]]]:
    return {rank: [(line["kind"], line["result"]) for line in lines] for rank, lines in own.items()}


def check(own: Said, heard: Heard) -> None:
    """What is true of every training."""
    sizes = examples(own)
    assert heard.steps == [-1, *range(len(sizes))]
    assert heard.examples == sizes
    assert not heard.phases_overlap()
    assert not {k: v for k, v in heard.facts.items() if k.startswith("hook.") and v != "installed"}
    times = [mark.time_ns for mark in heard.marks]
    assert times == sorted(times)
    left_out = [step for step in range(len(sizes)) if not heard.named("phase.optimizer", step)]
    assert len(left_out) == int(heard.facts.get("steps.skipped", 0))
    for step, size in enumerate(sizes):
        begin, end = heard.window(step)
        optional = {"phase.input": size, "phase.optimizer": step not in left_out}
        for name in ("phase.backward", *(name for name, expected in optional.items() if expected)):
            spans = heard.named(name, step)
            assert spans, f"{name} in step {step}"
            assert all(begin <= span.begin < span.end <= end for span in spans)


@pytest.fixture(scope="module")
def done() -> dict[str, Trainings]:
    return {}


@pytest.fixture
def alone(done: dict[str, Trainings], request: pytest.FixtureRequest) -> Trainings:
    return kept(done, train_alone, request)


@pytest.fixture
def together(done: dict[str, Trainings], request: pytest.FixtureRequest) -> Trainings:
    return kept(done, train_together, request)


def kept(
    done: dict[str, Trainings], train: Callable[[], Trainings], request: pytest.FixtureRequest
) -> Trainings:
    """Trainings that were done for another test, or again for one that is run again."""
    if train.__name__ not in done or getattr(request.node, "execution_count", 1) > 1:
        done[train.__name__] = train()
    return done[train.__name__]


def train_alone() -> Trainings:
    python = interpreter("ROOFLINE_TORCH_PYTHON")
    own, heard = listened(run(python, wrapping(), LOOPS, *ALONE))
    return Trainings(own, heard, said(finish(run(python, [], LOOPS, *ALONE), clean_environ()).stdout))


def train_together() -> Trainings:
    python = interpreter("ROOFLINE_TORCH_PYTHON")
    own, heard = listened(torchrun(python, wrapping(), [LOOPS, *OF_RANKS]))
    bare = finish(torchrun(python, [], [LOOPS, *OF_RANKS]), clean_environ()).stdout
    return Trainings(own, heard, said(bare))


def test_every_kind_of_loop_is_seen_to_the_last_step(alone: Trainings) -> None:
    check(alone.own[0], alone.heard[0])
    assert [line["kind"] for line in alone.own[0]] == list(ALONE)
    for kind in ("plain", "accumulate", "joined", "gan", "scaler", "lbfgs"):
        assert all(alone.heard[0].named("phase.forward", step) for step in alone.steps(kind)), kind


def test_nothing_is_computed_differently(alone: Trainings, together: Trainings) -> None:
    assert computed(alone.own) == computed(alone.bare)
    assert computed(together.own) == computed(together.bare)


@pytest.mark.parametrize("kind", ["compiled", "exported"])
def test_what_is_compiled_as_a_whole_is_with_hooks(torch_python: str, kind: str) -> None:
    finish(run(torch_python, wrapping("--no-kernels"), COMPILED, kind), clean_environ())


@pytest.mark.parametrize("kind", list(NEEDS))
def test_trainers_are_seen_to_the_last_step(torch_python: str, kind: str) -> None:
    if not has(torch_python, NEEDS[kind]):
        pytest.skip(f"{NEEDS[kind]} is not installed")
    own, heard = listened(run(torch_python, wrapping(), LOOPS, kind))
    check(own[0], heard[0])
    assert len(heard[0].named("phase.forward")) == len(heard[0].named("phase.backward"))


def test_every_kind_of_distributed_loop_is_seen_to_the_last_step(together: Trainings) -> None:
    assert sorted(together.own) == [0, 1]
    for rank, heard in together.heard.items():
        check(together.own[rank], heard)
        assert all(
            heard.named("phase.communicate", step) for step in range(len(examples(together.own[rank])))
        )
        assert (heard.facts["setting.backend"], heard.facts["setting.world_size"]) == ("gloo", "2")


@pytest.mark.parametrize("kind", ["fsdp", "fully_shard"])
def test_collectives_of_fsdp(together: Trainings, kind: str) -> None:
    """Three layers and a head: gathered for forward, the layers again for backward, all scattered once."""
    heard = together.heard[0]
    assert int(heard.facts["gradient.bytes"]) == SHARDED
    assert int(heard.facts["gradient.tensors"]) == 8
    for step in together.steps(kind):
        gathered, scattered = heard.named("asked.allgather", step), heard.named("asked.reducescatter", step)
        assert sum(span.count for span in scattered) == 4
        assert sum(span.bytes or 0 for span in scattered) == pytest.approx(SHARDED, rel=0.01)  # padded
        assert sum(span.bytes or 0 for span in gathered) == pytest.approx(2 * SHARDED, rel=0.01)
        executed = heard.named("engine.reducescatter", step)
        assert sum(span.bytes or 0 for span in executed) == sum(span.bytes or 0 for span in scattered)


def test_collectives_of_a_loop_by_hand_and_who_came_last(together: Trainings) -> None:
    heard = together.heard
    earlier, waits_longer = [], []
    for step in together.steps("by_hand")[1:]:
        for rank in (0, 1):
            asked = heard[rank].named("asked.allreduce", step)
            assert (sum(s.count for s in asked), sum(s.bytes or 0 for s in asked)) == (4, BY_HAND)
            assert sum(s.bytes or 0 for s in heard[rank].named("engine.allreduce", step)) == BY_HAND
        early, late = (heard[rank].named("phase.communicate", step)[0] for rank in (0, 1))
        earlier.append(late.begin - early.begin)
        waits_longer.append((early.end - early.begin) - (late.end - late.begin))
    assert median(earlier) > 0, "rank 1 is 30 ms late"
    assert median(waits_longer) > 0


def test_kinds_of_collectives(together: Trainings) -> None:
    heard = together.heard
    for step in together.steps("by_hand_async"):
        for kind, payload in (("allreduce", BY_HAND), ("allgather", 32)):
            assert sum(s.bytes or 0 for s in heard[0].named("asked." + kind, step)) == payload
        assert heard[0].named("asked.barrier", step)
        assert [s.bytes for s in heard[0].named("asked.send", step)] == [64]
        assert [s.bytes for s in heard[1].named("asked.recv", step)] == [64]
        assert [s.bytes for s in heard[0].named("asked.allreduce.1-1", step)] == [32], "of a group"
        assert [heard[rank].named("asked.gather", step)[0].bytes for rank in (0, 1)] == [32, 16]


def test_a_late_rank_waits_least_in_ddp(torch_python: str) -> None:
    """The wait begins when a rank's own gradients are all there, also where the others' are late."""
    script = [DDP, "--steps", 8, "--slow-rank", 1, "--slow-seconds", 0.2]
    own, heard = listened(torchrun(torch_python, wrapping(), script))
    waits = [
        sorted(sum(s.end - s.begin for s in heard[rank].named("phase.communicate", k)) for k in range(1, 8))
        for rank in (0, 1)
    ]
    assert waits[0][3] > 100e6 > waits[1][3], "in the median step: this machine has other work, too"
    for rank in (0, 1):
        (line,), facts = own[rank], heard[rank].facts
        assert heard[rank].steps == [-1, *range(8)]
        assert (int(facts["gradient.bytes"]), facts["gradient.tensors"]) == (line["gradient_bytes"], "6")
        executed, waited = heard[rank].named("engine.allreduce"), heard[rank].named("phase.communicate")
        assert len(executed) == 7, "of all steps but the last"
        assert {span.bytes for span in executed} == {line["gradient_bytes"]}
        # The engine works from the first bucket on, so from before the wait, and until about its end.
        nearest = [min(waited, key=lambda wait, end=span.end: abs(wait.end - end)) for span in executed]
        pairs = list(zip(executed, nearest, strict=True))
        assert all(span.begin < wait.begin for span, wait in pairs)
        assert median(abs(span.end - wait.end) for span, wait in pairs) < 20e6


def test_slow_input_is_seen_as_input(torch_python: str) -> None:
    _, heard = listened(torchrun(torch_python, wrapping(), [DDP, "--steps", 4, "--slow-input", 0.1]))
    for step in range(4):
        assert sum(s.end - s.begin for s in heard[0].named("phase.input", step)) > 90e6


def test_torch_steps_and_flops(site: Site, torch_python: str) -> None:
    site.server()
    site.agent()
    done = finish(run(torch_python, wrapping("--job", 7, "--role", "ddp"), TRAINING, STEPS), site.environ)
    assert done.stdout == finish(run(torch_python, [], TRAINING, STEPS), site.environ).stdout
    wait_until(lambda: site.worked("ddp:0", STEPS, "7"), what="all steps and kernels arrive")
    seen = values(site.report("7"), "ddp:0")
    assert seen["flops_per_step"] == FLOPS_PER_STEP
    assert seen["examples_per_second"] is None  # the number of examples per step is not known


def test_ddp_from_end_to_end(site: Site, torch_python: str) -> None:
    """Steps, examples, FLOPs and bytes on the sockets against what the training says and the ring formula."""
    site.server()
    site.agent()
    steps = 40
    command = torchrun(
        torch_python, wrapping("--job", 8), [DDP, "--steps", steps, "--epoch", 40, "--width", 2048]
    )
    own = said(finish(command, site.environ).stdout)
    for rank, (line,) in own.items():
        key = f"ddp:{rank}"
        wait_until(lambda key=key: site.worked(key, steps, "8"), what=f"all steps of {key} arrive")
        seen = values(site.report("8"), key)
        assert seen["flops_per_step"] == line["flops_per_step"]
        assert seen["examples_per_second"] == pytest.approx(32 / seen["step_time_median"], rel=0.5)
        analytic = 2 * (line["world"] - 1) / line["world"] * line["gradient_bytes"]
        assert seen["sent_bytes_per_step"] == pytest.approx(analytic, rel=0.1)


def test_restarted_group_goes_on_counting(site: Site, torch_python: str, tmp_path: Path) -> None:
    """Rank 1 dies before step 12; torchrun starts all again from the checkpoint."""
    site.server()
    site.agent()
    script = [DDP, "--steps", 20, "--die-at", 12, "--folder", tmp_path]
    own = said(
        finish(
            torchrun(torch_python, wrapping("--job", 9), script, 2, "--max-restarts", 1), site.environ
        ).stdout
    )
    assert {line["first"] for (line,) in own.values()} == {12}
    for rank in (0, 1):
        key = f"ddp:{rank}"
        wait_until(lambda key=key: site.steps(key, "9") == 20, what=f"all steps of {key} arrive")
    told = [note for note in site.report("9")["notes"] if "started again once" in note]
    assert told and "ddp:0, ddp:1" in told[0]
