"""The backward pass, and the waiting at its end, with a made-up engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from roofline_agent.hooks.torch import autograd as torch_autograd
from roofline_agent.hooks.torch.phases import BACKWARD, BACKWARDS, COMMUNICATE, LEAVES
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import Engine, RecordingMarker


@pytest.fixture
def engine(marker: RecordingMarker) -> Engine:
    engine = Engine()
    torch_autograd.patch(engine.module, marker)  # type: ignore[arg-type]
    return engine


def test_backward_that_ends_with_waiting(engine: Engine, record: Recorder, marker: RecordingMarker) -> None:
    root = SimpleNamespace(grad_fn=engine)
    record.waits = 1
    assert engine.module.backward([root, root]) == "result"
    assert engine.hooks == [], "none stays on the graph"
    assert engine.ran == ["ddp"]
    engine.module.backward(root)
    record.stepped(0)
    assert [name for name, *_ in marker.phases] == [BACKWARD, COMMUNICATE, BACKWARD]


def test_parameter_that_is_seen_to_get_its_gradient_spares_the_hook_on_the_graph(
    engine: Engine, record: Recorder, marker: RecordingMarker
) -> None:
    def passes(comes: bool) -> bool:
        """A backward whose end is waiting; whether it had a hook on its graph."""
        hooked = []

        def inner() -> None:
            hooked.append(bool(engine.hooks))
            if comes:
                record.gradient_came(None)

        record.waits = 1
        engine.module.backward(SimpleNamespace(grad_fn=engine), inner=inner)
        record.stepped(0)
        return hooked[0]

    assert [passes(True) for _ in range(3)] == [True, False, False]
    assert [passes(False) for _ in range(3)] == [False, True, True], "a parameter that is not used any more"
    assert [passes(True), passes(True)] == [True, True], "is not relied on again"
    waited = [[name for name, *_ in step].count(COMMUNICATE) for step in marker.steps]
    assert waited == [1, 1, 1, 0, 1, 1, 1, 1], "one step at most does not know its wait"
    record.gradient_came(None)  # of a backward that nobody waits in
    assert not engine.callbacks


def test_backward_of_a_backward_is_part_of_it(
    engine: Engine, record: Recorder, marker: RecordingMarker
) -> None:
    engine.module.backward(None, inner=lambda: engine.module.backward(None))
    record.stepped(0)
    assert [name for name, *_ in marker.phases] == [BACKWARD]


def test_backward_that_fails_fails_as_ever(engine: Engine, record: Recorder, marker: RecordingMarker) -> None:
    record.waits = 1
    with pytest.raises(ValueError, match="as it was"):
        engine.module.backward(SimpleNamespace(grad_fn=engine), fail=True)
    assert engine.hooks == []
    engine.callbacks.clear()
    engine.module.backward(tensors=None)
    record.stepped(0)
    assert [name for name, *_ in marker.phases] == [BACKWARD, BACKWARD]


@pytest.mark.parametrize("where", ["begin", "end"])
def test_interrupt_in_a_hook_costs_one_backward(
    where: str, engine: Engine, record: Recorder, marker: RecordingMarker
) -> None:
    noted = record.event

    def interrupted(event: int) -> None:
        if event == (BACKWARDS if where == "begin" else LEAVES):
            record.event = noted
            raise KeyboardInterrupt
        noted(event)

    record.event = interrupted
    with pytest.raises(KeyboardInterrupt):
        engine.module.backward(None)
    for _ in range(2):
        engine.module.backward(None)
        record.stepped(0)
    assert [name for name, *_ in marker.steps[-1]] == [BACKWARD], "and not all that follows is in the first"


def test_backward_whose_end_nobody_noted_is_over_with_the_next(
    engine: Engine, record: Recorder, marker: RecordingMarker
) -> None:
    engine.module.backward(None)
    record.stepped(0)
    record.in_backward = True  # an exception came where it was to be cleared
    engine.module.backward(None, inner=lambda: engine.module.backward(None))
    record.stepped(0)
    assert [[name for name, *_ in step] for step in marker.steps] == [[BACKWARD], [BACKWARD]]
