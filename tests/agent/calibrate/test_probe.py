from __future__ import annotations

from roofline_agent.calibrate.probe import by_core


def test_clock_of_a_core_is_the_higher_one_of_its_hyperthreads() -> None:
    assert by_core([3e9, 2e9, None, 2.5e9], (0, 0, 2, 2)) == (3e9, 2.5e9)
    assert by_core([3e9, 2e9], (0, 1)) == (3e9, 2e9)
    assert by_core([None, 2e9], (0, 1)) == (None, 2e9)
