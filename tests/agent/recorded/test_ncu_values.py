"""Numbers and units as NVIDIA's profilers print them."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.ncu.values import number, unit


@pytest.mark.parametrize(
    ("printed", "factor", "base"),
    [
        ("byte", 1, "byte"),
        ("Kbyte", 1e3, "byte"),
        ("Gbyte", 1e9, "byte"),
        ("KiB", 1024, "byte"),
        ("nsecond", 1e-9, "s"),
        ("usecond", 1e-6, "s"),
        ("ms", 1e-3, "s"),
        ("s", 1, "s"),
        ("second", 1, "s"),
        ("hz", 1, "Hz"),
        ("Ghz", 1e9, "Hz"),
        ("cycle/nsecond", 1e9, "Hz"),
        ("cycle/second", 1, "Hz"),
        ("Gbyte/second", 1e9, "byte/s"),
        ("Tbyte/s", 1e12, "byte/s"),
        ("byte/us", 1e6, "byte/s"),
        ("Kbyte/block", 1e3, "byte/block"),
        ("%", 0.01, "1"),
        ("", 1, "1"),
        ("inst", 1, "inst"),
        ("register/thread", 1, "register/thread"),
    ],
)
def test_units(printed: str, factor: float, base: str) -> None:
    assert unit(printed) == (pytest.approx(factor), base)


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("5,318,969,728.00", 5_318_969_728.0),
        ("1,234", 1234.0),
        ("0.00", 0.0),
        ("-3.5e-7", -3.5e-7),
        ("12 (4; 8)", 12.0),
        ("", None),
        ("n/a", None),
        ("no data", None),
        ("(!) nan", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("12,34", None),
        ("1,2,3", None),
        ("PolicySpread", None),
        ("0x1f", None),
    ],
)
def test_numbers(printed: str, value: float | None) -> None:
    assert number(printed) == value


def test_numbers_with_decimal_commas() -> None:
    assert number("1.234.567,89", decimal_comma=True) == pytest.approx(1_234_567.89)
    assert number("12,5", decimal_comma=True) == pytest.approx(12.5)
