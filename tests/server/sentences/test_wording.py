"""Numbers in sentences: three digits, never a power of ten, one of a thing is no plural."""

from __future__ import annotations

import pytest
from roofline_server.sentences.wording import are, duration, many, number, quantity


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (0.02, "0.02"), (31.25, "31.2"), (999.9, "1,000"), (3052.4, "3,052")]
)
def test_number_has_no_power_of_ten(amount: float, text: str) -> None:
    assert number(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"),
        (8e-8, "80 ns"),
        (0.0000521, "52.1 us"),
        (9.997e-4, "1 ms"),
        (0.0521, "52.1 ms"),
        (0.9994, "999 ms"),
        (0.9997, "1 s"),
        (1.5, "1.5 s"),
        (119.5, "120 s"),
        (119.99, "2 min"),
        (1234.5, "20.6 min"),
        (4.5e6, "1,250 h"),
    ],
)
def test_duration_has_no_power_of_ten(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rate_has_its_prefix() -> None:
    assert quantity(1.5e12, "FLOP/s") == "1.5 TFLOP/s"
    assert quantity(4_000.0, "FLOP/byte") == "4,000 FLOP/byte"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1, "1 launch"),
        (0.1 * 3 / 0.3, "1 launch"),
        (1.5, "1.5 launches"),
        (0, "0 launches"),
        (12_000, "12,000 launches"),
    ],
)
def test_one_is_no_plural(amount: float, text: str) -> None:
    assert many(amount, "launch") == text
    assert many(2, "kernel") == "2 kernels"
    assert (are(1, "launch"), are(0.3, "launch")) == ("1 launch is", "0.3 launches are")
