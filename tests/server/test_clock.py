from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_server.clock import RATE_LIMIT, ROUNDING_NS, WANDER, NodeClock, needed
from roofline_server.clock_samples import MOST_SAMPLES, STRETCH_NS, best, exchange, thin
from roofline_server.records import ClockSample, Ints

from tests.drift import drift_of

from .builders import MS, UNIX, S

US = 1_000
UNHURRIED = settings(deadline=None)  # on a busy machine anything may take long
DELAYS = st.integers(US, 50 * MS)
OFFSETS = st.integers(-(2**61), 2**61)
MOMENTS = st.integers(0, 2**60)
PPM = st.integers(-500, 500)


def at(*moments: int) -> Ints:
    return np.array(moments, np.int64)


def rows(samples: Sequence[ClockSample]) -> Ints:
    return np.array(samples, np.int64).reshape(-1, 3)


class Trip(NamedTuple):
    """One exchange as it really was; delays of both ways, and what the node takes to answer."""

    node_ns: int
    there_ns: int
    back_ns: int
    stay_ns: int = 3 * US


class Truth(NamedTuple):
    """A node whose offset drifts, wanders (a slow wave of the rate around its mean) and jumps once."""

    offset_ns: int
    ppm: int = 0
    wander_ppm: float = 0.0
    jump_at_ns: int = 2**62
    jump_ns: int = 0

    def offset(self, node_ns: int) -> int:
        period = 300 * S
        wave = self.wander_ppm * 1e-6 * period / (2 * np.pi) * np.sin(2 * np.pi * node_ns / period)
        jump = self.jump_ns if node_ns >= self.jump_at_ns else 0
        return self.offset_ns + node_ns * self.ppm // 10**6 + round(wave) + jump

    def sample(self, trip: Trip) -> ClockSample:
        arrives, leaves = trip.node_ns, trip.node_ns + trip.stay_ns
        sent = arrives + self.offset(arrives) - trip.there_ns
        sample = exchange(sent, arrives, leaves, leaves + self.offset(leaves) + trip.back_ns)
        assert sample
        return sample

    def samples(self, trips: Sequence[Trip]) -> list[ClockSample]:
        return [self.sample(trip) for trip in trips]

    def is_within_bound(self, clock: NodeClock, moments: Ints) -> bool:
        real = np.array([t + self.offset(t) for t in moments.tolist()], np.int64)
        return bool(np.all(np.abs(clock.to_server(moments) - real) <= clock.error_at(moments)))


def bursts(count: int, every_ns: int = 10 * S, delay_ns: int = 100 * US) -> list[Trip]:
    """Four pings in a row, of which each is slower than the one before, again and again."""
    return [
        Trip(b * every_ns + p * 30 * MS, delay_ns * (1 + p), delay_ns * (1 + p))
        for b in range(count)
        for p in range(4)
    ]


TRUTHS = st.tuples(
    st.integers(UNIX - 100 * S, UNIX + 100 * S), PPM, st.floats(0, WANDER * 1e6 / 2 * 0.99)
).map(lambda t: Truth(*t))
TRIPS = st.lists(
    st.tuples(st.integers(0, 600 * S), DELAYS, DELAYS, st.integers(0, 20 * MS)).map(lambda t: Trip(*t)),
    min_size=1,
    max_size=20,
)
ASKED = st.lists(st.integers(-100 * S, 700 * S), min_size=1, max_size=20).map(lambda m: at(*m))


# -- one exchange ----------------------------------------------------------------------------------


@UNHURRIED
@given(OFFSETS, MOMENTS, DELAYS, DELAYS, DELAYS)
def test_offset_is_wrong_by_at_most_half_the_round_trip(
    offset: int, node_ns: int, there: int, back: int, stay: int
) -> None:
    sample = Truth(offset).sample(Trip(node_ns, there, back, stay))
    assert there + back <= sample.rtt_ns <= there + back + stay * RATE_LIMIT
    assert abs(sample.offset_ns - offset) <= sample.rtt_ns / 2 + 1


