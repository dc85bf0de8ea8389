"""How numbers, names and lists are written in any sentence."""

from __future__ import annotations

from collections.abc import Sequence

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_PRECISIONS = {"f64": "FP64", "f32": "FP32", "tf32": "TF32", "f16": "FP16", "bf16": "BF16"}
# As in the client's tables: from two minutes on minutes, from two hours on hours.
_TIMES = ((7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (1.0, 1.0, "s"))
_KINDS_OF_NUMBERS = {"f": "FP", "s": "INT", "u": "UINT"}


def quantity(amount: float, unit: str) -> str:
    """An amount with its unit: "50.4 GFLOP/s", "2.51 GB/s", "57.9 FLOP/byte"."""
    if unit in ("FLOP/s", "B/s"):
        scale, prefix = next(((s, p) for s, p in _PREFIXES if abs(amount) >= s), (1.0, ""))
        return f"{number(amount / scale)} {prefix}{unit}"
    return f"{number(amount)} {unit}"


def number(amount: float) -> str:
    """Three digits, never a power of ten."""
    if abs(amount) >= 999.5:
        return f"{amount:,.0f}"
    return f"{amount:.3g}" if abs(amount) >= 1e-4 else "0"


def two_digits(amount: float) -> str:
    """Two digits, or all that come before the point: "0.45", "4.5", "450"."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def times(factor: float) -> str:
    """ "3.2x", "1,200x"."""
    return f"{two_digits(factor)}x"


def duration(seconds: float) -> str:
    """ "52.1 ms", "1.5 s", "20.6 min"."""
    # What rounds up to the next unit is shown in the next unit: 1 s, not 1,000 ms.
    for least, scale, unit in _TIMES:
        if seconds >= 0.9995 * least:
            return f"{number(seconds / scale)} {unit}"
    return f"{number(seconds * 1e3)} ms"


def many(amount: float, what: str) -> str:
    """ "1 launch", "1.5 launches", "12,000 launches". what: the singular."""
    count = number(amount)
    if count == "1":
        return f"1 {what}"
    return f"{count} {what}{'es' if what.endswith('ch') else 's'}"


def first_of(names: Sequence[str], most: int = 8) -> str:
    """The first names: "a, b, ..."."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def joined(*parts: str) -> str:
    """The parts that are not empty, one after another."""
    return "; ".join(part for part in parts if part)


def title(precision: str) -> str:
    """A precision for people: "FP32", "INT8", "FP8 e4m3"."""
    if precision in _PRECISIONS:
        return _PRECISIONS[precision]
    kind = _KINDS_OF_NUMBERS.get(precision[:1])
    return f"{kind}{precision[1:].replace('_', ' ')}" if kind else precision


def place(host: str, device: str | None) -> str:
    """A host, or a device of it: "n1", "n1 gpu 0"."""
    return f"{host} {device or ''}".strip()
