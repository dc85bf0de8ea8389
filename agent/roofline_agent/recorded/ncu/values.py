"""Numbers and units as NVIDIA's profilers print them, as floats in base units; what is no number is None."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_GROUPS = re.compile(r"[-+]?\d{1,3}(?:[,'\u00a0\u202f ]\d{3})+(?:\.\d+)?")
_COMMONLY_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})*(?:\.\d+)?")
_COMMA_GROUPS = re.compile(r"[-+]?\d{1,3}(?:[.'\u00a0\u202f ]\d{3})+(?:,\d+)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")
_LONGEST = 64  # characters of a number
# A whole cell that only a locale with decimal commas prints: "12,5", "1.234,56", "1.234.567".
_COMMA_CELL = re.compile(r'"[-+]?(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,})"')
_POINT_CELL = re.compile(r'"[-+]?[\d,]+\.(?:\d{2}|\d{4,})"')

_PREFIXES = {
    "n": 1e-9,
    "u": 1e-6,
    "\u00b5": 1e-6,
    "m": 1e-3,
    "K": 1e3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_STEMS = {
    "byte": "byte",
    "bytes": "byte",
    "b": "byte",
    "second": "s",
    "seconds": "s",
    "sec": "s",
    "s": "s",
    "hz": "Hz",
}
_WHOLE = {"": (1.0, "1"), "%": (0.01, "1"), "cycle/s": (1.0, "Hz"), "min": (60.0, "s"), "h": (3600.0, "s")}


class Unit(NamedTuple):
    """printed value x factor is the value in `base`: "byte", "s", "Hz", "byte/s", "1", or the tool's word."""

    factor: float
    base: str


def has_decimal_commas(head: str) -> bool:
    """Whether the file was printed under a locale that writes 1.234,5: only if no cell writes 1,234.5."""
    return bool(_COMMA_CELL.search(head)) and not _POINT_CELL.search(head)


def number(text: str, decimal_comma: bool = False) -> float | None:
    """The number in a cell; None for "n/a", "no data", "(!) nan", an empty cell and anything else."""
    text = text.partition(" (")[0].strip()  # --print-metric-instances: "12 (4; 8)"
    if len(text) > _LONGEST:
        return None
    if _PLAIN.fullmatch(text) and not (decimal_comma and _COMMA_GROUPS.fullmatch(text)):
        return _finite(text)
    if decimal_comma:
        grouped = _COMMA_GROUPS.fullmatch(text) or _COMMA.fullmatch(text)
        return _finite(re.sub(r"[^\d,+-]", "", text).replace(",", ".")) if grouped else _plain(text)
    if _GROUPS.fullmatch(text):
        return _finite(re.sub(r"[^\d.+-]", "", text))
    return _plain(text)


def quick_number(text: str, decimal_comma: bool = False) -> float | None:
    """What `number` returns, sooner for what most cells hold."""
    if not decimal_comma and len(text) <= _LONGEST:
        if text.isdecimal() and text.isascii():
            return float(text)
        if _COMMONLY_GROUPED.fullmatch(text):
            return float(text.replace(",", ""))
    return None if "%" in text and text.partition("%")[2] else number(text.partition("%")[0], decimal_comma)


def _plain(text: str) -> float | None:
    return _finite(text) if _PLAIN.fullmatch(text) else None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if abs(value) < 1e300 else None


@lru_cache(maxsize=1024)
def unit(printed: str) -> Unit:
    """Base unit of a printed one: Mbyte, usecond, us, Ghz, cycle/nsecond, Kbyte/block, GB/s, %."""
    printed = printed.strip()
    if printed in _WHOLE:
        return Unit(*_WHOLE[printed])
    above, slash, below = printed.partition("/")
    top, bottom = _simple(above), _simple(below)
    if not slash:
        return top
    base = f"{top.base}/{bottom.base}"
    factor = top.factor / bottom.factor
    return Unit(factor, "Hz") if base == "cycle/s" else Unit(factor, base)


def _simple(word: str) -> Unit:
    if word.lower() in _STEMS:
        return Unit(1.0, _STEMS[word.lower()])
    if word[:2] in _BINARY and word[2:].lower() in _STEMS:
        return Unit(_BINARY[word[:2]], _STEMS[word[2:].lower()])
    if word[:1] in _PREFIXES and word[1:].lower() in _STEMS:
        return Unit(_PREFIXES[word[0]], _STEMS[word[1:].lower()])
    return Unit(0.01, "1") if word == "%" else Unit(1.0, word)
