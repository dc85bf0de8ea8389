"""What ranks do between their steps, on made-up ranks."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.aside import RankBreaks, aside

STEPS = 100


def test_how_much_of_the_cost_lies_in_some_steps() -> None:
    """Two short saves and one long evaluation of one rank; the others wait for it in their next steps."""
    step, usual = np.arange(STEPS), np.full(STEPS, 1.0)
    apart = np.isin(step, [20, 40, 60])
    waiting = usual + 0.05 * np.isin(step, [20, 40]) + 9.9 * (step == 60)
    doing = RankBreaks(step, usual, apart, {"checkpoint": np.full(2, 0.05), "evaluation": np.array([9.9])})
    other = RankBreaks(step, waiting, np.zeros(STEPS, bool), {})
    found = aside([doing, other, other])
    assert found is not None
    assert (found.places, found.kind) == ([0], "evaluation")
    assert found.cost == pytest.approx(10 / STEPS)
    assert found.share_in(step) == pytest.approx(1)
    assert found.share_in(step[step != 60]) == pytest.approx(0.01), "the saves alone"
    assert found.share_in(np.arange(5)) == 0


def test_what_all_do_lies_in_no_step() -> None:
    step = np.arange(STEPS)
    one = RankBreaks(step, np.ones(STEPS), step % 10 == 0, {"evaluation": np.full(9, 5.0)})
    found = aside([one, one])
    assert found is not None and found.places == []
    assert found.share_in(step) == 0
