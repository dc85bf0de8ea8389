"""What PyTorch's recorder makes of what it hears; its hooks on made-up modules of torch's shape."""

from __future__ import annotations

import gc
import os
import sys
import threading
import tracemalloc
import weakref
from collections import deque
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_agent.hooks import (
    Marker,
    horovod_torch,
    torch_autograd,
    torch_collectives,
    torch_data,
    torch_ddp,
    torch_fsdp,
    torch_module,
    torch_optimizer,
)
from roofline_agent.hooks.torch_batches import Batches, examples_in
from roofline_agent.hooks.torch_recorder import (
    BACKWARD,
    COMMUNICATE,
    FORWARD,
    INPUT,
    MAX_SPANS,
    OPTIMIZER,
    Recorder,
    recorder,
    thinned,
)


class Heard:
    """A Marker that remembers."""

    def __init__(self) -> None:
        self.borders: list[tuple[int, int | None, int | None]] = []
        self.steps: list[list[tuple[str, int, int, int | None, int]]] = []
        self.facts: dict[str, object] = {}
        self.notes = 0

    def layout(self, *_: Any) -> None:
        """Every step is told by itself."""

    def border(self, number: int, examples: int | None = None, time_ns: int | None = None) -> None:
        self.borders.append((number, examples, time_ns))

    def spans(self, spans: Any) -> None:
        self.steps.append(sorted(spans, key=lambda span: span[1]))

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def note(self) -> None:
        self.notes += 1

    @property
    def phases(self) -> list[tuple[str, int, int]]:
        """Of the last step."""
        return [span[:3] for span in self.steps[-1] if span[0].startswith("phase.")]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def record(heard: Heard) -> Recorder:
    return recorder(heard)  # type: ignore[arg-type]


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


def test_phases_of_a_plain_step(record: Recorder, heard: Heard) -> None:
    step(record, 100)
    assert heard.phases == [
        (INPUT, 100, 110),
        (FORWARD, 110, 120),
        (BACKWARD, 120, 130),
        (OPTIMIZER, 130, 140),
    ]
    step(record, 200)
    assert heard.phases[0] == (INPUT, 200, 210)
    assert heard.borders == [(0, None, 140), (1, None, 240)]


def test_waiting_at_the_end_of_backward_is_cut_out_of_it(record: Recorder, heard: Heard) -> None:
    record.enter(BACKWARD, 10)
    record.turn(BACKWARD, COMMUNICATE, 14)
    record.leave(20)
    record.stepped(25)
    assert heard.phases == [(BACKWARD, 10, 14), (COMMUNICATE, 14, 20)]


def test_communication_inside_a_phase_is_cut_out_of_it(record: Recorder, heard: Heard) -> None:
    record.forward(0)
    record.blocked(2, 3)
    record.enter(BACKWARD, 5)
    record.blocked(6, 7)
    record.leave(8)
    record.stepped(9)
    assert heard.phases == [
        (FORWARD, 0, 2),
        (COMMUNICATE, 2, 3),
        (FORWARD, 3, 5),
        (BACKWARD, 5, 6),
        (COMMUNICATE, 6, 7),
        (BACKWARD, 7, 8),
    ]


def test_forward_without_backward_is_none(record: Recorder, heard: Heard) -> None:
    record.forward(0)
    during(record, INPUT, 10, 20)
    record.forward(20)
    record.forward(30)  # a wrapped module's own begin
    during(record, BACKWARD, 40, 50)
    record.forward(60)
    during(record, OPTIMIZER, 70, 80)
    record.stepped(80)
    during(record, BACKWARD, 90, 95)
    record.stepped(99)
    assert heard.steps[0][1][:3] == (FORWARD, 30, 40)
    assert [s[0] for s in heard.steps[0]] == [INPUT, FORWARD, BACKWARD, OPTIMIZER]
    assert heard.phases == [(BACKWARD, 90, 95)]


def test_closure_of_the_optimizer_is_no_work_of_the_optimizer(record: Recorder, heard: Heard) -> None:
    record.forward(0)
    record.enter(OPTIMIZER, 5)
    during(record, BACKWARD, 10, 20)
    record.leave(25)
    record.stepped(25)
    assert heard.phases == [(FORWARD, 0, 10), (BACKWARD, 10, 20), (OPTIMIZER, 20, 25)]


def test_optimizer_that_communicates_after_a_fetch_ahead(record: Recorder, heard: Heard) -> None:
    record.forward(0)
    record.enter(OPTIMIZER, 5)
    record.blocked(6, 7)
    record.leave(10)
    record.stepped(10)
    assert heard.phases == [(OPTIMIZER, 5, 6), (COMMUNICATE, 6, 7), (OPTIMIZER, 7, 10)]


