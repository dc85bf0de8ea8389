"""Examples and shapes in a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from roofline_agent.hooks.torch.batch_sizes import BatchSizes, examples_in, shapes_in

from ..doubles import tensor


class PackedSequence(NamedTuple):
    """As that of torch: the steps of all sequences behind one another, and how many have such a step."""

    data: Any
    batch_sizes: Any


# Images of objects, each with what is in it.
OBJECTS = [(tensor(3, 32 + at, 32), {"boxes": tensor(1 + at, 4)}) for at in range(4)]


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (tensor(8, 3), 8),
        ([tensor(8, 3), tensor(9)], None),
        ([tensor(8, 3), tensor(), tensor(8)], 8),
        ([tensor(8, 80, 50), tensor(90), tensor(8), tensor(8)], 8),
        ({"weights": tensor(3), "x": tensor(16, 8)}, None),
        ({"input_ids": tensor(8, 20), "attention_mask": tensor(8, 20), "labels": tensor(8)}, 8),
        (
            {
                "pixel_values": tensor(2, 3, 9, 9),
                "labels": [{"boxes": tensor(5, 4)}, {"boxes": tensor(1, 4)}],
            },
            2,
        ),
        ([[tensor(8, 3), tensor(8, 3)], tensor(8)], 8),
        ([[tensor(8, 3), tensor(8, 5)], [tensor(8), tensor(8)]], 8),
        ([[tensor(8, 3), tensor(9, 3)], [tensor(8, 1), tensor(9, 1)]], None),
        (tuple(zip(*OBJECTS, strict=True)), 4),
        (OBJECTS, 4),
        ([["a", "b"], [1, 2]], 2),
        ([["a"] * 1000, [1] * 1000], None),
        (PackedSequence(tensor(47, 4), [8, 8, 5]), 8),
        ([PackedSequence(tensor(47, 4), [8, 8, 5]), tensor(8)], 8),
        (("name", {"x": [None, tensor(4)]}), 4),
        (tensor(), None),
        ([], None),
        ([[], []], None),
        ("text", None),
        ([[[[[[tensor(8)]]]]]], None),
    ],
)
def test_examples_in_a_batch(batch: Any, size: int | None) -> None:
    assert examples_in(batch) == size


def test_sizes_of_a_batch_are_its_own_whatever_the_last_one_was_like() -> None:
    sizes = BatchSizes()
    alike = [tensor(8, 3), tensor(8)]
    batches: list[Any] = [
        *(
            alike,
            alike,
            [tensor(8, 3), tensor(5)],
            alike,
            [tensor(8, 3)],
            alike,
            [tensor(8, 3), "name"],
            alike,
        ),
        *([], tensor(4), alike, {"images": tensor(2, 3)}, [tensor(2, 3), [tensor(2)]], alike),
    ]
    for batch in batches:
        assert sizes.of(batch) == (examples_in(batch), shapes_in(batch))
    assert sizes.of(alike) != sizes.of([tensor(8, 3), tensor(5)])
