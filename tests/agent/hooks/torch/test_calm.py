"""Short steps of which hooks only note what happens give the same marks and spans as any others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roofline_agent.hooks.torch import autograd as torch_autograd
from roofline_agent.hooks.torch import data as torch_data
from roofline_agent.hooks.torch import ddp as torch_ddp
from roofline_agent.hooks.torch import grad_mode as torch_grad_mode
from roofline_agent.hooks.torch import graphs as torch_graphs
from roofline_agent.hooks.torch import module as torch_module
from roofline_agent.hooks.torch import optimizer as torch_optimizer
from roofline_agent.hooks.torch.between_steps import EVALUATION
from roofline_agent.hooks.torch.ddp import ALWAYS
from roofline_agent.hooks.torch.recorder import recorder
from roofline_step._thread import StepCounts

from ..doubles import (
    DeferringMarker,
    Engine,
    EveryThird,
    LayoutMarker,
    RecordingMarker,
    ddp_module,
    grad_is,
    loader_module,
    optimizer_module,
    tensor,
)

MS = 1_000_000


class GradMode:
    class no_grad:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: Any) -> None: ...


class Module:
    def train(self, mode: bool = True) -> Module:
        return self

    def eval(self) -> Module:
        return self.train(False)


class Training:
    """A made-up PyTorch with all hooks of a step in it, and a clock that stands still between acts."""

    def __init__(self, marker: RecordingMarker) -> None:
        self.now, self.marker = 10_000 * MS, marker
        with self.clock():
            self.hooked(marker)
        self.record = recorder(marker)  # type: ignore[arg-type]
        self.optimizer = self.optimizers.Optimizer()
        self.batches = self.new_loader()

    @contextmanager
    def clock(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            clock = SimpleNamespace(monotonic_ns=lambda: self.now, time_ns=lambda: self.now)
            for module in (torch_data, torch_ddp, torch_grad_mode, torch_module):
                patch.setattr(module, "time", clock)
            for module in (torch_autograd, torch_optimizer):
                patch.setattr(module, "_now", clock.monotonic_ns)
            yield

    def hooked(self, marker: Any) -> None:
        self.loaders, self.optimizers, self.engine = loader_module(), optimizer_module(), Engine()
        iterator = self.loaders._BaseDataLoaderIter
        fetch = iterator.__next__

        def __next__(one: Any) -> Any:
            self.passes(0.05)
            return fetch(one)

        iterator.__next__ = __next__
        torch_data.patch(self.loaders, marker)
        torch_optimizer.patch(self.optimizers, marker)
        torch_autograd.patch(self.engine.module, marker)
        self.modes = SimpleNamespace(
            no_grad=type("no_grad", (GradMode.no_grad,), dict(vars(GradMode.no_grad)))
        )
        torch_grad_mode.patch(self.modes, marker)
        modules = SimpleNamespace(
            Module=type("Module", (Module,), dict(vars(Module))),
            register_module_forward_pre_hook=lambda hook: SimpleNamespace(remove=lambda: None),
            torch=grad_is(True),
        )
        torch_module.patch(modules, marker)
        self.model = modules.Module()
        self.logged: dict[str, Any] = {}  # what DDP has to tell
        parallel = ddp_module(self.logged)
        torch_ddp.patch(parallel, marker)
        self.parallel = parallel.DistributedDataParallel(SimpleNamespace(parameters=list))
        # What the engine calls behind our callback: DDP waits for the other ranks.
        self.engine.ran = SimpleNamespace(append=lambda _: self.passes(0.5))  # type: ignore[assignment]

    def new_loader(self, batches: int = 50) -> Iterator[Any]:
        return self.loaders._BaseDataLoaderIter(*[8] * batches)  # type: ignore[no-any-return]

    def passes(self, ms: float = 0.25) -> None:
        self.now += int(ms * MS)

    def fetch(self) -> None:
        try:
            next(self.batches)
        except StopIteration:
            self.batches = self.new_loader()
            next(self.batches)
        self.passes()

    def backward(self, **how: Any) -> None:
        self.engine.module.backward(SimpleNamespace(grad_fn=None), inner=self.passes, **how)

    def step(self) -> None:
        self.fetch()
        self.passes()
        self.backward()
        with self.modes.no_grad():
            self.passes(0.01)
        self.optimizer.step(self.passes)

    def ddp_step(self) -> None:
        self.fetch()
        self.parallel.forward(tensor(8))
        self.passes()
        self.engine.module.backward(SimpleNamespace(grad_fn=self.engine), inner=self.passes)
        self.reduced()
        self.optimizer.step(self.passes)

    def reduced(self) -> None:
        self.logged.update(bucket_sizes="64", backward_comm_time_start=self.now - MS // 2)
        self.logged["backward_comm_time_end"] = self.now

    # What is not in every step.

    def ddp_accumulates(self) -> None:
        self.parallel.require_backward_grad_sync = False
        self.fetch()
        self.parallel.forward(tensor(8))
        self.backward()
        self.parallel.require_backward_grad_sync = True
        self.ddp_step()

    def ddp_disturbed(self) -> None:
        self.fetch()
        self.parallel.forward(tensor(8))
        self.collective()
        self.passes()
        self.engine.module.backward(SimpleNamespace(grad_fn=self.engine), inner=self.collective)
        self.optimizer.step(self.passes)

    def two_forwards(self) -> None:
        self.fetch()
        for _ in range(2):
            self.parallel.forward(tensor(8))
            self.passes()
        self.engine.module.backward(SimpleNamespace(grad_fn=self.engine), inner=self.passes)
        self.optimizer.step(self.passes)

    def slow(self) -> None:
        self.fetch()
        self.passes(200)
        self.backward()
        self.optimizer.step()

    def accumulates(self) -> None:
        for _ in range(3):
            self.fetch()
            self.backward()
        self.optimizer.step()

    def closure(self) -> None:
        self.fetch()
        self.optimizer.step(lambda: [self.backward() for _ in range(2)])

    def in_backward(self) -> None:
        self.fetch()
        self.engine.module.backward(SimpleNamespace(grad_fn=None), inner=self.optimizer.step)

    def evaluates(self) -> None:
        self.model.eval()
        self.loaders.torch.on = False
        with self.modes.no_grad():
            loader = self.new_loader(3)
            while next(loader, None):
                self.passes(2)
        self.loaders.torch.on = True
        self.model.train()

    def validates(self) -> None:
        other = self.new_loader(2)
        for _ in range(3):
            next(other, None)
            self.passes()

    def checkpoint(self) -> None:
        self.record.note_between("between.checkpoint", self.now, self.now + MS)
        self.passes(2)

    def collective(self) -> None:
        self.record.collective("asked.broadcast", self.now, self.now + 10, 64)

    def waits(self) -> None:
        self.record.blocked(self.now, self.now + 1000)
        self.passes()

    def skips(self) -> None:
        self.fetch()
        self.backward()
        self.record.updates.skipped(self.optimizer, self.now)

    def fails(self) -> None:
        self.fetch()
        with pytest.raises(ValueError):
            self.backward(fail=True)

    def fails_in_update(self) -> None:
        def fail() -> None:
            raise KeyError

        self.fetch()
        self.backward()
        with pytest.raises(KeyError):
            self.optimizer.step(fail)

    def another_optimizer(self) -> None:
        self.kept = self.optimizers.Optimizer()
        self.passes()

    def ahead(self) -> None:
        self.fetch()

    def another_loader(self) -> None:
        self.batches = self.new_loader()

    def without_fetch(self) -> None:
        self.passes()
        self.backward()
        self.optimizer.step(self.passes)

    def without_gradients(self) -> None:
        self.fetch()
        with self.modes.no_grad():
            self.passes(5)
        self.without_fetch()

    def act(self, what: str) -> None:
        with self.clock():
            getattr(self, what)()
            self.passes(0.1)


UNUSUAL = (
    *("slow", "accumulates", "closure", "in_backward", "evaluates", "validates", "checkpoint", "collective"),
    *("waits", "skips", "fails", "fails_in_update", "another_optimizer", "ahead", "without_fetch"),
    *("without_gradients", "another_loader", "ddp_accumulates", "ddp_disturbed", "two_forwards"),
)
USUAL = st.sampled_from(("step", "ddp_step"))
ACTS = st.lists(st.one_of(st.just("step"), st.sampled_from(("step", *UNUSUAL))), max_size=60)


def hook_errors(marker: RecordingMarker) -> set[str]:
    return {name for name in marker.facts if name.startswith("hook.")}


def phases_of(marker: RecordingMarker) -> list[list[Any]]:
    """All spans of each step but what DDP tells of itself, which is asked less often in calm steps; phases
    without length, as there are where this clock stands still, may be left out."""
    told = "asked.allreduce", "engine.allreduce"
    return [
        sorted(one for one in spans if ("phase" not in one[0] or one[1] < one[2]) and one[0] not in told)
        for spans in marker.steps
    ]


def trained(marker: RecordingMarker, acts: list[str]) -> Training:
    training = Training(marker)
    for act in acts:
        training.act(act)
    training.record.borders.commit()
    training.record.borders.hand_over()
    return training


class AlikeMarker(DeferringMarker, LayoutMarker):
    """One that takes steps that are alike together."""

    together = 0

    def layout(self, marks: int, names: Any, places: Any, like: int = 0, counts: Any = ()) -> Any:  # type: ignore[override]
        return None if counts else super().layout(marks, names, places, like)

    def send_layouts(self, layout: Any, first: int, examples: int | None, steps: list[list[int]]) -> bool:
        self.together += len(steps)
        return all(layout(number, examples, times) for number, times in enumerate(steps, first))


class Readings:
    """An account of one step in four; its counts are how it was called in the step, and when."""

    def __init__(self) -> None:
        self.on, self.next, self.beside_ns = False, 2, 0
        self.calls: list[tuple[str, int]] = []

    def read(self, now: int) -> int:
        self.calls.append(("read", now))
        return now

    def begins(self, part: str, now: int) -> int:
        self.calls.append((part, now))
        return now

    def ends(self, now: int, counts: bool = True) -> int:
        self.calls.append(("ends", now if counts else 0))
        return now

    def over(self, number: int, now: int) -> StepCounts | None:
        calls, self.calls = self.calls, []
        if number < self.next:
            return None
        self.on, self.next = not self.on, number + (3 if self.on else 1)
        if self.on:
            return None
        return StepCounts(tuple(f"{what}.{at}" for what, at in calls), (1,) * len(calls), now - 1)


def assert_same(acts: list[str], account: Any, together: bool) -> None:
    """Calm or not, the training sends the same."""
    at_once, calm = RecordingMarker(), AlikeMarker() if together else DeferringMarker()
    if account is not None:
        at_once.account, calm.account = account(), account()
    trained(at_once, acts)
    record = trained(calm, acts).record
    assert calm.borders == at_once.borders
    assert calm.begins == at_once.begins
    assert calm.likes == at_once.likes
    assert phases_of(calm) == phases_of(at_once)
    assert hook_errors(calm) == hook_errors(at_once)
    assert not record.calm_steps.log


def test_update_that_fails_before_updates_within_a_backward_is_noted_as_at_once() -> None:
    assert_same([*["step"] * 17, "fails_in_update", "in_backward", "step"], None, False)


@settings(deadline=None)
@given(USUAL, ACTS, st.sampled_from([None, EveryThird, Readings]), st.booleans())
@example("step", ["step"] * 200, None, True)
@example("ddp_step", ["step"] * 200, None, True)
@example("step", ["step"] * 200, Readings, True)
@example("ddp_step", ["step"] * 200, Readings, True)
def test_calm_steps_say_the_same_as_others(usual: str, acts: list[str], account: Any, together: bool) -> None:
    acts = [usual if act == "step" else act for act in acts]
    assert_same([*[usual] * 4, *acts, usual], account, together)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("usual", ["step", "ddp_step"])
@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_may_come_anywhere(what: str, usual: str, together: bool) -> None:
    for before in range(4, 24, 2 if usual == "step" else 3):
        assert_same([*[usual] * before, what, *[usual] * 10], None, together)


@pytest.mark.parametrize("usual", ["step", "ddp_step"])
def test_plain_steps_are_sent_together(usual: str) -> None:
    marker = AlikeMarker()
    training = Training(marker)
    for _ in range(300):
        training.act(usual)
    training.record.borders.hand_over()
    assert marker.together > 200
    assert [number for number, *_ in marker.borders] == list(range(-1, 300))


@pytest.mark.parametrize("usual", ["step", "ddp_step"])
def test_most_short_steps_are_calm(usual: str) -> None:
    training = Training(DeferringMarker())
    calm = 0
    for _ in range(300):
        training.act(usual)
        calm += training.record.calm is not None
    assert calm > 240


@pytest.mark.parametrize("usual", ["step", "ddp_step"])
def test_steps_whose_thread_is_measured_are_calm_too(usual: str) -> None:
    marker = DeferringMarker()
    marker.account = Readings()
    training = Training(marker)
    calm = 0
    for _ in range(300):
        training.act(usual)
        calm += training.record.calm is not None
    training.record.borders.hand_over()
    assert calm > 240
    reads = [name for spans in marker.steps for name, *_ in spans if name.startswith("read.")]
    assert len(reads) == 75, "of each fourth step, at its end"


def test_steps_are_not_calm_where_another_thread_fetches() -> None:
    training = Training(DeferringMarker())
    for _ in range(100):
        with training.clock():
            thread = threading.Thread(target=training.fetch)
            thread.start()
            thread.join()
            training.without_fetch()
        assert training.record.calm is None
    training.record.borders.hand_over()
    assert [size for _, size, _ in training.marker.borders[1:]] == [8] * 100


def test_ddp_is_asked_behind_calm_steps() -> None:
    training = Training(DeferringMarker())
    for _ in range(600):
        training.act("ddp_step")
    training.record.borders.hand_over()
    told = [name for spans in training.marker.steps for name, *_ in spans].count("engine.allreduce")
    assert ALWAYS < told < 200, "after the first steps not at each border"


def test_what_happens_between_steps_finds_the_calm_ones_worked_out() -> None:
    training = Training(DeferringMarker())
    for _ in range(ALWAYS + 13):
        training.act("step")
    assert training.record.calm is not None
    training.act("evaluates")
    assert training.record.calm is None
    training.act("step")
    training.record.borders.hand_over()
    kinds = [name for spans in training.marker.steps for name, *_ in spans if name.startswith("between.")]
    assert kinds == [EVALUATION]


def test_what_calm_steps_cost_is_measured_too() -> None:
    training = Training(DeferringMarker())
    calm = []
    for _ in range(64 * 5):
        training.act("step")
        calm.append(training.record.sampled and training.record.calm is not None)
    assert sum(calm) >= 4, "those that measure it are calm as well"
    assert "cost.hooks_ns" in training.marker.facts


def test_batch_of_a_calm_step_counts_as_any_other() -> None:
    training = Training(DeferringMarker())
    for _ in range(30):
        training.act("step")
    training.record.borders.hand_over()
    assert {examples for number, examples, _ in training.marker.borders if number >= 0} == {8}


@pytest.mark.parametrize("warm", [ALWAYS + 2, ALWAYS + 3, ALWAYS + 7])
def test_update_that_is_captured_among_calm_steps_is_none_and_its_replays_are_steps(warm: int) -> None:
    """A stand-in for CUDA's graphs: there is no GPU here."""

    class CUDAGraph:
        def capture_begin(self) -> None: ...

        def capture_end(self) -> None: ...

        def replay(self) -> None:
            training.passes()

    marker = DeferringMarker()
    training = Training(marker)
    with training.clock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_graphs, "time", SimpleNamespace(monotonic_ns=lambda: training.now))
        torch_graphs.patch(SimpleNamespace(CUDAGraph=CUDAGraph), training.marker)  # type: ignore[arg-type]
        for _ in range(warm):
            training.step()
        assert training.record.calm is not None
        graph = CUDAGraph()
        graph.capture_begin()
        training.step()
        graph.capture_end()
        for _ in range(10):
            graph.replay()
        training.record.borders.hand_over()
    assert [number for number, *_ in marker.borders] == list(range(-1, warm + 10))
    assert marker.facts["steps.seen_by"] == "replays of CUDA graphs"
    assert "hook.torch_graphs" not in marker.facts
