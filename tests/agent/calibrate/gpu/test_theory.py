"""Theoretical peaks against numbers that were published, and what is not known is not made up."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_agent.calibrate.gpu.theory import peak_bytes, peak_flops, theoretical
from roofline_agent.records import Provenance

V100 = {
    "number": 2,
    "name": "Tesla V100-SXM2-16GB",
    "capability": [7, 0],
    "cores": 5120,
    "sm_clock_hz": 1.312e9,
    "memory_clock_hz": 877e6,
    "bus_bits": 4096,
}
H100 = {
    "number": 0,
    "capability": [9, 0],
    "cores": 132 * 128,
    "sm_clock_hz": 1.83e9,
    "memory_clock_hz": 2619e6,
    "bus_bits": 5120,
}


def peaks(facts: dict[str, Any]) -> dict[str, float]:
    return {one.name: one.value for one in theoretical(facts, 7)}


def test_check_values_of_the_v100() -> None:
    assert peak_flops(80, 8 * 64, 1.312e9) == pytest.approx(107.479e12, rel=1e-5)
    assert peak_flops(80, 64, 1.48e9) == pytest.approx(15.16e12, rel=1e-3)
    assert peak_bytes(4096, 877e6) == pytest.approx(898e9, rel=1e-3)
    assert peaks(V100)["peak.f16.theory"] == pytest.approx(107.479e12, rel=1e-5)


def test_data_sheet_of_the_h100() -> None:
    """Dense peaks at 1.83 GHz, 132 SMs: 989, 494, 1979 and 67 TFLOP/s, 3.35 TB/s."""
    found = peaks(H100)
    assert found["peak.f16.theory"] == found["peak.bf16.theory"] == pytest.approx(989e12, rel=1e-3)
    assert found["peak.tf32.theory"] == pytest.approx(494.7e12, rel=1e-3)
    assert found["peak.f8_e4m3.theory"] == pytest.approx(1979e12, rel=1e-3)
    assert found["peak.f32.theory"] == found["peak.f64.theory"] == pytest.approx(61.8e12, rel=1e-3)
    assert found["hbm.theory"] == pytest.approx(3.35e12, rel=1e-3)


def test_theory_is_never_taken_for_measured() -> None:
    for one in theoretical(V100, 7):
        assert one.provenance == Provenance.ANALYTIC
        assert one.name.endswith(".theory") and "not measured" in one.method
        assert (one.device, one.time_ns, one.median) == ("gpu 2", 7, None)


@pytest.mark.parametrize("missing", ["capability", "cores", "sm_clock_hz", "memory_clock_hz", "bus_bits"])
def test_what_the_driver_does_not_say_is_left_out(missing: str) -> None:
    found = peaks({**V100, missing: None})
    memory = missing in ("memory_clock_hz", "bus_bits")
    assert ("hbm.theory" in found) is not memory
    assert any(name.startswith("peak.") for name in found) is memory


def test_gpu_of_tomorrow_has_no_peaks_but_its_memory() -> None:
    assert list(peaks({**H100, "capability": [99, 0]})) == ["hbm.theory"]
