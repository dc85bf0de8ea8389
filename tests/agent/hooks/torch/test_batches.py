"""Examples of a step, from what DataLoaders yielded."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from typing import Any

import pytest
from roofline_agent.hooks.torch.batches import Batches

from ..doubles import DataIterator, tensor, use


def test_examples_are_those_fetched_since_the_last_step() -> None:
    batches, one = Batches(), DataIterator()
    found = []
    for size in (8, 8, 3):
        batches.fetched(one, size, 0)
        found.append(use(batches))
    assert found == [8, 8, 3]
    assert batches.ended(one) is None
    assert use(batches) is None, "a step on nobody knows what"


def test_further_steps_on_a_batch_have_no_examples_of_their_own() -> None:
    batches, one = Batches(), DataIterator()
    found = []
    for size in (8, 8, 3):
        batches.fetched(one, size, 0)
        found += [use(batches), use(batches), use(batches)]
    assert found == [8, 0, 0, 8, 0, 0, 3, 0, 0]
    del one
    gc.collect()
    assert use(batches) is None, "no DataLoader is read any more"


def test_fetching_ahead_gives_each_step_its_own_batch() -> None:
    batches, one = Batches(), DataIterator()
    batches.fetched(one, 8, 0)
    found = []
    for size in (7, 6, 5):
        batches.fetched(one, size, 0)
        found.append(use(batches))
    assert batches.waiting()
    assert batches.ended(one) is None
    assert [*found, use(batches)] == [8, 7, 6, 5]


OTHER = 7  # a thread that does not train


def test_another_thread_may_be_ahead_by_any_number_of_batches() -> None:
    batches, one = Batches(), DataIterator()
    found: list[int | None] = []
    for fetched in ((8, 7, 6), (5,), (), (4, 3, 2), (), (), (), ()):
        for size in fetched:
            batches.fetched(one, size, 0, thread=OTHER)
        found.append(use(batches))
    assert found == [8, 7, 6, 5, 4, 3, 2, None]


@pytest.mark.parametrize("ends", [True, False], ids=["read to its end", "cut off"])
def test_iterator_of_another_thread_may_end_before_its_batches_are_used(ends: bool) -> None:
    batches, one = Batches(), DataIterator()
    for size in (8, 7, 6):
        batches.fetched(one, size, 0, thread=OTHER)
    assert not ends or batches.ended(one) is None
    del one
    gc.collect()
    assert [use(batches) for _ in range(4)] == [8, 7, 6, None]


@pytest.mark.parametrize("goes_on", [True, False], ids=["in the middle", "behind the last"])
def test_validation_in_another_thread_counts_nowhere(goes_on: bool) -> None:
    batches, train, validation = Batches(), DataIterator(), DataIterator()
    batches.fetched(train, 8, 0, thread=OTHER)
    assert use(batches) == 8
    if not goes_on:
        assert batches.ended(train) is None
        train = DataIterator()
    for _ in range(3):
        batches.fetched(validation, 5, 0, thread=OTHER + 1)
    assert batches.ended(validation) is None, "which of the time it took is not known"
    batches.fetched(train, 8, 0, thread=OTHER)
    assert use(batches) == 8


def test_thread_that_trains_is_known_when_it_does() -> None:
    batches, one = Batches(), DataIterator()
    found = []
    for _ in range(3):
        for _ in range(4):
            batches.fetched(one, 8, 0, thread=OTHER)
        batches.trains(OTHER)
        found.append(use(batches))
    assert found == [32, 32, 32]


def test_accumulated_fetches_add_up() -> None:
    batches, one = Batches(), DataIterator()
    for size in (8, 8, 8, 8):  # transformers: all fetches of a step, then its backwards, and one ahead
        batches.fetched(one, size, 0)
    found = [use(batches, 3)]
    for size in (8, 8, 2):
        batches.fetched(one, size, 0)
    assert [*found, use(batches, 3)] == [24, 24]


def test_several_fetches_for_one_backward_add_up() -> None:
    batches, one = Batches(), DataIterator()
    found = []
    for _ in range(3):
        for _ in range(4):
            batches.fetched(one, 8, 0)
        found.append(use(batches))
    assert found == [32, 32, 32]


def test_shapes_of_any_number_of_backwards_are_one_number() -> None:
    batches, one = Batches(), DataIterator()
    found = []
    for count in (5000, 5000, 4999):
        for _ in range(count):
            batches.fetched(one, 8, 0, 1234)
            batches.backward()
        assert batches.take() == 8 * count
        found.append(batches.shapes)
    assert found[0] == found[1] != found[2]
    assert len(repr(found)) < 100, "not one in the other"


def test_two_loaders_side_by_side_add_up() -> None:
    batches, one, two = Batches(), DataIterator(), DataIterator()
    batches.fetched(one, 8, 0)
    batches.fetched(two, 4, 0)
    assert use(batches) == 12


def test_validation_counts_nowhere() -> None:
    batches, train, validation = Batches(), DataIterator(), DataIterator()
    batches.fetched(train, 8, 0)
    assert use(batches) == 8
    for _ in range(3):
        batches.fetched(validation, 5, 70)
    assert batches.ended(validation) == 70
    cut_short = DataIterator()
    batches.fetched(cut_short, 5, 0)
    del cut_short
    gc.collect()
    batches.fetched(train, 8, 0)
    assert use(batches) == 8


def test_iterator_that_validates_again_has_another_begin() -> None:
    gone: list[int] = []
    batches, validation = Batches(gone.append), DataIterator()
    for begin in (70, 90):
        for now in (begin, begin + 5):
            batches.fetched(validation, 5, now)
        assert batches.ended(validation) == begin
    key = id(validation)
    batches.fetched(validation, 5, 99)
    del validation
    gc.collect()
    assert gone == [key] * 3, "once for each time"


def test_what_is_left_when_an_iterator_begins_anew_is_no_steps() -> None:
    batches, one = Batches(), DataIterator()
    for size in (8, 7):
        batches.fetched(one, size, 0)
    batches.backward()
    batches.restarted(one)
    batches.fetched(one, 6, 0)
    assert batches.take() == 8
    assert use(batches) == 6
    batches.restarted(DataIterator())


def test_batch_of_unknown_size_makes_the_step_unknown() -> None:
    batches, one = Batches(), DataIterator()
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
    one = DataIterator()
    batches.fetched(one, 8, 0)
    batches.passed(6)
    assert use(batches) == 8, "not both"


@pytest.mark.slow
@pytest.mark.parametrize(
    "ask", [Batches.first_ns, Batches.waiting, Batches.take], ids=lambda ask: ask.__name__
)
def test_iterator_may_be_collected_at_any_time(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sizes(deque[Any]):
        def __bool__(self) -> bool:
            gc.collect()
            return False

    monkeypatch.setattr("roofline_agent.hooks.torch.batches.deque", Sizes)
    batches, kept, lost = Batches(), DataIterator(), DataIterator()
    vars(lost)["cycle"] = lost
    batches.fetched(kept, 8, 5)
    batches.fetched(lost, 8, 5)
    gone = weakref.ref(lost)
    del lost
    assert gone() is not None
    ask(batches)
    assert gone() is None


def test_arguments_of_a_wrapped_module_count_where_no_loader_is() -> None:
    batches, one = Batches(), DataIterator()
    batches.passed_arguments((), {"images": tensor(8, 3)})
    assert use(batches) == 8
    batches.passed_arguments((tensor(8, 3), tensor(5, 5)), {"mask": tensor(3, 3)})
    assert use(batches) == 8, "the first argument's"
    batches.fetched(one, 4, 0)
    batches.passed_arguments((tensor(8, 3),), {})
    assert use(batches) == 4
