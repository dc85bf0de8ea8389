"""Which steps are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.ncu.steps import MAX_STEPS, StepsError, parse, ranges_of, written


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("100", ((100, 100),)),
        ("100-102", ((100, 102),)),
        ("10,20", ((10, 10), (20, 20))),
        (" 20 , 10 - 12 ", ((10, 12), (20, 20))),
        ("10,11,12-13", ((10, 13),)),
        ("5-9,7", ((5, 9),)),
    ],
)
def test_steps_are_sorted_and_joined(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert parse(text) == ranges


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no step"),
        ("ten", "100-102"),
        ("-5", "no step"),
        ("1-2-3", "no step"),
        ("10,,20", "no step"),
        ("1.5", "no step"),
        ("٣", "no step"),
        ("20-10", "10-20 is meant"),
        ("0", "nothing marks its beginning"),
        ("0-3", "nothing marks its beginning"),
        (f"1-{MAX_STEPS + 1}", "too many"),
    ],
)
def test_malformed_steps_are_an_error(text: str, says: str) -> None:
    with pytest.raises(StepsError, match=says):
        parse(text)


@given(st.sets(st.integers(1, 500), min_size=1, max_size=MAX_STEPS))
def test_written_and_parsed_again_means_the_same(steps: set[int]) -> None:
    ranges = parse(",".join(map(str, steps)))
    assert {step for first, last in ranges for step in range(first, last + 1)} == steps
    assert parse(written(ranges)) == ranges
    assert ranges_of(steps) == ranges
