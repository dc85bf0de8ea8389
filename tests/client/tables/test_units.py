"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_client.tables import units

from ..reports import absent, seen

UNITS = ("s", "byte", "byte/s", "FLOP", "FLOP/s", "FLOP/byte", "1", "examples/s")
PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
PREFIXES.update({"min": 60.0, "h": 3600.0})
PREFIXES.update({"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "": 1.0})


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0, "s", "0 ns"),
        (1.5, "s", "1.5 s"),
        (0.0652, "s", "65.2 ms"),
        (4e-6, "s", "4 us"),
        (2.5e-8, "s", "25 ns"),
        (6e-18, "s", "<1 ns"),
        (-0.0652, "s", "-65.2 ms"),
        (0, "byte", "0 B"),
        (1023, "byte", "1023 B"),
        (1.5 * 2**20, "byte", "1.5 MiB"),
        (3 * 2**40, "byte", "3 TiB"),
        (-2048, "byte", "-2 KiB"),
        (12.5e9, "byte/s", "12.5 GB/s"),
        (4.32e9, "FLOP", "4.32 GFLOP"),
        (999, "FLOP", "999 FLOP"),
        (2e12, "FLOP/s", "2 TFLOP/s"),
        (3.2e18, "FLOP/s", "3200 PFLOP/s"),
        (0, "FLOP/s", "0 FLOP/s"),
        (1373.3, "FLOP/byte", "1373.3"),
        (0.25, "FLOP/byte", "0.25"),
        (60, "1", "60"),
        (1.93, "1", "1.93"),
        (0, "1", "0"),
        (0.003, "1", "0.003"),
        (-0.25, "1", "-0.25"),
        (12.345, "1", "12.35"),
        (-12345.6, "examples/s", "-12345.6"),
        (245.4, "examples/s", "245.4"),
        (12345.6, "examples/s", "12345.6"),
    ],
)
def test_number(amount: float, unit: str, text: str) -> None:
    assert units.number(amount, unit) == text


@pytest.mark.parametrize("unit", UNITS)
def test_absent_is_a_dash_and_zero_is_not(unit: str) -> None:
    assert units.show(None) == units.show(absent(unit)) == "-"
    assert units.share(None) == units.share(absent(unit)) == "-"
    assert units.show(seen(0.0, unit)).split()[0] == "0"
    assert units.share(seen(0.0, "1")) == "0.0%"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.078, 0.09, "78 to 90 ms"), (980e-6, 0.0012, "980 us to 1.2 ms"), (0.0, 0.09, "at most 90 ms")],
)
def test_between(low: float, high: float, text: str) -> None:
    assert units.between(low, high, "s") == text


def test_share() -> None:
    assert units.share(seen(0.1234, "1")) == "12.3%"
    assert units.share(seen(1.0, "1")) == "100.0%"


def amount_of(text: str, unit: str) -> float:
    number, _, name = text.partition(" ")
    base = {"s": "s", "byte": "B", "byte/s": "B/s", "FLOP": "FLOP", "FLOP/s": "FLOP/s"}.get(unit, "")
    return float(number) * PREFIXES[name.removesuffix(base)]


def magnitudes(lowest: int, highest: int) -> st.SearchStrategy[float]:
    """Amounts of every size alike; plain floats would nearly all be large."""
    mantissas = st.integers(1000, 9999)
    return st.builds(
        lambda digits, exponent: digits * 10.0 ** (exponent - 3),
        mantissas,
        st.integers(lowest, highest - 1),
    )


@given(
    unit=st.sampled_from([u for u in UNITS if u != "1"]),
    amount=magnitudes(-9, 18),
    sign=st.sampled_from((1, -1)),
)
def test_text_is_the_number_to_three_digits(unit: str, amount: float, sign: int) -> None:
    text = units.show(seen(sign * amount, unit))
    assert amount_of(text, unit) == pytest.approx(sign * amount, rel=6e-3)


@given(amount=magnitudes(-9, 18))
def test_dimensionless_text_is_the_number_to_three_digits(amount: float) -> None:
    assert amount_of(units.show(seen(amount, "1")), "1") == pytest.approx(amount, rel=6e-3)


@given(unit=st.sampled_from([u for u in UNITS if u != "s"]), amount=magnitudes(-3, 16))
def test_no_power_of_ten_is_left_to_the_reader(unit: str, amount: float) -> None:
    assert re.search(r"\de[+-]", units.show(seen(amount, unit))) is None


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.9999, "1 s"),
        (119, "119 s"),
        (120, "2 min"),
        (1234.5, "20.6 min"),
        (-1234.5, "-20.6 min"),
        (86400, "24 h"),
        (3.6e6, "1000 h"),
    ],
)
def test_long_time_is_no_power_of_ten(amount: float, text: str) -> None:
    assert units.number(amount, "s") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0022, "0.0022"),
        (1.4, "1.4"),
        (45.67, "45.7"),
        (404.4, "404"),
        (22484.0, "22,484"),
        (1e-5, "0.00001"),
    ],
)
def test_rate(amount: float, text: str) -> None:
    assert units.rate(seen(amount, "examples/s")) == f"{text} examples/s"


@pytest.mark.parametrize(("amount", "text"), [(1.5312, "x1.53"), (0.8, "x0.8"), (1234.4, "x1234"), (1, "x1")])
def test_factor_has_no_power_of_ten(amount: float, text: str) -> None:
    assert units.factor(amount) == text