def test_forward_done_again_for_a_checkpoint_is_backward(record: Recorder, heard: Heard) -> None:
    record.enter(BACKWARD, 0)
    record.forward(5)
    record.leave(10)
    during(record, BACKWARD, 20, 30)
    record.stepped(30)
    assert heard.phases == [(BACKWARD, 0, 10), (BACKWARD, 20, 30)]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["input", "forward", "backward", "wait", "turn", "leave", "step"]), st.integers(0, 5)
    ),
    max_size=60,
)


@settings(deadline=None)
@given(ACTS)
def test_phases_never_overlap(acts: list[tuple[str, int]]) -> None:
    heard, now, depth = Heard(), 0, 0
    record = Recorder(heard)  # type: ignore[arg-type]
    names = {"input": INPUT, "backward": BACKWARD, "step": OPTIMIZER}
    for act, after in acts:
        now += after
        if act in names:
            record.enter(names[act], now)
            depth += 1
        elif act == "forward":
            record.forward(now)
        elif act == "wait":
            record.blocked(now, now + 2)
            now += 2
        elif depth and act == "turn":
            record.turn(BACKWARD, COMMUNICATE, now)
        elif depth and act == "leave":
            record.leave(now)
            depth -= 1
    for _ in range(depth):
        record.leave(now)
    record.stepped(now)
    spans = heard.phases
    assert all(before[2] <= after[1] for before, after in pairwise(spans))


class HeardAlike(Heard):
    """Takes steps that are alike as what they stand for."""

    alikes = 0

    def layout(self, marks: int, names: Any, places: Any) -> Any:  # type: ignore[override]
        def say(number: int, examples: int | None, times: list[int]) -> bool:
            at, *of_spans = (times[place] for place in places)
            pairs = zip(of_spans[::2], of_spans[1::2], strict=True)
            self.spans([(name, *pair, None, 1) for name, pair in zip(names, pairs, strict=True)])
            self.border(number, examples, at)
            return True

        assert marks == 1
        return say

    def alike(self, layout: Any, number: int, examples: int | None, times: list[int]) -> bool:
        self.alikes += 1
        return layout(number, examples, times)  # type: ignore[no-any-return]


def act_out(record: Recorder, acts: list[str], now: int) -> int:
    """Acts of one step from `now` on, with time between them; when it ended."""
    names = {"input": INPUT, "backward": BACKWARD, "optimizer": OPTIMIZER, "wait": COMMUNICATE}
    for act in acts:
        now += 7
        if act in names:
            record.enter(names[act], now)
        elif act == "forward":
            record.forward(now)
        elif act == "collective":
            record.collective("asked.send", now, now + 1, 8)
        elif act == "turn":
            record.turn(BACKWARD, COMMUNICATE, now)
        elif act == "abandon":
            record.abandon()
        else:
            record.leave(now)
    record.stepped(now + 3)
    return now + 3


ANY_ACT = st.sampled_from(
    ["input", "forward", "backward", "optimizer", "wait", "turn", "collective", "abandon", *["leave"] * 6]
)


@settings(deadline=None)
@given(st.lists(st.lists(ANY_ACT, max_size=12), min_size=1, max_size=3), st.lists(st.integers(0, 2)))
def test_steps_of_a_known_order_tell_what_they_would_tell_otherwise(
    orders: list[list[str]], turns: list[int]
) -> None:
    one, other = Heard(), HeardAlike()
    for heard in (one, other):
        record, now = Recorder(heard), 0  # type: ignore[arg-type]
        for turn in turns:
            now = act_out(record, orders[turn % len(orders)], now)
    assert (one.borders, one.steps) == (other.borders, other.steps)


def test_a_plain_step_is_told_at_once_from_its_third_time_on() -> None:
    heard = HeardAlike()
    record = recorder(heard)  # type: ignore[arg-type]
    for at in range(0, 500, 100):
        step(record, at)
    assert heard.alikes == 3
    assert heard.steps[4] == [(n, b + 400, e + 400, s, c) for n, b, e, s, c in heard.steps[0]]


def test_event_cut_short_costs_its_step_and_no_other(record: Recorder, heard: Heard) -> None:
    step(record, 100)
    record.event(1)  # a signal's handler raised before its time was noted
    step(record, 200)
    step(record, 300)
    assert [len(spans) for spans in heard.steps] == [4, 0, 4]
    assert [border[0] for border in heard.borders] == [0, 1, 2]


def test_step_0_begins_with_the_fetch_of_its_batch(record: Recorder, heard: Heard) -> None:
    class Loader: ...

    record.seen("module", 3)
    used = Loader()
    peeked = Loader()
    record.batches.fetched(peeked, 8, 5)
    del peeked
    record.blocked(6, 7)
    record.batches.fetched(used, 8, 10)
    record.collective("asked.allreduce", 8, 9, 4)
    record.blocked(12, 14)
    record.begun(20)
    record.stepped(30)
    assert heard.borders == [(-1, None, 10), (0, None, 30)]
    assert heard.steps == [[(COMMUNICATE, 12, 14, None, 1)]], "what was before belongs to no step"


