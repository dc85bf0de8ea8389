"""A launch's time, FLOPs and bytes as sums of its values times constants, which they are for most tables.

The constants are found by running the table's own reader on known values, so that the meaning of metrics is
defined in one place. They depend on which values are zero. If anything else depends on the values (rates
times a time, counts that may be register moves), there is no such form, and launches are read value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_HALF = re.compile(r"_op_h(?:add|mul|fma)|hadd")
_EXACT = 1e-9
_LARGE = 1e9

FormKey = tuple[
    object, str, tuple[int, ...]
]  # what its name shows, compute capability, which values are zero
Terms = tuple[tuple[int, float], ...]  # index of the value, constant


class LaunchReading(NamedTuple):
    """Time in s, bytes by level, FLOPs and what is to be said of them."""

    time_s: float | None
    flops: float | None
    bytes: dict[str, float]
    precision: str
    note: str
    caveats: tuple[str, ...]  # of its note, those to warn of


class LinearReading(NamedTuple):
    """How the reading follows from the numbers of a launch."""

    used: tuple[int, ...]
    time_s: Terms | None
    flops: Terms | None
    bytes: tuple[tuple[str, Terms], ...]
    precision: str  # "": which has most of the FLOPs depends on the values
    note: str
    caveats: tuple[str, ...]
    left: tuple[str, ...]  # metrics that are neither


def linear(
    names: Sequence[str],
    read: Callable[[tuple[str, ...]], LaunchReading],
    left: Callable[[tuple[str, ...]], Sequence[str]],
    zeros: Sequence[int],
    needed: Sequence[int] | None = None,
) -> LinearReading | None:
    """The linear form of `read`, which takes a launch's cells; None where it has none. left: tells of which
    metrics of such cells nothing is made; zeros: the values that are zero in the launches it is for; needed:
    all that the reading may follow from (None: any)."""
    others = [at for at in (range(len(names)) if needed is None else needed) if at not in zeros]
    counted = " ".join(names[at] for at in others)
    if "path_tensor" in counted or ("tensor" in counted and _HALF.search(counted)):
        return None  # what holds what, and what is a register move, depends on the values in steps
    base = [0.0 if at in zeros else float(3 + at) for at in range(len(names))]
    first = read(_cells(base))
    if 0 in (first.time_s, first.flops, *first.bytes.values()):
        return None
    gradients = dict.fromkeys(range(len(names)), first)
    precisions = {first.precision}
    for at in others:
        twice = read(_cells([*base[:at], 2 * base[at], *base[at + 1 :]]))
        large = read(_cells([*base[:at], _LARGE * base[at], *base[at + 1 :]]))
        if any(_form(one) != _form(first) for one in (twice, large)):
            return None
        gradients[at] = twice
        precisions |= {twice.precision, large.precision}
    time_s = _terms(first.time_s, [one.time_s for one in gradients.values()], base)
    flops = _terms(first.flops, [one.flops for one in gradients.values()], base)
    levels = {
        level: _terms(value, [one.bytes[level] for one in gradients.values()], base)
        for level, value in first.bytes.items()
    }
    if time_s is None or flops is None or any(terms is None for terms in levels.values()):
        return None
    moved = tuple((level, terms) for level, terms in levels.items() if terms)
    used = {at for terms in (time_s, flops, *(terms for _, terms in moved)) for at, _ in terms}
    return LinearReading(
        tuple(sorted(used)),
        time_s or None,
        flops or None,
        moved,
        first.precision if len(precisions) == 1 else "",
        first.note,
        first.caveats,
        tuple(left(_cells(base))),
    )


def _form(reading: LaunchReading) -> tuple[object, ...]:
    """What must not depend on the values."""
    known = reading.time_s is None, reading.flops is None
    return (*known, tuple(reading.bytes), reading.note, reading.caveats)


def _cells(values: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{value:.0f}" for value in values)


def _terms(value: float | None, doubled: Sequence[float | None], base: Sequence[float]) -> Terms | None:
    """() where it is unknown; None where it is not linear. doubled: it, with one of the values doubled."""
    if value is None:
        return ()
    terms = [
        (at, (twice - value) / base[at])
        for at, twice in enumerate(doubled)
        if twice is not None and twice != value
    ]
    total = sum(base[at] * by for at, by in terms)
    return tuple(terms) if abs(total - value) <= _EXACT * abs(value) else None
