from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.clock import STRETCH_NS, NodeClock, OffsetFilter, exchange
from roofline_server.records import Ints, Knot

from .builders import MS, UNIX, S

DELAYS = st.integers(0, 50 * MS)
OFFSETS = st.integers(-(2**61), 2**61)
MOMENTS = st.integers(0, 2**60)


def at(*moments: int) -> Ints:
    return np.array(moments, np.int64)


def ping(true_offset: int, sent: int, there: int, stay: int, back: int) -> Knot | None:
    """A round trip as it would be: node time is the server's less true_offset."""
    arrives, leaves = sent + there, sent + there + stay
    return exchange(sent, arrives - true_offset, leaves - true_offset, leaves + back)


@given(OFFSETS, MOMENTS, DELAYS, DELAYS, DELAYS)
def test_offset_is_wrong_by_at_most_half_the_round_trip(
    offset: int, sent: int, there: int, stay: int, back: int
) -> None:
    knot = ping(offset, sent, there, stay, back)
    assert knot
    assert knot.rtt_ns == there + back
    assert abs(knot.offset_ns - offset) <= knot.rtt_ns / 2 + 1


@given(OFFSETS, MOMENTS, DELAYS, DELAYS)
def test_symmetric_delays_give_the_exact_offset(offset: int, sent: int, delay: int, stay: int) -> None:
    knot = ping(offset, sent, delay, stay, delay)
    assert knot
    assert abs(knot.offset_ns - offset) <= 1


@pytest.mark.parametrize("times", [(100, 0, 10, 105), (100, 10, 5, 200)])
def test_exchange_that_cannot_be_true_gives_no_knot(times: tuple[int, int, int, int]) -> None:
    assert exchange(*times) is None


def test_first_exchange_is_kept_at_once() -> None:
    knot = Knot(5, 7, 10**9)
    assert OffsetFilter().feed(knot) == knot


def test_worse_exchange_of_the_same_stretch_is_dropped_and_a_better_kept() -> None:
    offsets = OffsetFilter()
    offsets.feed(Knot(0, 1, 100))
    assert offsets.feed(Knot(S, 2, 101)) is None
    better = Knot(2 * S, 3, 99)
    assert offsets.feed(better) == better


def test_each_stretch_gets_a_knot_of_its_own() -> None:
    offsets = OffsetFilter()
    offsets.feed(Knot(0, 1, 100))
    worse = Knot(STRETCH_NS + 1, 2, 5000)
    assert offsets.feed(worse) == worse


@given(st.lists(st.tuples(st.integers(0, 5 * S), st.integers(0, 10**9)), min_size=1))
def test_best_exchange_of_the_first_stretch_is_among_the_kept(found: list[tuple[int, int]]) -> None:
    offsets = OffsetFilter()
    knots = [Knot(node, 0, rtt) for node, rtt in sorted(found)]
    kept = [k for k in knots if offsets.feed(k)]
    assert min(k.rtt_ns for k in kept) == min(k.rtt_ns for k in knots)


@given(OFFSETS, st.lists(st.integers(-(2**61), 2**61), min_size=1))
def test_constant_offset_is_applied_exactly(offset: int, moments: list[int]) -> None:
    clock = NodeClock([Knot(S, offset, 1000), Knot(100 * S, offset, 1000)])
    assert clock.to_server(at(*moments)).tolist() == [m + offset for m in moments]


def test_a_nanosecond_is_kept_over_years() -> None:
    clock = NodeClock([Knot(0, UNIX, 1000)])
    year = 365 * 86400 * S
    assert clock.to_server(at(3 * year, 3 * year + 1)).tolist() == [UNIX + 3 * year, UNIX + 3 * year + 1]


@given(st.integers(-100_000, 100_000), st.integers(0, 60 * S), st.lists(DELAYS, min_size=7, max_size=7))
def test_drift_is_followed_within_the_stated_error(ppb: int, moment: int, delays: list[int]) -> None:
    knots = []
    for i, delay in enumerate(delays):
        node = i * 10 * S
        # All of the delay on one way: the worst that half a round trip allows.
        knots.append(Knot(node, UNIX + node * ppb // 10**9 + delay // 2, delay))
    clock = NodeClock(knots)
    assert clock.error_ns is not None
    truth = moment + UNIX + moment * ppb // 10**9
    # Knots that were dropped as outliers leave up to 60 s to bridge at the drift.
    bridged = abs(ppb) * 60 if len([k for k in knots if k.rtt_ns / 2 <= clock.error_ns]) < 7 else 0
    assert abs(int(clock.to_server(at(moment))[0]) - truth) <= clock.error_ns + bridged + 2


def test_stated_error_is_half_the_worst_round_trip_used() -> None:
    assert NodeClock([Knot(0, 0, 1000), Knot(20 * S, 0, 3000)]).error_ns == 1500


def test_slow_stretch_among_fast_ones_is_left_out() -> None:
    good = [Knot(i * 10 * S, UNIX, 50_000) for i in (0, 1, 3, 4)]
    clock = NodeClock([*good, Knot(20 * S, UNIX + 40 * MS, 80 * MS)])
    assert clock.error_ns == 25_000
    assert clock.to_server(at(20 * S)).tolist() == [20 * S + UNIX]


def test_clock_follows_a_network_that_became_slower_for_good() -> None:
    drift = 20_000  # ppb: 1.2 ms a minute
    fast = [Knot(i * 10 * S, UNIX + i * 10 * drift, 40_000) for i in range(6)]
    slow = [Knot(i * 10 * S, UNIX + i * 10 * drift, MS) for i in range(6, 360)]
    clock = NodeClock(fast + slow)
    assert clock.error_ns is not None
    moment = 3000 * S
    error = abs(int(clock.to_server(at(moment))[0]) - (moment + UNIX + 3000 * drift))
    assert error <= max(clock.error_ns, MS)


def test_mapping_keeps_the_order_of_moments() -> None:
    clock = NodeClock([Knot(0, UNIX, 1000), Knot(10 * S, UNIX + 200_000, 1000)])
    moved = clock.to_server(np.arange(0, 10 * S, 7_777_777))
    assert bool(np.all(np.diff(moved) > 0))


def test_without_exchanges_arrival_stands_in_and_the_error_is_unknown() -> None:
    clock = NodeClock([], arrival_offset_ns=UNIX)
    assert clock.to_server(at(5)).tolist() == [UNIX + 5]
    assert clock.error_ns is None


def test_exchanges_are_preferred_to_arrival() -> None:
    assert NodeClock([Knot(0, 3, 10)], arrival_offset_ns=UNIX).to_server(at(5)).tolist() == [8]