@pytest.mark.parametrize(
    ("seen", "begin"), [({}, 20), ({"module": 3}, 3), ({"module": 3, "wrapped": 7}, 7), ({"fetch": 4}, 20)]
)
def test_without_a_fetch_step_0_begins_with_the_first_forward(
    record: Recorder, heard: Heard, seen: dict[str, int], begin: int
) -> None:
    for what, when in seen.items():
        record.seen(what, when)
        record.seen(what, when + 1)
    record.begun(20)
    assert heard.borders == [(-1, None, begin)]
    assert heard.notes == len(seen)


def test_collectives_that_follow_closely_are_told_as_one(record: Recorder, heard: Heard) -> None:
    for at in (0, 20_000, 500_000):
        record.collective("asked.send", at, at + 1000, 8)
    record.collective("asked.barrier", 1, 2, None)
    record.stepped(600_000)
    assert sorted(heard.steps[0]) == [
        ("asked.barrier", 1, 2, None, 1),
        ("asked.send", 0, 21_000, 16, 2),
        ("asked.send", 500_000, 501_000, 8, 1),
    ]


def test_of_too_many_waits_the_shortest_are_left_out(record: Recorder, heard: Heard) -> None:
    record.enter(BACKWARD, 0)
    for at in range(1, 300):
        record.blocked(at * 10**6, at * 10**6 + (900_000 if at % 10 == 0 else 5000))
    record.leave(300 * 10**6)
    record.stepped(300 * 10**6)
    phases = heard.phases
    assert len(phases) <= MAX_SPANS
    waits = [end - begin for name, begin, end in phases if name == COMMUNICATE]
    assert waits == [900_000] * 29
    assert sum(end - begin for _, begin, end in phases) == 300 * 10**6
    assert all(before[2] == after[1] for before, after in pairwise(phases))


def test_waits_of_a_process_that_never_steps_do_not_pile_up(record: Recorder, heard: Heard) -> None:
    for at in range(0, 20000, 2):
        record.blocked(at, at + 1)
    assert sum(len(step) for step in heard.steps) > 4000
    assert len(record._spans) <= 4097


def fetch_and_go_back(record: Recorder, loader: Any, at: int) -> None:
    during(record, INPUT, at, at + 10)
    record.batches.fetched(loader, 8, at)
    record.forward(at + 10)
    during(record, BACKWARD, at + 20, at + 30)


def fetch_only(record: Recorder, loader: Any, at: int) -> None:
    during(record, INPUT, at, at + 10)
    record.batches.fetched(loader, 8, at)


def ask_now_and_then(record: Recorder, loader: Any, at: int) -> None:
    record.collective("asked.send", at * 1000, at * 1000 + 5, 8)


def wait_in_a_forward(record: Recorder, loader: Any, at: int) -> None:
    if at == 0:
        record.enter(OPTIMIZER, at)
        record.forward(at)
    record.blocked(at + 50, at + 60)


@pytest.mark.parametrize("once", [fetch_and_go_back, fetch_only, ask_now_and_then, wait_in_a_forward])
def test_memory_stays_bounded_when_no_optimizer_ever_steps(once: Any) -> None:
    sent = [0]

    def send(spans: Any) -> None:
        sent[0] += len(spans)

    step = SimpleNamespace(said_by_training=lambda: False, send_spans=send)
    record, loader = Recorder(Marker(step, environ={})), Iterator()
    tracemalloc.start()
    try:
        for at in range(20_000):
            once(record, loader, at * 100)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 1_700_000, "20,000 iterations must not cost more than 8,000 do"
    record.enter(BACKWARD, 20_000 * 100)
    record.flush()
    assert sent[0] > 4000, "and what is known is told, not lost"


def test_thinning_leaves_other_spans_alone() -> None:
    spans = [("engine.allreduce", at, at + 1, 8, 1) for at in range(300)]
    assert thinned(spans) == spans


class Iterator:
    """Stands for a DataLoader's."""


def use(batches: Batches, backwards: int = 1) -> int | None:
    for _ in range(backwards):
        batches.backward()
    return batches.take()


def test_examples_are_those_fetched_since_the_last_step() -> None:
    batches, one = Batches(), Iterator()
    found = []
    for size in (8, 8, 3):
        batches.fetched(one, size, 0)
        found.append(use(batches))
    assert found == [8, 8, 3]
    assert use(batches) is None, "a step on nobody knows what"


def test_fetching_ahead_gives_each_step_its_own_batch() -> None:
    batches, one = Batches(), Iterator()
    batches.fetched(one, 8, 0)
    found = []
    for size in (7, 6, 5):
        batches.fetched(one, size, 0)
        found.append(use(batches))
    assert batches.waiting()
    assert batches.ended(one) is None
    assert [*found, use(batches)] == [8, 7, 6, 5]


