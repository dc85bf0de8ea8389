"""Colours: neighbours are distinct when printed in grey, and no part looks like a role."""

from __future__ import annotations

from itertools import pairwise

import pytest
from roofline_client.plots import style
from roofline_client.plots.step_panels import PHASES

LEAST_DIFFERENCE = 0.1  # of the way from black to white


@pytest.mark.parametrize(
    "parts",
    [(*PHASES, "other"), ("input", "forward", "backward", "optimizer", "communicate", "wait", "other")],
)
def test_neighbours_differ_in_brightness(parts: tuple[str, ...]) -> None:
    found = [style.brightness(style.PARTS[part]) for part in parts]
    assert all(abs(one - other) >= LEAST_DIFFERENCE for one, other in pairwise(found))


def test_shades_get_darker() -> None:
    found = [style.brightness(shade) for shade in style.SHADES]
    assert all(one - other >= LEAST_DIFFERENCE for one, other in pairwise(found))


def test_roles_differ_in_their_markers() -> None:
    assert len({marker for _, marker in style.ROLES.values()}) == len(style.ROLES)


def test_ink_is_read_on_its_colour() -> None:
    assert style.ink_on("#FFFFFF") == "black" and style.ink_on("#882255") == "white"
