"""In which steps hooks measure what they cost, and what is told of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.torch.cost import (
    COST_EVERY_NS,
    FEWEST_COSTS,
    HookCosts,
    is_before_sampled,
    next_before_sampled,
)


@given(st.integers(0, 1 << 20))
def test_next_step_before_a_measured_one(number: int) -> None:
    found = next_before_sampled(number)
    assert is_before_sampled(found)
    assert not any(is_before_sampled(one) for one in range(number, found))


def test_median_is_told_now_and_then() -> None:
    costs, now = HookCosts(), COST_EVERY_NS
    for number in range(FEWEST_COSTS - 1):
        assert costs.add(number, 900, now + number) is None
    now += FEWEST_COSTS
    assert costs.add(70, 5, now) == 900
    assert costs.add(140, 5, now + COST_EVERY_NS) is None
    assert costs.add(210, 5, now + COST_EVERY_NS + 1) == 5


def test_working_out_calm_steps_is_shared_among_the_steps_since_the_last_measured_one() -> None:
    costs = HookCosts()
    costs.worked_ns = 6400
    found = [costs.add(64 * number, 5, COST_EVERY_NS * 2 * number) for number in range(1, 4)]
    assert found == [None, None, 5]
    costs.worked_ns = 640
    for number in range(4, 7):
        costs.add(64 * number, 5, 0)
        costs.worked_ns = 640
    assert costs.add(64 * 7, 5, COST_EVERY_NS * 20) == 15