def test_accumulated_fetches_add_up() -> None:
    batches, one = Batches(), Iterator()
    for size in (8, 8, 8, 8):  # transformers: all fetches of a step, then its backwards, and one ahead
        batches.fetched(one, size, 0)
    found = [use(batches, 3)]
    for size in (8, 8, 2):
        batches.fetched(one, size, 0)
    assert [*found, use(batches, 3)] == [24, 24]


def test_several_fetches_for_one_backward_add_up() -> None:
    batches, one = Batches(), Iterator()
    found = []
    for _ in range(3):
        for _ in range(4):
            batches.fetched(one, 8, 0)
        found.append(use(batches))
    assert found == [32, 32, 32]


def test_two_loaders_side_by_side_add_up() -> None:
    batches, one, two = Batches(), Iterator(), Iterator()
    batches.fetched(one, 8, 0)
    batches.fetched(two, 4, 0)
    assert use(batches) == 12


def test_validation_counts_nowhere() -> None:
    batches, train, validation = Batches(), Iterator(), Iterator()
    batches.fetched(train, 8, 0)
    assert use(batches) == 8
    for _ in range(3):
        batches.fetched(validation, 5, 70)
    assert batches.ended(validation) == 70
    cut_short = Iterator()
    batches.fetched(cut_short, 5, 0)
    del cut_short
    gc.collect()
    batches.fetched(train, 8, 0)
    assert use(batches) == 8


def test_batch_of_unknown_size_makes_the_step_unknown() -> None:
    batches, one = Batches(), Iterator()
    batches.fetched(one, 8, 0)
    batches.fetched(one, None, 0)
    assert use(batches, 2) is None
    batches.fetched(one, 8, 0)
    assert use(batches) == 8


def test_without_a_loader_the_wrapped_modules_argument_counts() -> None:
    batches = Batches()
    batches.passed(6)
    assert use(batches) == 6
    assert use(batches) is None
    one = Iterator()
    batches.fetched(one, 8, 0)
    batches.passed(6)
    assert use(batches) == 8, "not both"


def tensor(*shape: int) -> Any:
    return SimpleNamespace(shape=shape)


@pytest.mark.parametrize(
    "ask", [Batches.first_ns, Batches.waiting, Batches.take], ids=lambda ask: ask.__name__
)
def test_iterator_may_be_collected_at_any_time(ask: Any) -> None:
    class Sizes(deque[Any]):
        def __bool__(self) -> bool:
            gc.collect()
            return False

    batches, kept, lost = Batches(), Iterator(), Iterator()
    vars(lost)["cycle"] = lost
    batches.fetched(kept, 8, 5)
    batches.fetched(lost, 8, 5)
    batches._queues[id(kept)].sizes = Sizes()
    gone = weakref.ref(lost)
    del lost
    assert gone() is not None
    ask(batches)
    assert gone() is None


@pytest.mark.parametrize("what", ["examples", "spans", "asked"])
def test_border_is_told_whatever_cannot_be_said_of_the_step(
    record: Recorder, heard: Heard, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("changed size during iteration")

    if what == "examples":
        monkeypatch.setattr(record.batches, "take", fail)
    elif what == "spans":
        monkeypatch.setattr(heard, "spans", fail)
    else:
        record.at_border(fail)
    step(record, 0)
    step(record, 100)
    assert [number for number, *_ in heard.borders] == [0, 1]


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (tensor(8, 3), 8),
        ([tensor(8, 3), tensor(9)], 8),
        (("name", {"x": [None, tensor(4)]}), 4),
        (tensor(), None),
        ([], None),
        ("text", None),
        ([[[[[[tensor(8)]]]]]], None),
    ],
)
def test_examples_in_a_batch(batch: Any, size: int | None) -> None:
    assert examples_in(batch) == size


def grad_is(on: bool) -> Any:
    return SimpleNamespace(is_grad_enabled=lambda: on)


def loader_module() -> Any:
    class _BaseDataLoaderIter:
        def __init__(self, *sizes: int) -> None:
            self.sizes = list(sizes)

        def __next__(self) -> Any:
            if not self.sizes:
                raise StopIteration
            return tensor(self.sizes.pop(0))

    return SimpleNamespace(_BaseDataLoaderIter=_BaseDataLoaderIter, torch=grad_is(True))


def test_fetches_are_input_and_make_examples(heard: Heard, record: Recorder) -> None:
    module = loader_module()
    torch_data.patch(module, heard)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(8, 7)
    for size in (8, 7):
        assert next(one).shape == (size,)
        record.batches.backward()
        record.stepped(0)
        assert (heard.borders[-1][1], heard.phases[0][0]) == (size, INPUT)
    with pytest.raises(StopIteration):
        next(one)


