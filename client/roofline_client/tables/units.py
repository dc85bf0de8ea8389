"""Numbers and moments as people read them: 4.32 GFLOP, 65.2 ms, 20.6 min, 1.2 MiB, 14:03:59.120."""

from __future__ import annotations

import math
import time

from roofline.answers.values import Value
from roofline.texts import BINARY_PREFIXES, PREFIXES, in_unit


def show(value: Value | None) -> str:
    """A value with its unit; "-" when it is absent."""
    if value is None or value.value is None:
        return "-"
    return number(value.value, value.unit)


def number(amount: float, unit: str) -> str:
    """A number in a unit, scaled for reading."""
    if unit == "s":
        if 0 < amount < 0.9995e-9:
            return "<1 ns"
        scaled, name = in_unit(amount)
        return f"{_plain(scaled, 3)} {name}"
    if unit == "byte":
        return _scaled(amount, "B", BINARY_PREFIXES)
    if unit == "byte/s":
        return _scaled(amount, "B/s", PREFIXES)
    if unit == "1/s":
        return _scaled(amount, "", PREFIXES).strip() + "/s"
    if unit in ("FLOP", "FLOP/s", "FLOP/J", "Hz", "J", "W"):
        return _scaled(amount, unit, PREFIXES)
    if unit == "1":
        # Counts whole, shares and small means to three digits: 60, 1.93, 0.003.
        if float(amount).is_integer():
            return f"{amount:.0f}"
        return _plain(amount, 3) if abs(amount) < 10 else f"{amount:.2f}"
    return _plain(amount, 4) if abs(amount) < 1000 else f"{amount:.1f}"


def rate(value: Value) -> str:
    """Examples/s: "22,484 examples/s", "1.4 examples/s", "0.0022 examples/s"."""
    amount = value.value or 0.0
    shown = f"{amount:,.0f}" if amount >= 100 else _plain(amount, 3)
    return f"{shown} {value.unit}"


def factor(amount: float) -> str:
    """How many times one number is another: "x1.53", "x1230"."""
    return f"x{_plain(amount, 3)}"


def share(value: Value | None) -> str:
    """A fraction in percent; "-" when absent."""
    return "-" if value is None or value.value is None else f"{value.value:.1%}"


def between(low: float, high: float, unit: str) -> str:
    """ "78 to 90 ms", "980 us to 1.2 ms", "at most 90 ms"."""
    first, last = number(low, unit), number(high, unit)
    if low <= 0:
        return f"at most {last}"
    figure, _, name = first.partition(" ")
    return f"{figure if name == last.partition(' ')[2] else first} to {last}"


def percent(share: float | None) -> str:
    """A share in whole percents, for narrow columns; "-" when absent, "<1%" where it is not quite 0."""
    if share is None:
        return "-"
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def fine_percent(share: float) -> str:
    """A share in percent, two digits: "12%", "0.93%"."""
    return f"{_plain(100 * share, 2)}%"


def when(time_ns: int, form: str) -> str:
    """A UNIX time in UTC, as in sentences; "-" for one that nobody set or that no calendar knows."""
    if not time_ns:
        return "-"
    try:
        return time.strftime(form, time.gmtime(time_ns / 1e9))
    except (OverflowError, OSError, ValueError):
        return "-"


def moment(time_ns: int) -> str:
    """A UNIX time as time of day in UTC, to the millisecond."""
    clock = when(time_ns, "%H:%M:%S")
    return clock if clock == "-" else f"{clock}.{time_ns // 1_000_000 % 1000:03d}"


def _scaled(amount: float, unit: str, prefixes: tuple[tuple[float, str], ...]) -> str:
    for scale, prefix in prefixes:
        if abs(amount) >= scale:
            return f"{_plain(amount / scale, 4)} {prefix}{unit}"
    return f"{_plain(amount, 4)} {unit}"


def _plain(amount: float, digits: int) -> str:
    """So many significant digits, all digits before the point, and never a power of ten."""
    if amount == 0:
        return "0"
    if not math.isfinite(amount):
        return f"{amount:g}"
    # Places behind the point after rounding: 9.9996 has one digit more before it than it seems.
    exponent = int(f"{amount:.{digits - 1}e}".partition("e")[2])
    text = f"{amount:.{max(0, digits - 1 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
