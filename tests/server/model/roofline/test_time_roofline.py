"""Check values: Wang et al. 2020, tables I and II (V100)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.roofline.time_roofline import (
    COMPUTE,
    MEMORY,
    MOST_DECADES,
    OVERHEAD,
    Peaks,
    Work,
    corner,
    isocurves,
    least_time,
    overhead_box,
    place,
    words,
)

TENSOR = 80 * 8 * 1.312e9 * 4**3 * 2  # SMs x tensor cores x clock x multiply-adds of a 4x4x4 product x 2
HBM = 828.8e9
V100 = Peaks(TENSOR, HBM, 4.2e-6)


def test_the_papers_v100() -> None:
    assert pytest.approx(107.479e12, rel=1e-5) == TENSOR
    assert V100.balance == pytest.approx(129.68, abs=0.005)


def test_one_launch_of_a_v100_hides_half_a_gflop() -> None:
    box = overhead_box(1, V100, "1 launch")
    assert box is not None
    # The paper says 0.445; 4.2 us at 107.479 TFLOP/s are 0.451.
    assert box.flops == pytest.approx(0.445e9, rel=0.02)
    assert box.bytes == pytest.approx(4.2e-6 * 828.8e9)


def test_compute_bound_work_has_all_its_time_as_compute_time() -> None:
    found = place(Work(flops=2 * 129.68e9, bytes=1e9, seconds=0.01, launches=1), V100._replace(launch=None))
    assert (found.compute_time, found.bound) == (0.01, COMPUTE)
    assert found.bandwidth_time == pytest.approx(0.01 / 2, rel=1e-4)
    assert found.flops == pytest.approx(0.01 * TENSOR)
    assert found.bytes == pytest.approx(0.005 * HBM, rel=1e-4)


def test_memory_bound_work_has_all_its_time_as_bandwidth_time() -> None:
    found = place(Work(flops=129.68e9 / 4, bytes=1e9, seconds=0.01, launches=1), V100._replace(launch=None))
    assert (found.bandwidth_time, found.bound) == (0.01, MEMORY)
    assert found.compute_time == pytest.approx(0.01 / 4, rel=1e-4)


def test_at_the_balance_both_times_agree() -> None:
    found = place(Work(flops=V100.balance * 1e9, bytes=1e9, seconds=0.01, launches=1), V100)
    assert found.bandwidth_time == pytest.approx(found.compute_time) == pytest.approx(0.01)


def test_work_at_the_roof_lies_upon_its_complexity() -> None:
    peaks = Peaks(1e12, 1e11)
    for flops, traffic in ((1e9, 1e9), (1e12, 1e9)):
        work = Work(flops, traffic, max(flops / 1e12, traffic / 1e11), 1)
        found = place(work, peaks)
        assert (found.flops, found.bytes) == (pytest.approx(flops), pytest.approx(traffic))


def test_what_takes_no_longer_than_its_launches_is_bound_by_them() -> None:
    peaks = Peaks(1e12, 1e11, 1e-5)
    assert place(Work(1e3, 1e3, 9e-5, 10), peaks).bound == OVERHEAD
    assert place(Work(1e3, 1e3, 1.1e-4, 10), peaks).bound == MEMORY
    assert place(Work(1e3, 1e3, 9e-5, 10), peaks._replace(launch=None)).bound == MEMORY


POSITIVE = st.floats(1e-3, 1e15)
PEAKS = st.builds(Peaks, st.floats(1e6, 1e16), st.floats(1e6, 1e14), st.floats(1e-9, 1e-3) | st.none())
WORKS = st.builds(Work, POSITIVE, POSITIVE, st.floats(1e-9, 1e4), st.integers(1, 10**6))


@given(WORKS, PEAKS)
def test_laws_of_the_open_symbol(work: Work, peaks: Peaks) -> None:
    found = place(work, peaks)
    assert max(found.bandwidth_time, found.compute_time) == work.seconds
    # On the line of its own intensity, so on the same side of the diagonal.
    assert found.flops / found.bytes == pytest.approx(work.flops / work.bytes, rel=1e-6)
    # As far out as it takes longer than the roof allows.
    assert found.flops / work.flops == pytest.approx(work.seconds / least_time(work, peaks), rel=1e-6)
    if found.bound == OVERHEAD:
        box = overhead_box(int(work.launches), peaks, "")
        assert box is not None
        assert found.bytes <= box.bytes * (1 + 1e-9) and found.flops <= box.flops * (1 + 1e-9)


@given(WORKS, PEAKS, st.integers(2, 1000))
def test_of_a_step_or_of_all_steps_is_the_same(work: Work, peaks: Peaks, times: int) -> None:
    one, all_ = place(work, peaks), place(Work(*(times * x for x in work)), peaks)
    assert all_.flops == pytest.approx(times * one.flops)
    assert all_.bytes == pytest.approx(times * one.bytes)


@given(st.lists(st.floats(1e-9, 1e5), min_size=1, max_size=9), PEAKS)
def test_isocurves_enclose_what_takes_so_long_a_decade_apart(seconds: list[float], peaks: Peaks) -> None:
    found = isocurves(seconds, peaks, (1.0, 1.0))
    assert 1 <= len(found) <= MOST_DECADES
    assert found[-1].seconds >= max(seconds) * (1 - 1e-9)
    for curve in found:
        assert curve.bytes[1] == curve.bytes[2] == pytest.approx(curve.seconds * peaks.bytes)
        assert curve.flops[0] == curve.flops[1] == pytest.approx(curve.seconds * peaks.flops)
        assert curve.bytes[0] < curve.bytes[1] and curve.flops[2] < curve.flops[1]
    ratios = [b.seconds / a.seconds for a, b in itertools.pairwise(found)]
    assert ratios == pytest.approx([10.0] * len(ratios))


def test_without_a_time_above_zero_there_are_no_isocurves() -> None:
    assert isocurves([0.0, -1.0], V100, corner([], [])) == []


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (Work(1e12, 1e6, 2.0, 1), "bound by computing, at 50 % of the peak FLOP/s"),
        (Work(1e3, 1e11, 1.0, 1), "bound by moving data, at 100 % of the peak bandwidth: move less"),
        (Work(1e12, 1e6, 5.0, 1), "5 times faster would be possible"),
        (Work(1e12, 1e6, 0.5, 1), "2 times what the peak FLOP/s allows"),
        (Work(1e12, 1e6, 400.0, 1), "400 times slower than the peak FLOP/s allows: something else"),
        (Work(1e3, 1e3, 1e-5, 3), "bound by launching"),
    ],
)
def test_words_say_what_decides_and_how_far_it_is_from_the_roof(work: Work, said: str) -> None:
    peaks = Peaks(1e12, 1e11, 1e-5)
    assert said in words(work, peaks, place(work, peaks))


def test_ranks_that_have_the_peaks_together_are_held_against_their_parts() -> None:
    peaks = Peaks(1e12, 1e11)
    work = Work(1e12, 1e6, 16.0, 1)
    assert words(work, peaks, place(work, peaks)).startswith("16 times slower")
    said = words(work, peaks, place(work, peaks), 16)
    assert said.startswith("bound by computing, at 100 % of its part (1/16) of the shared peak FLOP/s:")


def test_between_near_and_far_nobody_knows_what_holds_it_back() -> None:
    peaks = Peaks(1e12, 1e11)
    work = Work(1e12, 1e6, 9.0, 1)
    assert words(work, peaks, place(work, peaks)).startswith("at best bound by computing, at 11 % of")
