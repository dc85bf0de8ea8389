"""Steps of a TensorFlow process follow one another without gaps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.tf.calls import TrainingCall
from roofline_agent.hooks.tf.leader import PATIENCE
from roofline_agent.hooks.tf.steps import Steps

from .doubles import LayoutMarker, WindowMarker


class Key:
    """Something trained."""


def ended(
    chain: Steps, marker: Any, key: Any, begin: int, end: int, examples: int | None = None, **more: Any
) -> None:
    chain.ended(marker, key, TrainingCall(begin, end, examples, **more))


@pytest.fixture
def marker() -> WindowMarker:
    return WindowMarker()


def test_step_goes_from_the_end_of_the_last_to_the_end_of_its_call(marker: Any) -> None:
    chain, key = Steps(), Key()
    ended(chain, marker, key, 10, 15, 4)
    chain.took("it", 4, 40, 50)
    ended(chain, marker, key, 52, 60, None)
    assert marker.windows == [(0, 10, 15, 4), (1, 15, 60, 4)]
    assert marker.phases == [("phase.call", 10, 15), ("phase.input", 40, 50), ("phase.call", 52, 60)]


@given(st.lists(st.tuples(st.sampled_from(["take", "call", "other", "break", "inside"]), st.integers(1, 9))))
def test_steps_sent_by_a_layout_equal_those_sent_without(acts: list[tuple[str, int]]) -> None:
    told = []
    for marker in (WindowMarker(), LayoutMarker()):
        chain, key, other, now = Steps(), Key(), Key(), 0
        for act, after in acts:
            now += after
            if act == "take":
                chain.took("it", after, now, now + 2)
            elif act == "break":
                chain.broken()
            else:
                if act == "inside":
                    chain.took("it", after, now + 1, now + 2)
                ended(chain, marker, other if act == "other" else key, now, now + 5)
            now += 5
        told.append((marker.windows, marker.phases))
    assert told[0] == told[1]


def test_step_with_its_input_before_it_is_sent_by_a_layout() -> None:
    marker, chain, key = LayoutMarker(), Steps(), Key()
    for at in range(0, 300, 100):
        chain.took("it", 4, at + 1, at + 9)
        ended(chain, marker, key, at + 10, at + 90)
    assert marker.layouts_sent == 2, "the first begins with its own input"
    assert marker.windows == [(0, 1, 90, 4), (1, 90, 190, 4), (2, 190, 290, 4)]


def test_shapes_of_any_number_of_batches_are_one_number(marker: Any) -> None:
    chain, key = Steps(), Key()
    for at in range(5000):
        chain.took("it", 4, at, at + 1, ((4, 3), "float32"))
    ended(chain, marker, key, 5000, 5001, signature="train")
    assert len(repr(marker.signatures)) < 200, "not one in the other"


def test_steps_of_several_batches_are_alike_if_all_their_shapes_are(marker: Any) -> None:
    chain, key = Steps(), Key()
    for at, sizes in enumerate([(4, 4), (4, 4), (4, 2), (2, 4), (4, None), (None, 4)]):
        for size in sizes:
            chain.took("it", 4, 10 * at, 10 * at + 1, None if size is None else (size, 3))
        ended(chain, marker, key, 10 * at + 2, 10 * at + 9, signature="train")
    assert marker.likes == [1, 1, 2, 3, 0, 0]


def test_after_a_break_a_step_begins_with_its_own_input(marker: Any) -> None:
    chain, key = Steps(), Key()
    chain.took("it", 4, 1, 2)
    chain.took("it", 4, 8, 9)
    ended(chain, marker, key, 10, 15)
    chain.broken()
    chain.took("it", 4, 100, 109)
    ended(chain, marker, key, 110, 120)
    chain.broken()
    ended(chain, marker, key, 130, 140)
    assert [window[:3] for window in marker.windows] == [(0, 8, 15), (1, 100, 120), (2, 130, 140)]
    assert ("phase.input", 1, 2) not in marker.phases


def test_examples_of_two_iterators_are_not_added(marker: Any) -> None:
    chain, key, real, noise = Steps(), Key(), [1], [2]
    chain.took(real, 4, 1, 2)
    chain.took(real, 4, 2, 3)
    ended(chain, marker, key, 3, 4)
    chain.took(real, 4, 5, 6)
    chain.took(noise, 4, 6, 7)
    ended(chain, marker, key, 7, 8)
    chain.took(real, None, 8, 9)
    ended(chain, marker, key, 9, 10)
    assert [window[3] for window in marker.windows] == [8, None, None]


def test_of_two_that_take_turns_the_first_makes_the_steps(marker: Any) -> None:
    chain, one, two = Steps(), Key(), Key()
    for at in range(0, 100, 20):
        ended(chain, marker, one, at, at + 5)
        ended(chain, marker, two, at + 6, at + 10)
    assert [window[:3] for window in marker.windows] == [
        (0, 0, 5), (1, 5, 25), (2, 25, 45), (3, 45, 65), (4, 65, 85)
    ]  # fmt: skip
    assert marker.phases[:3] == [("phase.call", 0, 5), ("phase.call", 6, 10), ("phase.call", 20, 25)]


def test_what_is_no_longer_trained_is_followed_by_the_next(marker: Any) -> None:
    chain, one, two = Steps(), Key(), Key()
    ended(chain, marker, one, 0, 1)
    for at in range(2, 2 * PATIENCE + 4, 2):
        ended(chain, marker, two, at, at + 1)
    assert len(marker.windows) == 2
    del two
    three = Key()
    ended(chain, marker, three, 50, 51)
    assert [window[0] for window in marker.windows] == [0, 1, 2], "what is gone is waited for no longer"


def test_phases_do_not_overlap(marker: Any) -> None:
    """Input taken inside a call, as in Keras run eagerly."""
    chain, key = Steps(), Key()
    chain.took("it", 4, 12, 14)
    chain.took("it", 4, 15, 16)
    ended(chain, marker, key, 10, 20)
    assert sorted(marker.phases, key=lambda span: span[1]) == [
        ("phase.call", 10, 12),
        ("phase.input", 12, 14),
        ("phase.call", 14, 15),
        ("phase.input", 15, 16),
        ("phase.call", 16, 20),
    ]


def test_phases_of_a_step_are_bounded_and_keep_their_time(marker: Any) -> None:
    chain, key = Steps(), Key()
    ended(chain, marker, key, 0, 1)
    for at in range(10, 4010, 4):
        chain.took("it", 4, at, at + 1)
    ended(chain, marker, key, 5000, 5001)
    inputs = [end - begin for name, begin, end in marker.phases if name == "phase.input"]
    assert len(marker.phases) < 200
    assert sum(inputs) == 1000
    assert marker.windows[1] == (1, 1, 5001, 4000)


def test_update_by_another_function_ends_the_step_of_the_gradients_it_is_made_of(marker: Any) -> None:
    chain, gradients, updates = Steps(), Key(), Key()
    for first in (0, 100):
        ended(chain, marker, gradients, first + 10, first + 15, 4, updates=0, signature="take")
        ended(chain, marker, gradients, first + 20, first + 25, 4, updates=0, signature="take")
        ended(chain, marker, updates, first + 30, first + 40, 0, only_updates=True, signature="apply")
    assert marker.windows == [(0, 10, 40, 8), (1, 40, 140, 8)]
    assert len(set(marker.likes)) == 1 and marker.likes[0]


def test_steps_of_other_gradients_are_not_alike(marker: Any) -> None:
    chain, gradients, updates = Steps(), Key(), Key()
    for first, shape in ((0, "short"), (100, "long")):
        ended(chain, marker, gradients, first + 10, first + 15, 4, updates=0, signature=shape)
        ended(chain, marker, updates, first + 30, first + 40, 0, only_updates=True, signature="apply")
    assert len(set(marker.likes)) == 2


def test_update_of_gradients_that_nobody_saw_is_no_step(marker: Any) -> None:
    chain, train, updates = Steps(), Key(), Key()
    ended(chain, marker, updates, 1, 2, 0, only_updates=True)
    ended(chain, marker, train, 10, 20, 4)
    ended(chain, marker, updates, 21, 22, 0, only_updates=True)
    ended(chain, marker, train, 30, 40, 4)
    assert marker.windows == [(0, 10, 20, 4), (1, 20, 40, 4)]