@pytest.mark.parametrize("ppm", [-500, 500])
def test_drift_while_the_node_answers_is_in_the_bound(ppm: int) -> None:
    truth, stay = Truth(UNIX, ppm), 50 * MS
    sample = truth.sample(Trip(0, US, US, stay))
    assert abs(sample.offset_ns - truth.offset(stay // 2)) <= sample.rtt_ns / 2 + 1


@UNHURRIED
@given(OFFSETS, MOMENTS, DELAYS, DELAYS)
def test_symmetric_delays_give_the_exact_offset(offset: int, node_ns: int, delay: int, stay: int) -> None:
    assert abs(Truth(offset).sample(Trip(node_ns, delay, delay, stay)).offset_ns - offset) <= 1


@pytest.mark.parametrize("times", [(100, 0, 10, 105), (100, 10, 5, 200)])
def test_exchange_that_cannot_be_true_gives_no_knot(times: tuple[int, int, int, int]) -> None:
    assert exchange(*times) is None


# -- the bound -------------------------------------------------------------------------------------


@UNHURRIED
@given(TRUTHS, TRIPS, ASKED)
def test_truth_is_always_within_the_bound(truth: Truth, trips: list[Trip], asked: Ints) -> None:
    assert truth.is_within_bound(NodeClock(truth.samples(trips)), asked)


@UNHURRIED
@given(TRUTHS, TRIPS, ASKED)
def test_choosing_exchanges_keeps_the_truth_within_the_bound(
    truth: Truth, trips: list[Trip], asked: Ints
) -> None:
    chosen = thin(best(rows(sorted(truth.samples(trips)))), most=8)
    assert truth.is_within_bound(NodeClock(chosen), asked)


@UNHURRIED
@given(TRUTHS, TRIPS, ASKED)
def test_bound_is_that_of_any_exchange_carried_over_or_better(
    truth: Truth, trips: list[Trip], asked: Ints
) -> None:
    samples = truth.samples(trips)
    clock = NodeClock(samples)
    spread = drift_of(clock).error_ppm * 1e-6 + WANDER
    for moment, error in zip(asked.tolist(), clock.error_at(asked).tolist(), strict=True):
        single = min(k.rtt_ns / 2 + spread * abs(moment - k.node_ns) for k in samples)
        assert error <= single + 2 * ROUNDING_NS


def test_bound_of_a_good_network_is_half_a_round_trip_and_a_little() -> None:
    clock = NodeClock(Truth(UNIX, 137).samples(bursts(60)))
    worst = clock.worst_error(0, 590 * S)
    assert worst
    assert 100 * US < worst < 100 * US + 6 * S * (WANDER + 1e-6)


def test_slow_ways_of_different_directions_bound_the_offset_together() -> None:
    """Each round trip is long, but one is quick there and the other back."""
    trips = [
        Trip(i * 5 * S, *((50 * US, 80 * MS) if i % 2 else (80 * MS, 50 * US)))  # type: ignore[misc]
        for i in range(100)
    ]
    truth = Truth(UNIX, -80)
    clock = NodeClock(truth.samples(trips))
    worst = clock.worst_error(10 * S, 480 * S)
    assert worst
    assert worst < MS
    assert truth.is_within_bound(clock, np.arange(0, 500 * S, S // 3))


def test_bound_of_an_asymmetric_way_is_half_of_both_delays() -> None:
    truth = Truth(UNIX, 20)
    clock = NodeClock(truth.samples([Trip(i * 10 * S, 5 * MS, 80 * MS) for i in range(30)]))
    assert truth.is_within_bound(clock, np.arange(0, 300 * S, S))
    assert 42.5 * MS <= clock.error_at(at(150 * S))[0] < 44 * MS


def test_drift_is_known_within_its_error() -> None:
    for ppm in (-500, -3, 0, 200):
        drift = drift_of(NodeClock(Truth(UNIX, ppm).samples(bursts(30))))
        assert abs(drift.ppm - ppm) <= drift.error_ppm < 1


def test_drift_is_followed_beyond_the_last_exchange() -> None:
    truth = Truth(UNIX, 400)
    clock = NodeClock(truth.samples(bursts(30)))
    late = at(290 * S + 100 * S)
    assert truth.is_within_bound(clock, late)
    assert abs(int(clock.to_server(late)[0]) - int(late[0]) - truth.offset(int(late[0]))) < 100 * US
    assert MS < clock.error_at(late)[0] < 2 * MS  # 400 ppm of 100 s would be 40 ms


def test_a_single_exchange_says_little_of_other_times() -> None:
    clock = NodeClock([ClockSample(0, UNIX, 100 * US)])
    assert clock.error_at(at(0))[0] == pytest.approx(50 * US, abs=3)
    assert clock.error_at(at(-10 * S, 10 * S)) == pytest.approx(10 * S * (RATE_LIMIT + WANDER), rel=0.01)


@UNHURRIED
@given(TRUTHS, TRIPS, st.tuples(*[st.integers(0, 700 * S)] * 2).map(sorted))
def test_worst_error_of_a_stretch_is_the_largest_in_it(
    truth: Truth, trips: list[Trip], extent: list[int]
) -> None:
    clock = NodeClock(truth.samples(trips))
    worst = clock.worst_error(*extent)
    assert worst
    inside = np.linspace(*extent, 200).astype(np.int64)
    assert clock.error_at(inside).max() <= worst + 1


@UNHURRIED
@given(TRUTHS, TRIPS, st.integers(0, 600 * S))
def test_moments_keep_their_order(truth: Truth, trips: list[Trip], begin: int) -> None:
    moved = NodeClock(truth.samples(trips)).to_server(np.arange(begin, begin + S, 999_983))
    assert bool(np.all(np.diff(moved) > 0))


# -- clocks that were set or stood still -------------------------------------------------------------

# A jump that a wandering clock could have made up for between two exchanges cannot be told from that.
JUMPS = st.tuples(
    st.integers(20 * S, 280 * S), st.one_of(st.integers(2 * MS, 20 * MS), st.integers(S, 3600 * S))
)


@UNHURRIED
@given(PPM, JUMPS, st.integers(20, 300))
def test_node_that_was_suspended_is_right_before_and_after(
    ppm: int, jump: tuple[int, int], delay_us: int
) -> None:
    truth = Truth(UNIX, ppm, 0.0, *jump)
    clock = NodeClock(truth.samples(bursts(30, delay_ns=delay_us * US)))
    moments = np.arange(0, 300 * S, S // 4)
    assert truth.is_within_bound(clock, moments)
    assert bool(np.all(np.diff(clock.to_server(moments)) >= 0))


def test_suspension_blurs_only_the_time_around_it() -> None:
    clock = NodeClock(Truth(UNIX, 50, 0.0, 155 * S, 3600 * S).samples(bursts(30)))
    errors = clock.error_at(at(100 * S, 155 * S, 200 * S))
    assert errors[0] < MS
    assert errors[2] < MS
    assert errors[1] > 1000 * S


def test_server_that_stood_still_is_right_before_and_after_and_never_goes_back() -> None:
    """Its time stopped from one exchange to the next, and a little longer by what those can be wrong."""
    samples = Truth(UNIX).samples(bursts(30))
    stood = int(9.92 * S)
    clock = NodeClock([k._replace(offset_ns=k.offset_ns - stood * (k.node_ns > 155 * S)) for k in samples])
    moved = clock.to_server(np.arange(0, 300 * S, S // 100))
    assert bool(np.all(np.diff(moved) >= 0))
    assert clock.to_server(at(100 * S, 200 * S)) - UNIX == pytest.approx(at(100 * S, 200 * S - stood), abs=MS)
    assert clock.error_at(at(100 * S, 200 * S)).max() < MS


# -- mapping ---------------------------------------------------------------------------------------


@UNHURRIED
@given(OFFSETS, st.lists(st.integers(-(2**61), 2**61), min_size=1))
def test_constant_offset_is_applied_exactly(offset: int, moments: list[int]) -> None:
    clock = NodeClock([ClockSample(S, offset, 1000), ClockSample(100 * S, offset, 1000)])
    assert clock.to_server(at(*moments)).tolist() == [m + offset for m in moments]


def test_a_nanosecond_is_kept_over_years() -> None:
    clock = NodeClock([ClockSample(0, UNIX, 1000)])
    year = 365 * 86400 * S
    assert clock.to_server(at(3 * year, 3 * year + 1)).tolist() == [UNIX + 3 * year, UNIX + 3 * year + 1]


@UNHURRIED
@given(TRUTHS, TRIPS, ASKED)
def test_node_time_comes_back_from_server_time(truth: Truth, trips: list[Trip], asked: Ints) -> None:
    clock = NodeClock(truth.samples(trips))
    assert np.abs(clock.to_node(clock.to_server(asked)) - asked).max() <= 2


def test_without_exchanges_arrival_stands_in_and_the_error_is_unknown() -> None:
    clock = NodeClock([], arrival_offset_ns=UNIX)
    assert clock.to_server(at(5)).tolist() == [UNIX + 5]
    assert clock.error_at(at(5)).tolist() == [np.inf]
    assert clock.worst_error(0, 10) is None


def test_exchanges_are_preferred_to_arrival() -> None:
    assert NodeClock([ClockSample(0, 3, 10)], arrival_offset_ns=UNIX).to_server(at(5)).tolist() == [8]


# -- choosing --------------------------------------------------------------------------------------


def test_of_a_stretch_both_the_highest_and_the_lowest_bound_are_kept() -> None:
    highest, lowest = ClockSample(2 * S, 100, 50), ClockSample(3 * S, 20, 50)
    others = [ClockSample(1 * S, 60, 200), ClockSample(4 * S, 60, 90)]
    assert best(rows([*others, highest, lowest])).tolist() == [list(highest), list(lowest)]


def test_each_stretch_keeps_its_own() -> None:
    slow = ClockSample(STRETCH_NS + 1, 0, 5000)
    assert best(rows([ClockSample(0, 0, 100), slow])).tolist() == [[0, 0, 100], list(slow)]
    assert len(best(rows([]))) == 0


def test_old_exchanges_become_sparser_than_young_ones() -> None:
    kept = rows([])
    for i in range(0, 5 * MOST_SAMPLES, 8):
        new = [ClockSample(j * 10 * S, 0, 100 + j % 7) for j in range(i, i + 8)]
        kept = thin(np.concatenate([kept, rows(new)]))
        assert len(kept) <= MOST_SAMPLES
    gaps = np.diff(kept[:, 0]) / (10 * S)
    assert kept[0, 0] < 1000 * S
    assert gaps[-100:].max() == 1
    assert gaps[:100].mean() > 3 * gaps[-500:].mean()


def test_slower_of_two_neighbours_goes() -> None:
    samples = [ClockSample(i * 10 * S, 0, 100 if i % 2 else 900) for i in range(100)]
    assert (thin(rows(samples), most=99)[:, 2] == 900).sum() == 25


def test_few_exchanges_are_left_alone() -> None:
    samples = rows([ClockSample(i, 0, 1) for i in range(10)])
    assert thin(samples, most=10) is samples


def pinged(hours: int, seed: int, set_at_s: int = 0) -> Ints:
    """A node's exchanges every ten seconds, with round trips of 100 us and more, at a rate that changes; a
    second ahead from set_at_s on."""
    random = np.random.default_rng(seed)
    at = np.arange(0, hours * 3600, 10)
    rate = 20_000 + np.cumsum(random.normal(0, 20, len(at)))  # ns a second
    rtt = (100_000 + random.exponential(50_000, len(at))).astype(np.int64)
    noise = ((random.random(len(at)) - 0.5) * (rtt - 90_000)).astype(np.int64)
    offset = np.cumsum(10 * rate).astype(np.int64) + noise + UNIX
    offset[at >= (set_at_s or at[-1] + 1)] += S
    return np.column_stack((at * S, offset, rtt))


@pytest.mark.parametrize("set_at_s", [0, 3_000, 9_000])
@pytest.mark.parametrize("seed", range(3))
def test_of_many_exchanges_those_around_a_job_make_its_clock(seed: int, set_at_s: int) -> None:
    samples = pinged(6, seed, set_at_s)
    some = needed(samples, 8_000 * S, 9_800 * S)
    assert len(some) < 240, "of 30 minutes, and two on either side"
    at = np.arange(7_900 * S, 9_900 * S, S)
    whole, kept = NodeClock(samples), NodeClock(some)
    assert np.abs(whole.to_server(at) - kept.to_server(at)).max() <= 1_000
    assert np.abs(whole.error_at(at) - kept.error_at(at)).max() <= 1_000
    assert needed(some, 8_000 * S, 9_800 * S).tolist() == some.tolist()


def test_job_without_an_exchange_keeps_those_before_and_after_it() -> None:
    samples = np.array([(at * S, UNIX, 100) for at in (0, 10, 5_000, 5_010)], np.int64)
    some = needed(samples, 2_000 * S, 2_001 * S)
    assert {10 * S, 5_000 * S} <= set(some[:, 0].tolist())