def test_fetches_without_gradients_or_without_a_backward_are_no_input(heard: Heard, record: Recorder) -> None:
    module = loader_module()
    torch_data.patch(module, heard)  # type: ignore[arg-type]
    module.torch = grad_is(False)
    next(module._BaseDataLoaderIter(5))
    module.torch = grad_is(True)
    validation = module._BaseDataLoaderIter(5, 5)
    assert [next(validation, None) is None for _ in range(3)] == [False, False, True]
    record.batches.backward()
    record.stepped(0)
    assert (heard.borders, heard.phases) == ([(0, None, 0)], [])


def test_fetch_of_another_thread_is_no_phase(heard: Heard, record: Recorder) -> None:
    module = loader_module()
    torch_data.patch(module, heard)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(8)
    thread = threading.Thread(target=lambda: next(one))
    thread.start()
    thread.join()
    record.batches.backward()
    record.stepped(0)
    assert (heard.borders, heard.phases) == ([(0, 8, 0)], [])


@pytest.mark.parametrize("sizes", [(8,), ()], ids=["a batch", "the end"])
def test_fetch_during_which_all_was_abandoned_yields_as_ever(
    heard: Heard, record: Recorder, sizes: tuple[int, ...]
) -> None:
    module = loader_module()
    fetch = module._BaseDataLoaderIter.__next__

    def __next__(self: Any) -> Any:
        record.abandon()  # as another thread does, or a fork
        return fetch(self)

    module._BaseDataLoaderIter.__next__ = __next__
    torch_data.patch(module, heard)  # type: ignore[arg-type]
    one = module._BaseDataLoaderIter(*sizes)
    assert list(map(tensor, sizes)) == [next(one) for _ in sizes]
    with pytest.raises(StopIteration):
        next(one)


def test_fetch_yields_as_ever_when_the_recorder_fails(
    heard: Heard, record: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loader_module()
    torch_data.patch(module, heard)  # type: ignore[arg-type]
    for name in ("enter", "leave", "forget"):
        monkeypatch.setattr(record, name, lambda *_: 1 / 0)
    one = module._BaseDataLoaderIter(8)
    assert next(one) == tensor(8)
    with pytest.raises(StopIteration):
        next(one)


@pytest.mark.parametrize("private", [{"_is_root": None}, {}], ids=["as it is", "renamed"])
def test_fully_sharded_forward_goes_on_when_a_private_name_is_gone(
    heard: Heard, record: Recorder, private: dict[str, Any]
) -> None:
    class FSDPState:
        def __init__(self) -> None:
            vars(self).update(private)

        def _pre_forward(self, module: Any, args: Any, kwargs: Any) -> Any:
            if private:
                self._is_root = True
            return args

    class FullyShardedDataParallel(FSDPState):
        _all_handles = ()

        def forward(self, *args: Any) -> Any:
            return self._pre_forward(self, args, {})

    model = SimpleNamespace(parameters=lambda: [parameter(10)])
    state = SimpleNamespace(FSDPState=FSDPState, torch=grad_is(True))
    whole = SimpleNamespace(FullyShardedDataParallel=FullyShardedDataParallel, torch=grad_is(True))
    torch_fsdp.patch(state, heard)  # type: ignore[arg-type]
    assert FSDPState()._pre_forward(model, (tensor(6),), {}) == (tensor(6),)
    assert heard.facts.get("gradient.bytes") == (40 if private else None)
    torch_fsdp.patch(whole, heard)  # type: ignore[arg-type]
    assert FullyShardedDataParallel().forward(tensor(6)) == (tensor(6),)


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


@pytest.fixture
def engine(heard: Heard) -> Engine:
    engine = Engine()
    torch_autograd.patch(engine.module, heard)  # type: ignore[arg-type]
    return engine


def test_backward_that_ends_with_waiting(engine: Engine, record: Recorder, heard: Heard) -> None:
    root = SimpleNamespace(grad_fn=engine)
    record.waits = 1
    assert engine.module.backward([root, root]) == "result"
    assert engine.hooks == [], "none stays on the graph"
    assert engine.ran == ["ddp"]
    engine.module.backward(root)
    record.stepped(0)
    assert [name for name, *_ in heard.phases] == [BACKWARD, COMMUNICATE, BACKWARD]


def test_backward_of_a_backward_is_part_of_it(engine: Engine, record: Recorder, heard: Heard) -> None:
    engine.module.backward(None, inner=lambda: engine.module.backward(None))
    record.stepped(0)
    assert [name for name, *_ in heard.phases] == [BACKWARD]


def test_backward_that_fails_fails_as_ever(engine: Engine, record: Recorder, heard: Heard) -> None:
    record.waits = 1
    with pytest.raises(ValueError, match="as it was"):
        engine.module.backward(SimpleNamespace(grad_fn=engine), fail=True)
    assert engine.hooks == []
    engine.callbacks.clear()
    engine.module.backward(tensors=None)
    record.stepped(0)
    assert [name for name, *_ in heard.phases] == [BACKWARD, BACKWARD]


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


def test_an_optimizers_step_is_a_step(heard: Heard) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, heard)  # type: ignore[arg-type]
    one = module.Optimizer()
    for _ in range(3):
        one.step()
    assert [number for number, *_ in heard.borders] == [0, 1, 2]
    assert all([name for name, *_ in step] == [OPTIMIZER] for step in heard.steps)


