"""Numbers as people read them: 4.32 GFLOP, 65.2 ms, 1.2 MiB."""

from __future__ import annotations

from .records import Value

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))


def show(value: Value | None) -> str:
    """A value with its unit; "-" when it is absent."""
    if value is None or value.value is None:
        return "-"
    return number(value.value, value.unit)


def number(amount: float, unit: str) -> str:
    """A number in a unit, scaled for reading."""
    if unit == "s":
        return _seconds(amount)
    if unit == "byte":
        return _scaled(amount, "B", _BINARY)
    if unit == "byte/s":
        return _scaled(amount, "B/s", _DECIMAL)
    if unit in ("FLOP", "FLOP/s"):
        return _scaled(amount, unit, _DECIMAL)
    if unit == "1":
        return f"{amount:.0f}" if amount == int(amount) else f"{amount:.2f}"
    return f"{amount:.4g}" if amount < 1000 else f"{amount:.1f}"


def share(value: Value | None) -> str:
    """A fraction in percent; "-" when absent."""
    return "-" if value is None or value.value is None else f"{value.value:.1%}"


def _seconds(amount: float) -> str:
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(amount) >= scale:
            return f"{amount / scale:.3g} {name}"
    return f"{amount / 1e-9:.3g} ns"


def _scaled(amount: float, unit: str, prefixes: tuple[tuple[float, str], ...]) -> str:
    for scale, prefix in prefixes:
        if abs(amount) >= scale:
            return f"{amount / scale:.4g} {prefix}{unit}"
    return f"{amount:.4g} {unit}"
