from __future__ import annotations

import pytest
from roofline_agent.calibrate.dram import choose_working_set, triad_elements
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.runs import FULL, QUICK

MIB = 1 << 20


def machine(cache_mib: int | None, available_mib: int) -> Machine:
    cache = None if cache_mib is None else cache_mib * MIB
    return Machine("node1", "a CPU", frozenset({"sse2"}), (0, 1), cache, available_mib * MIB)


def test_working_set_is_four_times_the_caches() -> None:
    chosen = choose_working_set(machine(480, 24_000), FULL)
    assert chosen.size == 1920 * MIB
    assert chosen.description == "working set 1920 MiB, 4.0 x the last-level caches of 480 MiB"


def test_working_set_takes_no_more_than_a_quarter_of_the_free_memory_and_says_what_that_means() -> None:
    chosen = choose_working_set(machine(480, 4_000), FULL)
    assert chosen.size == 1000 * MIB
    assert chosen.description.endswith("2.1 x the last-level caches of 480 MiB, may contain cache hits")


def test_small_caches_still_get_a_working_set_worth_timing() -> None:
    assert choose_working_set(machine(2, 4_000), FULL).size == 128 * MIB


def test_unknown_caches_are_said_to_be_unknown() -> None:
    chosen = choose_working_set(machine(None, 64_000), FULL)
    assert chosen.size == 2048 * MIB
    assert "the system does not tell its caches, may contain cache hits" in chosen.description


def test_quick_plan_says_that_it_may_hit_caches() -> None:
    assert choose_working_set(machine(480, 24_000), QUICK).description.endswith("may contain cache hits")


@pytest.mark.parametrize("share", [1 << 16, (48 << 20) // 7 // 64 * 64, 960 * MIB])
def test_three_arrays_fit_into_a_share_and_fill_it(share: int) -> None:
    elements = triad_elements(share)
    assert elements % 8 == 0  # so that the next array starts on a cache line
    used = 3 * 8 * elements
    assert share - 4096 < used <= share - 2 * 17 * 64
