"""Each agent is sent pings often at first and rarely later, and all of them together not too many."""

from __future__ import annotations

import itertools

from roofline_server.ingest import pings


def test_pings_are_many_at_first_and_few_later() -> None:
    sent, now = [], 0.0
    for one in itertools.islice(pings.rounds(), 50):
        sent += [now + number * pings.PING_S for number in range(one.pings)]
        now = sent[-1] + one.pause_s
    assert sum(moment < 2 for moment in sent) >= 12
    assert sum(100 <= moment < 200 for moment in sent) <= 10 * pings.PINGS + 1


def test_one_stream_waits_for_no_turn() -> None:
    now = 0.0
    turns = pings.Turns(lambda: now)
    for one in itertools.islice(pings.rounds(), 20):
        assert turns.take(one.pings) == (0, one.pings)
        now += (one.pings - 1) * pings.PING_S + one.pause_s


def test_thousands_that_come_at_once_have_their_pings_one_after_the_other() -> None:
    turns = pings.Turns(lambda: 7.0)
    taken = [turns.take(pings.PINGS) for _ in range(2000)]
    assert taken[0] == (0, pings.PINGS)
    assert all(later.wait_s > earlier.wait_s for earlier, later in itertools.pairwise(taken))
    for second in (3, 20):
        sent = sum(turn.pings for turn in taken if second <= turn.wait_s < second + 1)
        assert sent <= pings.MOST_PER_SECOND + pings.PINGS
    assert {turn.pings for turn in taken if turn.wait_s > pings.PING_EVERY_S} == {pings.CROWDED_PINGS}
