"""Reads benchdnn's problem texts: `g2mb8_ic4oc6_ih9oh7kh3sh1dh0ph0_iw9ow7kw3sw1dw0pw0` and `2x3:3x4`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

_PROBLEM = re.compile(r"(?:[a-z]+[0-9]{1,12}_?)+")
_SIZE = re.compile(r"([a-z]+)([0-9]+)")
_EXTENTS = re.compile(r"[0-9]{1,12}(?:x[0-9]{1,12})*")
_MAX_DIMENSIONS = 12  # oneDNN's own limit; a garbled line may have a million
_SPATIAL = ("i", "o", "k")


def sizes(problem: str) -> dict[str, int]:
    """`mb2ic3_ih4` as a mapping; empty for anything else, such as sizes known at run time only (`*`)."""
    if not _PROBLEM.fullmatch(problem):
        return {}
    return {name: int(size) for name, size in _SIZE.findall(problem)}


def spatial_sizes(problem: str) -> dict[str, int]:
    """As `sizes`, where `ih5` alone stands for a square, and `id5` alone for a cube, as benchdnn reads it."""
    found = sizes(problem)
    for kind in _SPATIAL:
        if kind + "w" not in found and kind + "h" in found:
            found[kind + "w"] = found[kind + "h"]
        elif kind + "w" not in found and kind + "d" in found:
            found[kind + "h"] = found[kind + "w"] = found[kind + "d"]
    return found


def extents(text: str) -> tuple[int, ...]:
    """`2x3` as (2, 3); empty for anything else, such as sizes known at run time only (`*`)."""
    if text.count("x") >= _MAX_DIMENSIONS or not _EXTENTS.fullmatch(text):
        return ()
    return tuple(map(int, text.split("x")))


def shape(problem: str) -> tuple[int, ...]:
    """A single tensor's sizes, from `2x3`, `x3`, or `mb2ic3ih4iw5` with anything before or behind it."""
    if problem[:1].isdigit():
        return extents(problem)
    if problem[:1] == "x":
        return extents(problem[1:])
    found = sizes(problem)
    if not found.keys() >= {"mb", "ic"}:
        return ()
    return (found["mb"], found["ic"], *(found[name] for name in ("id", "ih", "iw") if name in found))


def broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The sizes of two tensors' combination, where a 1 repeats; None if they do not fit."""
    if len(left) != len(right) or any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))


def product(found: Mapping[str, int], *names: str) -> int:
    return prod(found.get(name, 1) for name in names)
