"""What ranks do between their steps, on made-up ranks."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.causes.between_cost import BetweenCost, Kind, StepsAndBetween, between_cost
from roofline_server.records import Bools, Ints

STEPS = 100


def waited_for(number: Ints, counted: Bools) -> BetweenCost:
    """Two short saves and one long evaluation of one rank, before the steps at places 20, 40 and 60; the
    others wait for it in these. number: of each step."""
    step, usual = np.arange(STEPS), np.full(STEPS, 1.0)
    apart = np.isin(step, [20, 40, 60])
    waiting = usual + 0.05 * np.isin(step, [20, 40]) + 9.9 * (step == 60)
    stretches = {"checkpoint": np.full(2, 0.05), "evaluation": np.array([9.9])}
    doing = StepsAndBetween(number, usual, apart, stretches, counted)
    other = StepsAndBetween(number, waiting, np.zeros(STEPS, bool), {}, counted)
    found = between_cost([doing, other, other])
    assert found is not None
    assert (found.places, found.kind) == ([0], "evaluation")
    return found


def test_how_much_of_the_cost_lies_in_some_steps() -> None:
    step = np.arange(STEPS)
    found = waited_for(step, np.ones(STEPS, bool))
    assert found.cost == pytest.approx(10 / STEPS)
    assert found.inside == pytest.approx(1)
    assert waited_for(step, step != 60).inside == pytest.approx(0.01), "the saves alone"
    assert waited_for(step, step < 5).inside == 0


@pytest.mark.parametrize("number", [np.arange(STEPS) * 10, np.arange(STEPS) % 20])
def test_it_costs_each_step_as_much_however_these_are_numbered(number: Ints) -> None:
    step = np.arange(STEPS)
    found = waited_for(number, step != 60)
    assert found.cost == pytest.approx(10 / STEPS)
    assert found.inside == pytest.approx(0.01)


def test_what_all_do_lies_in_no_step() -> None:
    step = np.arange(STEPS)
    every = np.ones(STEPS, bool)
    one = StepsAndBetween(step, np.ones(STEPS), step % 10 == 0, {"evaluation": np.full(9, 5.0)}, every)
    found = between_cost([one, one])
    assert found is not None and found.places == []
    assert found.inside == 0


@pytest.mark.parametrize(("save", "kind"), [(0.1, "evaluation"), (1.5, "other")])
def test_a_kind_names_the_whole_only_if_it_is_nearly_all_of_it(save: float, kind: str) -> None:
    step, every = np.arange(STEPS), np.ones(STEPS, bool)
    stretches = {"checkpoint": np.full(9, save), "evaluation": np.full(9, 5.0), "other": np.full(9, 0.01)}
    one = StepsAndBetween(step, np.ones(STEPS), step % 10 == 0, stretches, every)
    found = between_cost([one, one])
    assert found is not None and found.kind == kind
    notable = [Kind("evaluation", 9, 5.0), Kind("checkpoint", 9, save)]
    assert found.kinds == (notable if save > 1 else notable[:1])
