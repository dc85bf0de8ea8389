"""Optimizers that take turns: which of their updates end a step."""

from __future__ import annotations

import pytest
from roofline_agent.hooks.torch.turns import SURE, Turns


class Optimizer:
    """Stands for one of torch's."""


def play(turns: Turns, order: str) -> str:
    """Updates by optimizers a, b, ...: "|" behind those known at once to end a step, "?" behind the others;
    "<" before those that show that the step had ended."""
    said = ""
    for name in order:
        if turns.again(ord(name)):
            turns.over()
            said += "<"
        if turns.ended(ord(name)):
            turns.over()
            said += name + "|"
        else:
            said += name + "?"
    return said


def made(count: int) -> tuple[Turns, list[Optimizer]]:
    turns, optimizers = Turns(), [Optimizer() for _ in range(count)]
    for one in optimizers:
        turns.made(one)
    return turns, optimizers


def test_each_update_of_a_single_optimizer_ends_a_step() -> None:
    turns, _kept = made(1)
    assert play(turns, "aaa") == "a|a|a|"


def test_two_that_take_turns_are_one_step() -> None:
    turns, _kept = made(2)
    assert play(turns, "ababab") == "a?b?<a?b?<a?b?"
    play(turns, "ab" * SURE)
    assert play(turns, "abab") == "a?b|a?b|", "known at once, when it has often been so"


def test_the_rarer_one_belongs_to_the_step_before_it() -> None:
    turns, _kept = made(2)
    assert play(turns, "aaabaaab") == "a?<a?<a?b?<a?<a?<a?b?"
    play(turns, "aaab" * SURE)
    assert play(turns, "aaabaaab") == "a|a|a?b|a|a|a?b|"


def test_one_that_is_made_and_never_used_delays_nothing_for_long() -> None:
    turns, _kept = made(2)
    play(turns, "a" * (SURE + 2))
    assert play(turns, "aa") == "a|a|"


def test_one_that_replaces_another_goes_on() -> None:
    turns, kept = made(1)
    play(turns, "aaa")
    kept.append(Optimizer())
    turns.made(kept[1])
    del kept[0]
    assert play(turns, "bb") == "b|b|"


def test_one_inside_another_has_no_turn() -> None:
    turns, kept = made(2)
    turns.part(kept[1])
    assert play(turns, "aa") == "a|a|"


@pytest.mark.parametrize("order", ["a" * 50, "ab" * 25, "aab" * 20, "aaaaab" * 12, "abcb" * 12, "ba" * 20])
def test_steps_are_as_many_as_turns_of_the_most_frequent(order: str) -> None:
    turns, _kept = made(len(set(order)))
    said = play(turns, order) + ("<" if turns.again(ord(order[-1])) else "")
    assert said.count("|") + said.count("<") == max(map(order.count, order))
