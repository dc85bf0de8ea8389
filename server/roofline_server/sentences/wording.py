"""How numbers, names and lists are written in any sentence."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import in_unit, prefix_of
from roofline.texts import many as many
from roofline.texts import number as number

_PRECISIONS = {"f64": "FP64", "f32": "FP32", "tf32": "TF32", "f16": "FP16", "bf16": "BF16"}
_KINDS_OF_NUMBERS = {"f": "FP", "s": "INT", "u": "UINT"}


def quantity(amount: float, unit: str) -> str:
    """An amount with its unit: "50.4 GFLOP/s", "2.51 GB/s", "57.9 FLOP/byte"."""
    if unit in ("FLOP/s", "B/s"):
        scale, prefix = prefix_of(amount)
        return f"{number(amount / scale)} {prefix}{unit}"
    return f"{number(amount)} {unit}"


def two_digits(amount: float) -> str:
    """Two digits, or all that come before the point: "0.45", "4.5", "450"."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def times(factor: float) -> str:
    """ "3.2x", "1,200x"."""
    return f"{two_digits(factor)}x"


def duration(seconds: float) -> str:
    """ "80 ns", "52.1 ms", "1.5 s", "20.6 min"."""
    amount, unit = in_unit(seconds)
    return f"{number(amount)} {unit}"


def are(amount: float, what: str) -> str:
    """ "1 launch is", "2 launches are". what: the singular."""
    counted = many(amount, what)
    return f"{counted} is" if counted == f"1 {what}" else f"{counted} are"


def first_of(names: Sequence[str], most: int = 8) -> str:
    """The first names: "a, b, ..."."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def enumerated(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
