"""Examples in arrays that Keras cuts into batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.keras.batches import BatchCut


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 30), st.integers(0, 30))
def test_examples_of_arrays_add_up(batch: int, last: int, batches: int, first: int, count: int) -> None:
    cut = BatchCut(batch, last, batches)
    each = [last if n % batches == batches - 1 else batch for n in range(first, first + count)]
    assert cut.examples(first, count) == sum(each)
