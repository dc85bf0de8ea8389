"""Which of several things that are trained makes the steps of TensorFlow."""

from __future__ import annotations

import gc

from roofline_agent.hooks.tf.leader import PATIENCE, Leader


class Model:
    """Something trained."""


MODELS = {name: Model() for name in "gd"}


def led(calls: str) -> str:
    """For each call of a model, whether it made steps: its letter or a dot."""
    leader = Leader()
    return "".join(one if leader.makes_steps(MODELS[one]) else "." for one in calls)


def test_of_several_that_take_turns_the_first_makes_the_steps() -> None:
    assert led("gdgddgdd" * 9) == "g.g..g.." * 9


def test_another_makes_them_once_the_first_is_not_called_for_long() -> None:
    assert led("gg" + "d" * (PATIENCE + 2) + "g") == "gg" + "." * PATIENCE + "dd" + "."


def test_another_makes_them_at_once_if_the_first_is_no_more() -> None:
    leader, gone = Leader(), Model()
    assert leader.makes_steps(gone)
    del gone
    gc.collect()
    assert leader.makes_steps(MODELS["d"]) and leader.is_now(MODELS["d"])


def test_what_becomes_the_leader_makes_them_from_then_on() -> None:
    leader = Leader()
    assert leader.makes_steps(MODELS["g"])
    leader.becomes(MODELS["d"])
    assert [leader.makes_steps(MODELS[one]) for one in "gd"] == [False, True]
