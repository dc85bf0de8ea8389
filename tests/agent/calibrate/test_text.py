from __future__ import annotations

from roofline_agent.calibrate.calibration import Calibration, Ceiling, SweepPoint
from roofline_agent.calibrate.text import HEADER, note_lines, row, sweep_lines, theory_lines

PEAK = Ceiling(
    "peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.03, "AVX-512", 7,
    threads=2, median=3.9e11, clock_hz=3.12e9, operation="fma",
)  # fmt: skip
THEORY = PEAK._replace(name="peak.f32.512.theory", value=5e11, provenance=3, median=None)


def test_row_has_value_median_spread_clock_and_cpus() -> None:
    assert row(PEAK).split() == ["peak.f32.512", "400.0", "GFLOP/s", "390.0", "3.0%", "3.12", "GHz", "2"]
    assert HEADER.split() == ["ceiling", "best", "median", "spread", "clock", "CPUs"]


def test_what_is_not_known_is_a_dash() -> None:
    old = PEAK._replace(threads=None, median=None, clock_hz=None)
    assert row(old).split() == ["peak.f32.512", "400.0", "GFLOP/s", "-", "3.0%", "-"]


def test_device_and_unit_of_a_gpu() -> None:
    launch = PEAK._replace(
        name="launch", kind="overhead", device="gpu 0", value=4.2e-6, unit="s", median=4.5e-6
    )
    assert row(launch).split()[:5] == ["gpu", "0", "launch", "4.2", "us"]


def test_theoretical_peak_says_how_much_of_it_was_measured() -> None:
    (line,) = theory_lines(Calibration("node1", "a CPU", 2, 1, (PEAK, THEORY)))
    assert line.endswith("500.0 GFLOP/s  theoretical, of which 80% measured")


def test_sweep_has_a_curve_for_each_operation_stores_and_number_of_cpus() -> None:
    points = [
        SweepPoint("read", False, 2, 16384, 5e11),
        SweepPoint("read", False, 2, 1 << 30, 2.5e10),
        SweepPoint("triad", False, 2, 1 << 30, 2e10),
        SweepPoint("triad", True, 1, 16384, 1e10),
    ]
    lines = list(sweep_lines(points))
    assert [line.split() for line in lines] == [
        ["sweep,", "GB/s,", "2", "CPUs:"],
        ["working", "set", "read", "triad,", "normal"],
        ["16", "KiB", "500.0", "-"],
        ["1024", "MiB", "25.0", "20.0"],
        ["sweep,", "GB/s,", "1", "CPU:"],
        ["working", "set", "triad,", "non-temporal"],
        ["16", "KiB", "10.0"],
    ]


def test_notes_are_told() -> None:
    assert list(note_lines(Calibration("node1", "", 2, 1, (), ("busy",)))) == ["note: busy"]
