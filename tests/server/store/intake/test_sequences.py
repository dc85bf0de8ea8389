from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from roofline_server.store.intake.sequences import (
    MAX_GAPS,
    REMEMBERED,
    Checksums,
    Numbers,
    gaps_text,
    parse_gaps,
)


@given(st.lists(st.integers(1, 40)))
def test_numbers_are_had_when_they_were_kept_and_only_then(sent: list[int]) -> None:
    numbers, kept = Numbers(), set()
    for one in sent:
        assert numbers.has(one) == (one in kept)
        if one not in kept:
            numbers = numbers.with_kept(one)
            kept.add(one)
    assert numbers.highest == max(kept, default=0)
    assert [n for n in range(1, 42) if numbers.has(n)] == sorted(kept)
    assert parse_gaps(gaps_text(numbers.gaps)) == numbers.gaps


def test_gaps_are_bounded_and_those_forgotten_are_known_to_be() -> None:
    numbers = Numbers()
    for one in range(2, 2 * MAX_GAPS + 10, 2):
        numbers = numbers.with_kept(one)
    assert len(numbers.gaps) == MAX_GAPS
    assert numbers.forgotten == numbers.gaps[0][0] - 2
    assert numbers.has(numbers.forgotten), "it may have been kept"
    assert not numbers.has(numbers.gaps[0][0])


def test_checksums_are_those_of_the_last_batches() -> None:
    checksums = Checksums()
    for one in range(1, REMEMBERED + 2):
        checksums.add(one, one * 7)
    assert checksums.of(1) is None
    assert (checksums.of(2), checksums.of(REMEMBERED + 1)) == (14, 7 * (REMEMBERED + 1))
    assert checksums.of(REMEMBERED + 2) is None
