"""Doubles that the tests of PyTorch's hooks share: a marker that remembers, parts of torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

from roofline_agent.hooks.marker import NoAccount
from roofline_agent.hooks.torch.batches import Batches
from roofline_agent.hooks.torch.phases import BACKWARD, INPUT, OPTIMIZER
from roofline_agent.hooks.torch.recorder import Recorder
from roofline_step._thread import StepCounts


class RecordingMarker:
    """A Marker that remembers."""

    def __init__(self) -> None:
        self.borders: list[tuple[int, int | None, int | None]] = []
        self.steps: list[list[tuple[str, int, int, int | None, int]]] = []
        self.facts: dict[str, object] = {}
        self.notes = self.flushes = 0
        self.said: dict[str, object] = {}  # which rank it is
        self.account: Any = NoAccount()
        self.stall: tuple[int, int] | None = None  # behind the last border, for a trace
        self.likes: list[int] = []
        self.begins: dict[int, int] = {}  # of steps that did not begin with the border before them
        self._signatures: dict[Any, int] = {}

    def like(self, signature: Any) -> int:
        return self._signatures.setdefault(signature, len(self._signatures) + 1)

    def over(self, number: int, now: int) -> Any:
        return self.account.over(number, now)

    def layout(self, *_: Any) -> None:
        """Every step is told by itself."""

    def border(
        self,
        number: int,
        examples: int | None = None,
        time_ns: int | None = None,
        like: int = 0,
        begin_ns: int | None = None,
    ) -> None:
        self.borders.append((number, examples, time_ns))
        self.likes.append(like)
        if begin_ns is not None:
            self.begins[number] = begin_ns

    def spans(self, spans: Any) -> None:
        self.steps.append(sorted(spans, key=lambda span: span[1]))

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def variables(self, **variables: object) -> None:
        self.said = variables

    def failed(self, hook: str) -> None:
        self.facts["hook." + hook] = "failed"

    def note(self) -> None:
        self.notes += 1

    def flush(self) -> None:
        self.flushes += 1

    def traces_with(self, framework: str) -> None:
        self.framework = framework

    def take_stall(self) -> tuple[int, int] | None:
        stall, self.stall = self.stall, None
        return stall

    @property
    def phases(self) -> list[tuple[str, int, int]]:
        """Of the last step."""
        return [span[:3] for span in self.steps[-1] if span[0].startswith("phase.")]


def during(record: Recorder, name: str, begin: int, end: int) -> None:
    record.enter(name, begin)
    record.leave(end)


def step(record: Recorder, at: int) -> None:
    """Input, forward, backward and optimizer of 10 each, from `at` on."""
    during(record, INPUT, at, at + 10)
    record.forward(at + 10)
    during(record, BACKWARD, at + 20, at + 30)
    during(record, OPTIMIZER, at + 30, at + 40)
    record.stepped(at + 40)


class DataIterator:
    """Stands for a DataLoader's."""


def use(batches: Batches, backwards: int = 1) -> int | None:
    for _ in range(backwards):
        batches.backward()
    return batches.take()


def tensor(*shape: int) -> Any:
    return SimpleNamespace(shape=shape)


def grad_is(on: bool) -> Any:
    """A torch whose gradients are on, or off: `on` may be changed."""
    torch = SimpleNamespace(on=on)
    torch.is_grad_enabled = lambda: torch.on
    return torch


def optimizer_module() -> Any:
    hooks: Any = SimpleNamespace(before=[], after=[])

    class Optimizer:
        def step(self, closure: Any = None) -> None:
            for hook in hooks.before:
                hook(self, (), {})
            if closure:
                closure()
            for hook in hooks.after:
                hook(self, (), {})

    return SimpleNamespace(
        Optimizer=Optimizer,
        register_optimizer_step_pre_hook=hooks.before.append,
        register_optimizer_step_post_hook=hooks.after.append,
    )


class Tensor:
    def __init__(self, count: int, cpu: bool = True) -> None:
        self.count, self.is_cpu = count, cpu

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4


def parameter(count: int, device: str = "cpu") -> Any:
    one: Any = Tensor(count)
    one.requires_grad, one.device = True, SimpleNamespace(type=device)
    return one


class Engine:
    """Autograd as far as the hook sees it: final callbacks run in the order they were queued."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.callbacks: list[Any] = []
        self.hooks: list[Any] = []
        engine = self

        class Variable:
            _execution_engine = engine

        self.module = SimpleNamespace(Variable=Variable, backward=self.backward)

    def queue_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def register_prehook(self, hook: Any) -> Any:
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def backward(self, tensors: Any, fail: bool = False, inner: Any = None) -> str:
        for hook in self.hooks:
            assert hook(()) is None, "gradients stay what they are"
        if inner:
            inner()
        if fail:
            raise ValueError("as it was")
        self.queue_callback(lambda: self.ran.append("ddp"))
        while self.callbacks:
            self.callbacks.pop(0)()
        return "result"


def loader_module() -> Any:
    class _BaseDataLoaderIter:
        def __init__(self, *sizes: int) -> None:
            self.sizes = list(sizes)

        def __next__(self) -> Any:
            if not self.sizes:
                raise StopIteration
            return tensor(self.sizes.pop(0))

    return SimpleNamespace(_BaseDataLoaderIter=_BaseDataLoaderIter, torch=grad_is(True))


def ddp_module(logged: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """logged: what DDP tells of its last reduction but one, as it is when it is asked."""

    class DistributedDataParallel:
        require_backward_grad_sync = True
        bucket_bytes_cap = 25 * 2**20

        def __init__(self, module: Any) -> None:
            self.module = module

        def forward(self, *inputs: Any, **kwargs: Any) -> Any:
            return inputs

        def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
            self.rate = rate

        def _get_ddp_logging_data(self) -> Mapping[str, Any]:
            return logged

    return SimpleNamespace(DistributedDataParallel=DistributedDataParallel, torch=grad_is(True))


class LayoutMarker(RecordingMarker):
    """Takes steps that are alike as what they stand for."""

    layouts_sent = 0

    def layout(self, marks: int, names: Any, places: Any, like: int = 0) -> Any:  # type: ignore[override]
        def say(number: int, examples: int | None, times: list[int]) -> bool:
            at, *of_spans = (times[place] for place in places)
            pairs = zip(of_spans[::2], of_spans[1::2], strict=True)
            self.spans([(name, *pair, None, 1) for name, pair in zip(names, pairs, strict=True)])
            self.border(number, examples, at, like)
            return True

        assert marks == 1
        return say

    def send_layout(self, layout: Any, number: int, examples: int | None, times: list[int]) -> bool:
        self.layouts_sent += 1
        return layout(number, examples, times)  # type: ignore[no-any-return]


class DeferringMarker(RecordingMarker):
    """One that wants a border at once now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def defers(self, call: Any) -> bool:
        self.calls.append(call)
        return True

    def deferred_to(self) -> int:
        return (len(self.borders) // 8 + 1) * 8


class EveryThird:
    """An account that measures steps 2, 5, 8, ..."""

    on = False
    next = 2

    def over(self, number: int, now: int) -> StepCounts:
        self.next = number + 3
        return StepCounts(("thread.run.step",), (number,), now - 1)
