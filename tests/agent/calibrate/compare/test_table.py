from __future__ import annotations

import pytest
from roofline_agent.calibrate.calibration import Calibration, Ceiling, SweepPoint
from roofline_agent.calibrate.compare.table import ComparisonRow, Theirs, compare, lines


def ceiling(name: str, value: float) -> Ceiling:
    compute = name.startswith("peak")
    unit = "FLOP/s" if compute else "byte/s"
    return Ceiling(name, "compute" if compute else "memory", "", "", 0, value, unit, 0.0, "how", 1)


OURS = Calibration(
    "node1",
    "a CPU",
    2,
    1,
    (
        ceiling("peak.f64.256", 110e9),
        ceiling("peak.f64.512", 190e9),
        ceiling("peak.f64.512.one", 100e9),
        ceiling("peak.f64.512.theory", 200e9),
        ceiling("peak.f64.512.mul_add", 95e9),
        ceiling("l2.read", 280e9),
        ceiling("l2.copy", 160e9),
        ceiling("l2.triad", 200e9),
        ceiling("dram.read", 30e9),
        ceiling("dram.copy", 38e9),
        ceiling("dram.triad", 40e9),
    ),
    (),
    (
        SweepPoint("triad", False, 2, 1 << 20, 200e9),
        SweepPoint("triad", False, 2, 1 << 31, 25e9),
        SweepPoint("triad", False, 1, 1 << 31, 13e9),
    ),
)


def theirs(name: str, stores: str = "") -> Theirs:
    return Theirs(name, 20e9, "FLOP/s" if name.startswith("peak") else "byte/s", "a tool", stores)


@pytest.mark.parametrize(
    ("name", "answer", "value"),
    [
        ("dram.triad", "dram.triad", 40e9),
        ("dram.scale", "dram.copy", 38e9),  # one array read, one written
        ("dram.add", "dram.triad", 40e9),  # two read, one written
        ("l2.ert", "l2.triad", 200e9),  # the best that reads and writes
        ("peak.f64", "peak.f64.512", 190e9),  # the best of all widths, of all CPUs, measured
        ("peak.f64.256", "peak.f64.256", 110e9),
        ("peak.f64.512.one", "peak.f64.512.one", 100e9),
        ("peak.f64.fma", "peak.f64.512", 190e9),
    ],
)
def test_what_answers_to_theirs(name: str, answer: str, value: float) -> None:
    (row,) = compare(OURS, [theirs(name)])
    assert (row.name, row.ours) == (answer, value)
    assert row.ratio == pytest.approx(value / 20e9)


@pytest.mark.parametrize("name", ["dram.dot", "hbm.triad", "peak.f16", "l3.read"])
def test_what_we_have_nothing_for_has_no_ratio(name: str) -> None:
    (row,) = compare(OURS, [theirs(name)])
    assert (row.name, row.ours, row.ratio) == (name, None, None)


def test_normal_stores_are_compared_with_normal_stores_of_all_cpus() -> None:
    (row,) = compare(OURS, [theirs("dram.triad", "normal")])
    assert (row.name, row.ours) == ("dram.triad (normal stores)", 25e9)
    (none,) = compare(OURS._replace(sweep=()), [theirs("dram.triad", "normal")])
    assert none.ours is None


def test_zero_is_nothing_to_compare_with() -> None:
    assert compare(OURS, [theirs("dram.triad")._replace(value=0.0)]) == []


def test_table_says_both_values_their_ratio_and_whose_it_is() -> None:
    text = list(
        lines(
            [
                ComparisonRow("dram.triad", 40e9, 38.5e9, "byte/s", "STREAM"),
                ComparisonRow("dram.dot", None, 30e9, "byte/s", "BabelStream"),
            ]
        )
    )
    assert text[0].split()[:5] == ["ceiling", "ours", "theirs", "unit", "ratio"]
    assert text[1].split() == ["dram.triad", "40.0", "38.5", "GB/s", "1.04", "STREAM"]
    assert text[2].split() == ["dram.dot", "-", "30.0", "GB/s", "-", "BabelStream"]