def test_of_two_optimizers_the_first_counts(heard: Heard) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, heard)  # type: ignore[arg-type]
    one, two = module.Optimizer(), module.Optimizer()
    for _ in range(3):
        one.step()
        two.step()
    del one
    two.step()
    assert [number for number, *_ in heard.borders] == [0, 1, 2, 3]


def test_optimizer_inside_another_is_part_of_its_step(heard: Heard) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, heard)  # type: ignore[arg-type]
    outer, inner = module.Optimizer(), module.Optimizer()
    for _ in range(2):
        outer.step(inner.step)
    assert [number for number, *_ in heard.borders] == [0, 1]
    assert {name for name, *_ in heard.phases} == {OPTIMIZER}


def test_step_that_raised_leaves_nothing_behind(heard: Heard, record: Recorder) -> None:
    module = optimizer_module()
    torch_optimizer.patch(module, heard)  # type: ignore[arg-type]
    one = module.Optimizer()
    with pytest.raises(ZeroDivisionError):
        one.step(lambda: 1 / 0)
    one.step()
    assert [number for number, *_ in heard.borders] == [0]
    assert [name for name, *_ in heard.phases] == [OPTIMIZER]


class DistributedOptimizer:
    """As Horovod's: one step of it fires torch's hooks twice, and synchronizes in between."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def step(self, closure: Any = None) -> str:
        self.inner.step(self.inner.step)
        return "result"


@pytest.fixture
def with_horovod(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both modules, imported and hooked."""

    class Own(DistributedOptimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner)

        def step(self, closure: Any = None) -> str:
            return super().step(closure)

    module = optimizer_module()
    module.Distributed = module._DistributedOptimizer = Own
    torch_optimizer.patch(module, heard)  # type: ignore[arg-type]
    horovod_torch.patch(module, heard)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "horovod.torch", module)
    return module


def test_with_horovod_its_own_optimizer_counts(heard: Heard, record: Recorder, with_horovod: Any) -> None:
    one = with_horovod.Optimizer()
    one.step()  # broadcast_optimizer_state makes a state to send
    spread = with_horovod.Distributed(one)
    one.step()  # or it does so now
    for at in (0, 100):
        during(record, BACKWARD, at, at + 10)
        assert spread.step() == "result"
    assert [number for number, *_ in heard.borders] == [0, 1]
    assert OPTIMIZER in {name for step in heard.steps for name, *_ in step}


def test_horovod_that_is_imported_and_not_used_counts_nothing(
    heard: Heard, record: Recorder, with_horovod: Any
) -> None:
    one = with_horovod.Optimizer()
    record.begun(0)
    for _ in range(2):
        one.step()
    assert [number for number, *_ in heard.borders] == [-1, 0, 1]


def test_numbers_go_on_when_horovod_takes_over(heard: Heard, record: Recorder, with_horovod: Any) -> None:
    one = with_horovod.Optimizer()
    record.begun(0)
    one.step()
    copied = with_horovod.Distributed.__new__(with_horovod.Distributed)  # nobody saw it made
    copied.inner = one
    for _ in range(2):
        copied.step()
    one.step()
    assert [number for number, *_ in heard.borders] == [-1, 0, 1, 2]


class Tensor:
    def __init__(self, count: int, cpu: bool = True) -> None:
        self.count, self.is_cpu = count, cpu

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return 4


class Work:
    def wait(self, seconds: float = 0.0) -> bool:
        if seconds:
            threading.Event().wait(seconds)
        return True


@pytest.fixture
def collectives(heard: Heard) -> Any:
    class Own(Work):
        """The class is changed in place: each test has its own."""

        def wait(self, seconds: float = 0.0) -> bool:
            return Work.wait(self, seconds)

    module = SimpleNamespace(
        Work=Own,
        init_process_group=lambda backend: None,
        get_backend=lambda: "gloo",
        get_world_size=lambda group=None: 4 if group is None else len(group.ranks),
        get_process_group_ranks=lambda group: group.ranks,
        get_rank=lambda: 2,
        barrier=lambda: None,
        broadcast=lambda tensor, src: 1 / 0,
    )

    def all_reduce(tensor: Any, op: str = "sum", group: Any = None, async_op: bool = False) -> Any:
        work = module.Work()
        if async_op:
            return work
        work.wait(0.001)
        return None

    module.all_reduce = all_reduce
    module.all_gather = lambda tensor_list, tensor, group=None: None
    module.gather = lambda tensor, gather_list=None, dst=0, group=None: None
    module.scatter = lambda tensor, scatter_list=None, src=0, group=None: None
    torch_collectives.patch(module, heard)  # type: ignore[arg-type]
    return module


