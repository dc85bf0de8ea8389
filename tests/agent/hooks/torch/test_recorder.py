"""The phases that PyTorch's recorder makes of events."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roofline_agent.hooks import Marker
from roofline_agent.hooks.torch.between_steps import EVALUATION
from roofline_agent.hooks.torch.phases import (
    BACKWARD,
    COMMUNICATE,
    FORWARD,
    INPUT,
    MAX_SPANS,
    OPTIMIZER,
    thinned,
)
from roofline_agent.hooks.torch.recorder import Recorder, recorder

from ..doubles import DataIterator, DeferringMarker, EveryThird, LayoutMarker, RecordingMarker, during, step


def test_phases_of_a_plain_step(record: Recorder, marker: RecordingMarker) -> None:
    step(record, 100)
    assert marker.phases == [
        (INPUT, 100, 110),
        (FORWARD, 110, 120),
        (BACKWARD, 120, 130),
        (OPTIMIZER, 130, 140),
    ]
    step(record, 200)
    assert marker.phases[0] == (INPUT, 200, 210)
    assert marker.borders == [(0, None, 140), (1, None, 240)]


def test_waiting_at_the_end_of_backward_is_cut_out_of_it(record: Recorder, marker: RecordingMarker) -> None:
    record.enter(BACKWARD, 10)
    record.gradients_ready(14)
    record.leave(20)
    record.stepped(25)
    assert marker.phases == [(BACKWARD, 10, 14), (COMMUNICATE, 14, 20)]


def test_communication_inside_a_phase_is_cut_out_of_it(record: Recorder, marker: RecordingMarker) -> None:
    record.forward(0)
    record.blocked(2, 3)
    record.enter(BACKWARD, 5)
    record.blocked(6, 7)
    record.leave(8)
    record.stepped(9)
    assert marker.phases == [
        (FORWARD, 0, 2),
        (COMMUNICATE, 2, 3),
        (FORWARD, 3, 5),
        (BACKWARD, 5, 6),
        (COMMUNICATE, 6, 7),
        (BACKWARD, 7, 8),
    ]


def test_forward_without_backward_is_none(record: Recorder, marker: RecordingMarker) -> None:
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
    assert marker.steps[0][1][:3] == (FORWARD, 30, 40)
    assert [s[0] for s in marker.steps[0]] == [INPUT, FORWARD, BACKWARD, OPTIMIZER]
    assert marker.phases == [(BACKWARD, 90, 95)]


def test_closure_of_the_optimizer_is_no_work_of_the_optimizer(
    record: Recorder, marker: RecordingMarker
) -> None:
    record.forward(0)
    record.enter(OPTIMIZER, 5)
    during(record, BACKWARD, 10, 20)
    record.leave(25)
    record.stepped(25)
    assert marker.phases == [(FORWARD, 0, 10), (BACKWARD, 10, 20), (OPTIMIZER, 20, 25)]


def test_optimizer_that_communicates_after_a_fetch_ahead(record: Recorder, marker: RecordingMarker) -> None:
    record.forward(0)
    record.enter(OPTIMIZER, 5)
    record.blocked(6, 7)
    record.leave(10)
    record.stepped(10)
    assert marker.phases == [(OPTIMIZER, 5, 6), (COMMUNICATE, 6, 7), (OPTIMIZER, 7, 10)]


def test_forward_done_again_for_a_checkpoint_is_backward(record: Recorder, marker: RecordingMarker) -> None:
    record.enter(BACKWARD, 0)
    record.forward(5)
    record.leave(10)
    during(record, BACKWARD, 20, 30)
    record.stepped(30)
    assert marker.phases == [(BACKWARD, 0, 10), (BACKWARD, 20, 30)]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["input", "forward", "backward", "wait", "turn", "leave", "step"]), st.integers(0, 5)
    ),
    max_size=60,
)


@settings(deadline=None)
@given(ACTS)
def test_phases_never_overlap(acts: list[tuple[str, int]]) -> None:
    marker, now, depth = RecordingMarker(), 0, 0
    record = Recorder(marker)  # type: ignore[arg-type]
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
            record.gradients_ready(now)
        elif depth and act == "leave":
            record.leave(now)
            depth -= 1
    for _ in range(depth):
        record.leave(now)
    record.stepped(now)
    spans = marker.phases
    assert all(before[2] <= after[1] for before, after in pairwise(spans))


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
            record.gradients_ready(now)
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
def test_steps_of_a_known_order_equal_those_sent_without_a_layout(
    orders: list[list[str]], turns: list[int]
) -> None:
    one, other = RecordingMarker(), LayoutMarker()
    for marker in (one, other):
        record, now = Recorder(marker), 0  # type: ignore[arg-type]
        for turn in turns:
            now = act_out(record, orders[turn % len(orders)], now)
    assert (one.borders, one.steps) == (other.borders, other.steps)


def test_a_plain_step_is_sent_by_a_layout_from_its_third_time_on() -> None:
    marker = LayoutMarker()
    record = recorder(marker)  # type: ignore[arg-type]
    for at in range(0, 500, 100):
        step(record, at)
    assert marker.layouts_sent == 3
    assert marker.steps[4] == [(n, b + 400, e + 400, s, c) for n, b, e, s, c in marker.steps[0]]


def loaded_step(record: Recorder, loader: Any, at: int, shapes: int | None, twice: bool = False) -> None:
    for start in (at, at + 50)[: 1 + twice]:
        during(record, INPUT, start, start + 10)
        record.batches.fetched(loader, 8, start, shapes)
        during(record, BACKWARD, start + 20, start + 30)
        record.batches.backward()
    record.stepped(at + 90)


def test_steps_of_the_same_order_and_shapes_are_alike(record: Recorder, marker: RecordingMarker) -> None:
    loader = DataIterator()
    for number, (shapes, twice) in enumerate([(1, False), (2, False), (1, False), (1, True), (1, True)]):
        loaded_step(record, loader, number * 100, shapes, twice)
    one, other, again, accumulated, too = marker.likes
    assert one == again and accumulated == too
    assert len({0, one, other, accumulated}) == 4


def test_step_with_an_unknown_shape_is_like_none(record: Recorder, marker: RecordingMarker) -> None:
    loader = DataIterator()
    loaded_step(record, loader, 0, None)
    step(record, 100)  # no batch at all
    assert marker.likes == [0, 0]


def test_step_after_an_evaluation_is_like_the_others(record: Recorder, marker: RecordingMarker) -> None:
    loader = DataIterator()
    record.begun(0)
    for at in (0, 100, 200):
        loaded_step(record, loader, at, 1)
    record.between.add(EVALUATION, 300, 400, certain=True)
    loaded_step(record, loader, 400, 1)
    assert set(marker.likes[2:]) == {1} and marker.begins == {3: 400}
    assert [span[:3] for span in marker.steps[-1]] == [
        (EVALUATION, 290, 400),
        (INPUT, 400, 410),
        (BACKWARD, 420, 430),
    ]


def test_what_the_hooks_cost_is_measured_now_and_then(record: Recorder, marker: RecordingMarker) -> None:
    sampled = []
    for at in range(10**10, 10**10 + 20_000, 100):
        record.spent += 7000 if record.sampled else 0
        sampled.append(record.sampled)
        step(record, at)
    assert sum(sampled) == 3 and marker.facts["cost.hooks_ns"] == 7000


def test_event_cut_short_costs_its_step_and_no_other(record: Recorder, marker: RecordingMarker) -> None:
    step(record, 100)
    record.event(1)  # a signal's handler raised before its time was noted
    step(record, 200)
    step(record, 300)
    assert [len(spans) for spans in marker.steps] == [4, 0, 4]
    assert [border[0] for border in marker.borders] == [0, 1, 2]


def test_step_0_begins_with_the_fetch_of_its_batch(record: Recorder, marker: RecordingMarker) -> None:
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
    assert marker.borders == [(-1, None, 10), (0, None, 30)]
    assert marker.steps == [[(COMMUNICATE, 12, 14, None, 1)]], "what was before belongs to no step"


@pytest.mark.parametrize(
    ("seen", "begin"), [({}, 20), ({"module": 3}, 3), ({"module": 3, "wrapped": 7}, 7), ({"fetch": 4}, 20)]
)
def test_without_a_fetch_step_0_begins_with_the_first_forward(
    record: Recorder, marker: RecordingMarker, seen: dict[str, int], begin: int
) -> None:
    for what, when in seen.items():
        record.seen(what, when)
        record.seen(what, when + 1)
    record.begun(20)
    assert marker.borders == [(-1, None, begin)]
    assert marker.notes == len(seen)


def test_collectives_that_follow_closely_are_one_span(record: Recorder, marker: RecordingMarker) -> None:
    for at in (0, 20_000, 500_000):
        record.collective("asked.send", at, at + 1000, 8)
    record.collective("asked.barrier", 1, 2, None)
    record.stepped(600_000)
    assert sorted(marker.steps[0]) == [
        ("asked.barrier", 1, 2, None, 1),
        ("asked.send", 0, 21_000, 16, 2),
        ("asked.send", 500_000, 501_000, 8, 1),
    ]


def test_of_too_many_waits_the_shortest_are_left_out(record: Recorder, marker: RecordingMarker) -> None:
    record.enter(BACKWARD, 0)
    for at in range(1, 300):
        record.blocked(at * 10**6, at * 10**6 + (900_000 if at % 10 == 0 else 5000))
    record.leave(300 * 10**6)
    record.stepped(300 * 10**6)
    phases = marker.phases
    assert len(phases) <= MAX_SPANS
    waits = [end - begin for name, begin, end in phases if name == COMMUNICATE]
    assert waits == [900_000] * 29
    assert sum(end - begin for _, begin, end in phases) == 300 * 10**6
    assert all(before[2] == after[1] for before, after in pairwise(phases))


def test_waits_of_a_process_that_never_steps_do_not_pile_up(
    record: Recorder, marker: RecordingMarker
) -> None:
    for at in range(0, 20000, 2):
        record.blocked(at, at + 1)
    assert sum(len(step) for step in marker.steps) > 4000
    record.flush()
    assert len(marker.steps[-1]) <= 4097


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


@pytest.mark.slow
@pytest.mark.parametrize("once", [fetch_and_go_back, fetch_only, ask_now_and_then, wait_in_a_forward])
def test_memory_stays_bounded_when_no_optimizer_ever_steps(once: Any) -> None:
    sent = [0]

    def send(spans: Any) -> None:
        sent[0] += len(spans)

    step = SimpleNamespace(said_by_training=lambda: False, send_spans=send)
    record, loader = Recorder(Marker(step, environ={})), DataIterator()
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


@pytest.mark.parametrize("what", ["examples", "spans", "asked"])
def test_border_is_sent_whatever_fails_in_the_step(
    record: Recorder, marker: RecordingMarker, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("changed size during iteration")

    if what == "examples":
        monkeypatch.setattr(type(record.batches), "take", fail)
    elif what == "spans":
        monkeypatch.setattr(marker, "spans", fail)
    else:
        record.at_border(fail)
    step(record, 0)
    step(record, 100)
    assert [number for number, *_ in marker.borders] == [0, 1]


ACTS = st.lists(st.sampled_from(["step", "slow step", "evaluation", "forget", "collective"]), max_size=40)


def train(marker: RecordingMarker, acts: list[str]) -> Recorder:
    record, now = Recorder(marker), 1000  # type: ignore[arg-type]
    record.begun(now)
    record.turns.made(DataIterator())
    record.by_hand = None
    for act in acts:
        now += 1_000_000
        if act == "evaluation":
            record.note_between(EVALUATION, now, now + 500_000)
        elif act == "forget":
            during(record, INPUT, now, now + 10)
            record.forget(INPUT, now)
        elif act == "collective":
            record.collective("asked.allreduce", now, now + 20, 8)
        else:
            step(record, now)
            now += 130_000_000 if act == "slow step" else 40
    return record


@given(ACTS)
@example(["step", "collective", "collective", "forget"])
def test_borders_that_are_deferred_say_the_same(acts: list[str]) -> None:
    at_once, later = RecordingMarker(), DeferringMarker()
    acts = [*acts, "step"]  # what belongs to a step that has not ended may be handed over before or with it
    train(at_once, acts)
    record = train(later, acts)
    (hand_over,) = later.calls
    hand_over()
    assert later.borders == at_once.borders
    assert later.likes == at_once.likes
    assert later.begins == at_once.begins
    assert [sorted(spans) for spans in later.steps] == [sorted(spans) for spans in at_once.steps]
    assert record.steps.sent == len(at_once.borders) - 1


def test_short_steps_are_deferred() -> None:
    marker = DeferringMarker()
    record = train(marker, ["step"] * 6)
    assert len(marker.borders) < 7
    record.settle()  # whatever looks at the phases finds them as they are
    assert len(marker.borders) == 7


def test_measured_steps_are_deferred_too_and_keep_their_counts() -> None:
    marker = DeferringMarker()
    marker.account = EveryThird()
    record = train(marker, ["step"] * 7)
    assert len(marker.borders) < 8
    record.borders.hand_over()
    counted = {
        at: [s[4] for s in spans if s[0] == "thread.run.step"] for at, spans in enumerate(marker.steps)
    }
    assert counted == {0: [], 1: [], 2: [2], 3: [], 4: [], 5: [5], 6: []}
