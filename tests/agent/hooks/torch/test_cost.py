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
    assert [costs.add(900, now + number) for number in range(FEWEST_COSTS - 1)] == [None] * (FEWEST_COSTS - 1)
    now += FEWEST_COSTS
    assert costs.add(5, now) == 900
    assert costs.add(5, now + COST_EVERY_NS) is None
    assert costs.add(5, now + COST_EVERY_NS + 1) == 5