def test_call_that_returns_when_done_is_a_wait(collectives: Any, record: Recorder, heard: Heard) -> None:
    collectives.all_reduce(Tensor(100))
    record.stepped(0)
    (wait,) = [span for span in heard.steps[0] if span[0] == COMMUNICATE]
    others = {(name, *rest) for name, *rest in heard.steps[0] if name != COMMUNICATE}
    assert wait[2] - wait[1] >= 1_000_000
    assert others == {("asked.allreduce", *wait[1:3], 400, 1), ("engine.allreduce", *wait[1:3], 400, 1)}


def test_of_an_asynchronous_call_only_the_wait_blocks(
    collectives: Any, record: Recorder, heard: Heard
) -> None:
    work = collectives.all_reduce(tensor=Tensor(100), async_op=True)
    assert type(work) is collectives.Work
    assert work.wait(0.001) is True
    record.stepped(0)
    spans = {span[0]: span for span in heard.steps[0]}
    assert set(spans) == {"asked.allreduce", "engine.allreduce", COMMUNICATE}
    assert spans["asked.allreduce"][2] <= spans[COMMUNICATE][1]
    assert spans["engine.allreduce"][1:] == (spans["asked.allreduce"][1], spans[COMMUNICATE][2], 400, 1)


def test_work_found_done_says_nothing_of_the_engine(collectives: Any, record: Recorder, heard: Heard) -> None:
    collectives.all_reduce(Tensor(100), async_op=True).wait()
    record.stepped(0)
    assert "engine.allreduce" not in {span[0] for span in heard.steps[0]}


def test_work_that_nobody_waits_for_is_not_taken_for_a_later_one(
    collectives: Any, record: Recorder, heard: Heard
) -> None:
    def address() -> int:
        return id(collectives.all_reduce(Tensor(100), async_op=True))

    left = {address() for _ in range(100)}
    others = [collectives.Work()]  # until one lies where another lay; they do not come from a collective
    while len(others) < 1000 and id(others[-1]) not in left:
        others.append(collectives.Work())
    assert id(others[-1]) in left
    others[-1].wait(0.001)
    record.stepped(0)
    assert "engine.allreduce" not in {span[0] for span in heard.steps[0]}


def test_a_gpus_collective_has_no_engine_time(collectives: Any, record: Recorder, heard: Heard) -> None:
    collectives.all_reduce(Tensor(100, cpu=False))
    record.stepped(0)
    assert {span[0] for span in heard.steps[0]} == {"asked.allreduce", COMMUNICATE}


def test_kinds_and_bytes_of_collectives(collectives: Any, record: Recorder, heard: Heard) -> None:
    collectives.barrier()
    collectives.all_gather([Tensor(3), Tensor(4)], Tensor(3))
    collectives.init_process_group("gloo")
    record.stepped(0)
    asked = {(span[0], span[3]) for span in heard.steps[0] if span[0].startswith("asked")}
    assert asked == {("asked.barrier", None), ("asked.allgather", 28)}
    assert heard.facts == {"setting.backend": "gloo", "setting.world_size": 4}


def asked(record: Recorder, heard: Heard) -> dict[str, Any]:
    """Bytes by the name of a collective."""
    record.stepped(0)
    return {span[0]: span[3] for span in heard.steps[0] if span[0].startswith("asked.")}


class ProcessGroup:
    def __init__(self, *ranks: int) -> None:
        self.ranks = list(ranks)


