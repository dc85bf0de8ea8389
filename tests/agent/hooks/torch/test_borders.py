"""Borders that are held back until it is known which of them ends a step."""

from __future__ import annotations

import pytest
from roofline_agent.hooks.torch.borders import WaitingBorder, in_place_of


@pytest.mark.parametrize(
    ("before", "now", "both"),
    [
        ((8, 11), (4, 12), (12, (11, 12))),
        ((8, 11), (0, None), (8, 11)),
        ((0, None), (8, 11), (8, 11)),
        ((8, 11), (None, None), (8, 11)),
        ((None, None), (8, 11), (8, 11)),
        ((None, None), (0, None), (None, None)),
        ((0, None), (None, None), (None, None)),
        ((0, None), (0, None), (0, None)),
    ],
)
def test_step_of_several_updates_has_the_examples_and_shapes_of_all(
    before: tuple[int | None, int | None],
    now: tuple[int | None, int | None],
    both: tuple[int | None, object],
) -> None:
    found = in_place_of([WaitingBorder(3, 10, *before)], WaitingBorder(5, 20, *now))
    assert found == WaitingBorder(5, 20, *both)
