"""Calls of several updates are cut into equal parts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks.tf.parts import borders, cut, share, uncovered


@given(st.integers(0, 2**62), st.integers(0, 10**12), st.integers(1, 200))
def test_parts_are_equal_and_add_up(begin: int, length: int, count: int) -> None:
    at = borders(begin, begin + length, count)
    lengths = [after - before for before, after in pairwise(at)]
    assert (len(lengths), sum(lengths)) == (count, length)
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(0, 10**6), st.integers(1, 200))
def test_shares_add_up(total: int, count: int) -> None:
    assert sum(share(total, count, at) or 0 for at in range(count)) == total
    assert share(None, count, 0) is None


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20, unique=True), st.integers(1, 30))
def test_pieces_of_phases_add_up_and_stay_in_their_part(moments: list[int], count: int) -> None:
    moments.sort()
    phases = [
        ("phase.call", begin, end, None, 1) for begin, end in zip(moments[::2], moments[1::2], strict=False)
    ]
    at = borders(0, 1000, count)
    pieces = cut(phases, at)
    for part, mine in enumerate(pieces):
        assert all(at[part] <= begin <= end <= at[part + 1] for _, begin, end, _, _ in mine)
    length = sum(end - begin for mine in pieces for _, begin, end, _, _ in mine)
    assert length == sum(end - begin for _, begin, end, _, _ in phases)


def test_what_no_stretch_covers() -> None:
    stretches = [("a", 10, 20), ("b", 15, 30), ("c", 40, 50)]
    assert uncovered(0, 60, stretches) == [(0, 10), (30, 40), (50, 60)]
    assert uncovered(10, 30, stretches[:2]) == []
    assert uncovered(5, 6, []) == [(5, 6)]