@pytest.mark.parametrize("local, near, across", [("2", "2-2", "3-1"), ("", "2", "3")])
def test_collective_of_some_ranks_tells_of_how_many(
    collectives: Any, record: Recorder, heard: Heard, monkeypatch: Any, local: str, near: str, across: str
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    node, some = ProcessGroup(2, 3), ProcessGroup(0, 1, 2)
    collectives.all_reduce(Tensor(1), group=node)
    collectives.all_reduce(Tensor(2), "sum", some)
    collectives.all_reduce(Tensor(3), group=ProcessGroup(*range(4)))
    collectives.all_gather([Tensor(4)], Tensor(2), node)
    assert asked(record, heard) == {
        f"asked.allreduce.{near}": 4,
        f"asked.allreduce.{across}": 8,
        "asked.allreduce": 12,
        f"asked.allgather.{near}": 16,
    }


def test_group_that_tells_nothing_is_no_reason_to_fail(
    collectives: Any, record: Recorder, heard: Heard
) -> None:
    collectives.all_reduce(Tensor(1), group=object())
    assert asked(record, heard) == {"asked.allreduce": 4}


def test_root_tells_the_whole_of_what_is_gathered_or_scattered(
    collectives: Any, record: Recorder, heard: Heard
) -> None:
    pieces = [Tensor(3) for _ in range(8)]
    collectives.gather(Tensor(3), pieces)
    collectives.scatter(Tensor(3), scatter_list=pieces)
    assert asked(record, heard) == {"asked.gather": 96, "asked.scatter": 96}


def test_others_than_the_root_tell_their_piece(collectives: Any, record: Recorder, heard: Heard) -> None:
    collectives.gather(Tensor(3))
    collectives.scatter(Tensor(3), None, 1)
    assert asked(record, heard) == {"asked.gather": 12, "asked.scatter": 12}


def test_collective_that_fails_fails_as_ever(collectives: Any, record: Recorder, heard: Heard) -> None:
    with pytest.raises(ZeroDivisionError):
        collectives.broadcast(Tensor(3), src=0)
    collectives.all_reduce(object())
    record.stepped(0)
    assert ("asked.allreduce", None) in {(span[0], span[3]) for span in heard.steps[0]}


def test_ddps_times_become_one_reduction() -> None:
    data = {"rebuilt_bucket_sizes": "100, 300", "bucket_sizes": "400", "num_buckets_reduced": 2}
    times = {"backward_comm_time_start": 1_000_500, "backward_comm_time_end": 1_000_900}
    assert torch_ddp.reduced({**data, **times}, 1_000_000) == (500, 900, 400, 2)
    assert torch_ddp.reduced(data, 0) is None
    assert torch_ddp.reduced(times, 0) is None


def ddp_module(**logged: Any) -> Any:
    class DistributedDataParallel:
        require_backward_grad_sync = True
        bucket_bytes_cap = 25 * 2**20

        def __init__(self, module: Any) -> None:
            self.module = module

        def forward(self, *inputs: Any, **kwargs: Any) -> Any:
            return inputs

        def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
            self.rate = rate

        def _get_ddp_logging_data(self) -> dict[str, Any]:
            return logged

    return SimpleNamespace(DistributedDataParallel=DistributedDataParallel, torch=grad_is(True))


def parameter(count: int, device: str = "cpu") -> Any:
    one: Any = Tensor(count)
    one.requires_grad, one.device = True, SimpleNamespace(type=device)
    return one


def test_ddp_says_what_it_reduces_and_waits_only_when_it_will(record: Recorder, heard: Heard) -> None:
    module = ddp_module()
    torch_ddp.patch(module, heard)  # type: ignore[arg-type]
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10), parameter(5)]))
    assert (heard.facts["gradient.bytes"], heard.facts["gradient.tensors"]) == (60, 2)
    assert heard.facts["setting.bucket_cap_mb"] == "25"
    assert model.rate == 1
    assert model.forward(tensor(6)) == (tensor(6),)
    assert record.waits == 1
    model.require_backward_grad_sync = False
    model.forward(tensor(6))
    assert record.waits == 1
    assert use(record.batches) == 6


def test_ddp_on_a_gpu_or_debugged_is_not_asked_for_times(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ddp_module()
    torch_ddp.patch(module, heard)  # type: ignore[arg-type]
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10, "cuda")]))
    assert not hasattr(model, "rate")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    model = module.DistributedDataParallel(SimpleNamespace(parameters=lambda: [parameter(10)]))
    assert not hasattr(model, "rate")


def test_module_of_another_shape_fails_where_the_watcher_says_so(heard: Heard) -> None:
    hooks = (
        torch_autograd,
        torch_collectives,
        torch_data,
        torch_ddp,
        torch_fsdp,
        torch_module,
        torch_optimizer,
    )
    for hook in hooks:
        with pytest.raises(AttributeError):
            hook.patch(SimpleNamespace(), heard)  # type: ignore[arg-type]


def test_marker_sends_a_border_of_an_earlier_time() -> None:
    sent: list[Any] = []
    step = SimpleNamespace(
        BORDER=3,
        said_by_training=lambda: False,
        send_mark=lambda *args: sent.append(args),
    )
    Marker(step, environ={}).border(-1, None, 77)
    assert sent == [(3, -1, None, 77, None, False)]


def test_forked_child_does_not_tell_what_its_parent_holds() -> None:
    sent: list[Any] = []
    step = SimpleNamespace(
        BORDER=3, said_by_training=lambda: False, send_step=lambda marks, spans: sent.append(list(spans))
    )
    marker = Marker(step, environ={})
    marker.spans([("phase.input", 1, 2, None, 1)])
    child = os.fork()
    if child == 0:
        try:
            marker.border(0)
        finally:  # whatever happens, the child runs no other test
            os._exit(len(sent[0]) if sent else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    marker.border(0)
    assert len(sent[0]) == 1
