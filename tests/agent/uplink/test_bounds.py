"""What one user's processes flood costs that user alone."""

from __future__ import annotations

from itertools import count

import pytest
from roofline.limits import MAX_FORMS, MAX_SPAN_NAMES
from roofline_agent.records import Rank
from roofline_agent.uplink.bounds import (
    FACTS_BYTES,
    MAX_BATCH_FACTS,
    MAX_NAMED,
    ROWS_BYTES,
    BatchRoom,
)


def test_one_user_has_all_the_room() -> None:
    room = BatchRoom()
    assert room.take_rows(ROWS_BYTES, 1000)
    assert not room.take_rows(1, 1000)


def test_flood_of_rows_leaves_the_share_of_others() -> None:
    room = BatchRoom(users=2)
    while room.take_rows(64, 1000):
        pass
    assert room.take_rows(ROWS_BYTES // 2, 2000)
    assert not room.take_rows(64, 2000)


def test_flood_of_facts_leaves_the_share_of_others() -> None:
    room = BatchRoom(users=4)
    taken = 0
    while room.take_fact("x" * 10, 1000):
        taken += 1
    assert taken == MAX_BATCH_FACTS // 4
    assert room.take_fact("x" * (FACTS_BYTES // 8), 2000)


def test_flood_of_names_leaves_the_share_of_others() -> None:
    room = BatchRoom(users=2)
    names, ranks, forms = count(), count(), 0
    while room.take_span_name(f"phase.{next(names)}", 1000):
        pass
    while room.take_named(Rank("job", "worker", next(ranks)), 1000):
        pass
    while room.take_form(1000):
        forms += 1
    assert (next(names) - 1, next(ranks) - 1, forms) == (MAX_SPAN_NAMES // 2, MAX_NAMED // 2, MAX_FORMS // 2)
    assert room.take_span_name("phase.input", 2000)
    assert room.take_named(Rank("other", "worker", 0), 2000)
    assert room.take_form(2000)


def test_user_who_comes_later_finds_what_is_left() -> None:
    room = BatchRoom()
    room.take_rows(ROWS_BYTES // 2, 1000)
    room.users = 2
    assert not room.take_rows(64, 1000)
    assert room.take_rows(ROWS_BYTES // 2, 2000)


@pytest.mark.parametrize("users", [1, 4])
def test_batch_is_half_full_when_one_user_has_half_a_share(users: int) -> None:
    rows, facts = BatchRoom(users), BatchRoom(users)
    assert not rows.is_half_full
    half = ROWS_BYTES // users // 2
    rows.take_rows(half - 1, 1000)
    if users > 1:
        rows.take_rows(half - 1, 2000)
    assert not rows.is_half_full
    rows.take_rows(1, 1000)
    assert rows.is_half_full
    for _ in range(MAX_BATCH_FACTS // users // 2):
        assert not facts.is_half_full
        facts.take_fact("x", 1000)
    assert facts.is_half_full


def test_user_who_is_not_known_of_at_first_adds_nothing_to_the_whole() -> None:
    """The server refuses a batch with more names or forms than it takes, whoever they are of."""
    room, names, ranks = BatchRoom(), count(), count()
    for user in (1000, 2000):
        while room.take_span_name(f"phase.{next(names)}", user):
            pass
        while room.take_named(Rank("job", "worker", next(ranks)), user):
            pass
        taken = sum(room.take_form(user) for _ in range(MAX_FORMS))
        assert taken == (MAX_FORMS if user == 1000 else 0)
        room.users = 2
    assert (next(names) - 2, next(ranks) - 2) == (MAX_SPAN_NAMES, MAX_NAMED)
