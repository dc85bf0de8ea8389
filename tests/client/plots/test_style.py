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


ROLES = [*style.ROLES, "actor", "critic", "reward", *(f"role{n}" for n in range(20))]


def test_roles_that_users_name_differ_too() -> None:
    with style.picture():
        looks = [(style.colour(role), style.marker(role)) for role in ROLES]
        assert len(set(looks)) == len(ROLES)
        assert looks == [(style.colour(role), style.marker(role)) for role in ROLES]
    few = ("actor", "critic", "reward", "reference")
    with style.picture():
        assert len({style.colour(role) for role in few}) == len(few)


def test_a_role_has_one_look_in_all_pictures_unless_another_has_taken_it() -> None:
    alone = style.colour("critic"), style.marker("critic")
    with style.picture():
        assert (style.colour("critic"), style.marker("critic")) == alone
    with style.picture():
        for role in ("actor", "reward"):
            style.colour(role)
        assert (style.colour("critic"), style.marker("critic")) == alone


def test_roles_of_a_picture_look_alike_whichever_is_drawn_first() -> None:
    taken = {role: style.colour(role) for role in (f"role{n}" for n in range(6))}
    assert len(set(taken.values())) < len(taken), "some of them collide"
    seen = []
    for drawn in (sorted(taken), sorted(taken, reverse=True)):
        with style.picture(taken):
            seen.append({role: style.colour(role) for role in drawn})
    assert seen[0] == seen[1]
    assert len(set(seen[0].values())) == len(taken)


def test_ink_is_read_on_its_colour() -> None:
    assert style.ink_on("#FFFFFF") == "black" and style.ink_on("#882255") == "white"
