from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.roofline import HIGHEST_INTENSITY, LOWEST_INTENSITY, Roof, lines, make_roof
from roofline_server.records import Ceiling

from ..builders import DRAM, PEAK_F32, PEAK_F64

GIB = 2.0**30
RATES = st.floats(1e6, 1e16)


def compute(value: float, precision: str = "f32", width: int = 256) -> Ceiling:
    return Ceiling(f"peak.{precision}.{width}", "compute", "", precision, width, value, "FLOP/s", 0, "", 0)


def memory(value: float, level: str = "dram") -> Ceiling:
    return Ceiling(f"{level}.triad", "memory", level, "", 0, value, "byte/s", 0, "", 0)


def roof(peak: float, bandwidth: float) -> Roof:
    made = make_roof("node1", [compute(peak), memory(bandwidth)])
    assert made
    return made


def test_machine_of_the_seed_paper() -> None:
    # 2 sockets x 12 cores x 3.7 GHz x 8 single precision FLOP a cycle, STREAM 119.21 GiB/s.
    paper = roof(2 * 12 * 3.7e9 * 8, 119.21 * GIB)
    assert paper.compute.value == pytest.approx(710.4e9)
    assert paper.ridge == pytest.approx(710.4 / (119.21 * 1.073741824))
    assert paper.attainable(2.0) == pytest.approx(2 * 119.21 * GIB)
    assert paper.attainable(4.2) == pytest.approx(4.2 * 119.21 * GIB)
    assert paper.attainable(100) == pytest.approx(710.4e9)


def test_v100_of_the_time_based_roofline_paper() -> None:
    assert roof(107.479e12, 828.8e9).ridge == pytest.approx(129.68, rel=1e-4)


@given(RATES, RATES, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_attainable_never_falls_with_intensity(
    peak: float, bandwidth: float, one: float, other: float
) -> None:
    lower, upper = sorted((one, other))
    assert roof(peak, bandwidth).attainable(lower) <= roof(peak, bandwidth).attainable(upper)


@given(RATES, RATES, st.floats(1e-6, 1e6))
def test_attainable_is_under_both_ceilings_and_on_one(
    peak: float, bandwidth: float, intensity: float
) -> None:
    made = roof(peak, bandwidth)
    reached = made.attainable(intensity)
    assert reached <= peak
    assert reached <= intensity * bandwidth
    assert reached in (peak, intensity * bandwidth)


@given(RATES, RATES)
def test_attainable_is_continuous_at_the_ridge(peak: float, bandwidth: float) -> None:
    made = roof(peak, bandwidth)
    assert made.attainable(made.ridge * (1 - 1e-9)) == pytest.approx(peak, rel=1e-8)
    assert made.attainable(made.ridge * (1 + 1e-9)) == pytest.approx(peak, rel=1e-8)


@given(RATES, RATES)
def test_memory_binds_left_of_the_ridge_and_compute_right(peak: float, bandwidth: float) -> None:
    made = roof(peak, bandwidth)
    assert made.binding(made.ridge * 0.99).kind == "memory"
    assert made.binding(made.ridge * 1.01).kind == "compute"


def test_highest_ceilings_make_the_roof() -> None:
    made = make_roof(
        "n", [compute(1e9), compute(3e9), compute(2e9), memory(1e8), memory(5e8), memory(1e12, "l1")]
    )
    assert made
    assert (made.compute.value, made.memory.value) == (3e9, 5e8)


def test_roof_is_of_the_precision_asked_for() -> None:
    ceilings = [PEAK_F32, PEAK_F64, DRAM]
    found = [make_roof("n", ceilings, p) for p in ("f32", "f64", "bf16", "")]
    assert [r.compute.name if r else None for r in found] == ["peak.f32.512", "peak.f64.512", None, None]


@pytest.mark.parametrize(
    "ceilings",
    [
        [],
        [PEAK_F32],
        [DRAM],
        [compute(0), DRAM],
        [compute(math.nan), DRAM],
        [compute(math.inf), DRAM],
        [PEAK_F32, memory(1, "l1")],
    ],
)
def test_without_both_ceilings_there_is_no_roof(ceilings: list[Ceiling]) -> None:
    assert make_roof("n", ceilings) is None


def test_lines_meet_at_the_ridge() -> None:
    made = make_roof("n", [PEAK_F32, DRAM])
    assert made
    slope, flat = lines([PEAK_F32, DRAM], made)
    assert slope.intensity == (LOWEST_INTENSITY, made.ridge)
    assert slope.flops == (LOWEST_INTENSITY * DRAM.value, pytest.approx(PEAK_F32.value))
    assert flat.intensity == (made.ridge, HIGHEST_INTENSITY)
    assert flat.flops == (PEAK_F32.value, PEAK_F32.value)
    assert slope.binding
    assert flat.binding


def test_lower_ceilings_are_drawn_but_do_not_bind() -> None:
    ceilings = [compute(1e9), compute(4e9), memory(1e8), memory(1e10, "l2")]
    drawn = {line.ceiling.value: line for line in lines(ceilings, make_roof("n", ceilings))}
    assert {value for value, line in drawn.items() if line.binding} == {4e9, 1e8}
    assert drawn[1e9].intensity[0] == pytest.approx(0.1)


def test_lines_without_a_roof_bind_nothing() -> None:
    assert [line.binding for line in lines([DRAM], None)] == [False]
    assert lines([], None) == []
