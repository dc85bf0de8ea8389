from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.calibrate.calibration import SweepPoint
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Cache, Hardware
from roofline_agent.calibrate.levels import beyond_caches, cache_levels, dips, of_dram, seen_end, sweep_sizes
from roofline_agent.calibrate.runs import NORMAL, QUICK

KIB, MIB = 1 << 10, 1 << 20


def machine(cache_mib: int | None, available_mib: int) -> Hardware:
    caches = () if cache_mib is None else (Cache(3, cache_mib * MIB, frozenset({0, 1})),)
    return Hardware("node1", "a CPU", frozenset({"sse2"}), (0, 1), caches, available_mib * MIB)


def caches(cpus: int, l1: int, l2: int, l3: int) -> tuple[Cache, ...]:
    """L1 and L2 of each CPU, an L3 of all."""
    own = [Cache(level, size, frozenset({cpu})) for level, size in ((1, l1), (2, l2)) for cpu in range(cpus)]
    return (*own, Cache(3, l3, frozenset(range(cpus))))


def test_working_set_is_four_times_the_caches() -> None:
    chosen = beyond_caches(machine(480, 24_000), NORMAL, (0, 1))
    assert chosen.size == 1920 * MIB
    assert chosen.description == "working set 1920 MiB, 4.0 x the last-level caches of 480 MiB"


def test_working_set_takes_no_more_than_a_quarter_of_the_free_memory_and_says_what_that_means() -> None:
    chosen = beyond_caches(machine(480, 4_000), NORMAL, (0, 1))
    assert chosen.size == 1000 * MIB
    assert chosen.description.endswith("2.1 x the last-level caches of 480 MiB, may contain cache hits")


def test_too_little_memory_measures_nothing_and_says_so() -> None:
    with pytest.raises(CalibrationError, match="only 7 MiB of memory are free"):
        beyond_caches(machine(480, 7), NORMAL, (0, 1))


def test_memory_that_fits_into_the_caches_is_no_working_set_of_dram_and_says_what_to_do() -> None:
    chosen = beyond_caches(machine(480, 512), NORMAL, (0, 1))
    assert chosen.size == 128 * MIB
    assert "fit into the last-level caches of 480 MiB; calibrate with over 1920 MiB" in chosen.reason
    assert not beyond_caches(machine(480, 4_000), NORMAL, (0, 1)).reason
    assert not beyond_caches(machine(480, 24_000), QUICK, (0, 1)).reason, "rough, and says so"


def test_small_caches_still_get_a_working_set_worth_timing() -> None:
    assert beyond_caches(machine(2, 4_000), NORMAL, (0, 1)).size == 128 * MIB


def test_unknown_caches_are_said_to_be_unknown() -> None:
    chosen = beyond_caches(machine(None, 64_000), NORMAL, (0, 1))
    assert chosen.size == 2048 * MIB
    assert "the system does not tell its caches, may contain cache hits" in chosen.description


def test_quick_plan_says_that_it_may_hit_caches() -> None:
    assert beyond_caches(machine(480, 24_000), QUICK, (0, 1)).description.endswith("may contain cache hits")


def test_working_sets_lie_inside_their_level_and_well_beyond_the_one_within() -> None:
    l1, l2, l3 = cache_levels(caches(2, 48 * KIB, 2 * MIB, 480 * MIB), (0, 1))
    assert (l1.name, l1.share_bytes, l1.working_set) == ("l1", 48 * KIB, 24 * KIB)
    assert (l2.name, l2.share_bytes, l2.working_set) == ("l2", 2 * MIB, 288 * KIB)
    assert (l3.name, l3.share_bytes, l3.working_set) == ("l3", 240 * MIB, 12 * MIB)


def test_cache_that_many_share_has_no_level_of_its_own_for_all_at_once() -> None:
    shared = caches(32, 48 * KIB, 2 * MIB, 60 * MIB)
    *_, l3 = cache_levels(shared, range(32))
    assert l3.working_set == 0
    assert l3.reason == "its 1920 KiB a CPU hardly exceed the 2048 KiB within"
    *_, l3_of_one = cache_levels(shared, (0,))
    assert l3_of_one.working_set == 12 * MIB


def test_no_caches_no_levels() -> None:
    assert cache_levels((), (0,)) == ()


@given(st.integers(64 << 10, 8 << 30), st.integers(1, 3))
def test_sweep_goes_up_from_8_kib_to_the_largest(largest: int, per_octave: int) -> None:
    sizes = sweep_sizes(largest, per_octave)
    assert sizes[0] == 8 * KIB
    assert sizes[-1] == largest
    assert sizes == sorted(sizes)


def curve(rates: dict[int, float]) -> list[SweepPoint]:
    return [SweepPoint("read", False, 2, mib * MIB, rate) for mib, rate in rates.items()]


def test_last_level_that_ends_early_is_seen() -> None:
    *_, l3 = cache_levels(caches(2, 48 * KIB, 2 * MIB, 480 * MIB), (0, 1))
    points = curve({8: 60.0, 32: 55.0, 64: 50.0, 128: 34.0, 512: 30.0, 1920: 28.0})
    assert seen_end(points, l3) == 64 * MIB
    as_stated = curve({8: 60.0, 32: 55.0, 64: 54.0, 256: 53.0, 512: 30.0, 1920: 28.0})
    assert seen_end(as_stated, l3) is None
    not_told_apart = curve({8: 60.0, 32: 30.0, 64: 30.0, 1920: 28.0})
    assert seen_end(not_told_apart, l3) is None


def test_only_the_last_level_is_told_from_dram_and_only_by_a_sweep_that_reaches_it() -> None:
    found = cache_levels(caches(2, 48 * KIB, 2 * MIB, 480 * MIB), (0, 1))
    points = curve({8: 60.0, 1920: 28.0})
    assert of_dram(points, "read", found[-1], found) == 28.0
    assert of_dram(points, "read", found[1], found) is None
    assert of_dram(points[:1], "read", found[-1], found) is None
    assert of_dram(points, "copy", found[-1], found) is None


@pytest.mark.parametrize("cpus", [(0,), (0, 1)])
def test_machine_whose_caches_are_unknown_still_has_a_working_set(cpus: tuple[int, ...]) -> None:
    assert beyond_caches(machine(None, 1_000), NORMAL, cpus).size == 250 * MIB


def test_points_below_both_neighbours_are_dips() -> None:
    def curve(*values: float) -> list[SweepPoint]:
        return [SweepPoint("read", False, 2, 4096 << k, value) for k, value in enumerate(values)]

    assert dips(curve(100, 90, 1, 80, 40, 39)) == [2]
    assert dips(curve(100, 99, 50, 49, 10, 11)) == []  # levels, one below the other
    assert dips(curve(1, 100)) == []


def test_no_size_of_a_sweep_comes_twice() -> None:
    for per_octave in (1, 2):
        sizes = sweep_sizes(1 << 20, per_octave)
        assert sizes == sorted(set(sizes))
