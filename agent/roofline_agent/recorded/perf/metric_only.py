"""The table of `perf stat --metric-only`: a line of names, below it the values in columns of their own."""

from __future__ import annotations

import re

from .row import METRIC_UNITS, DerivedMetric, derived, scope

_NAMES = re.compile(r"\s{2,}")
_NAME = re.compile(r"[A-Za-z%][\w %./-]*")
_PLACE = re.compile(r"(?:(\d+\.\d{9})\s+)?(?:((?:S\d+|N\d+|CPU)[\w-]*)\s+(?:\d+\s+(?=.*\d))?)?")
_VALUES = re.compile(r"(-?\d+(?:[.,]\d+)?|nan)\s*%?(?:\s+|$)")


def names(line: str) -> list[str]:
    """The names of a header line, [] for any other."""
    if "#" in line or line[:1].isdigit():
        return []
    words: list[str] = []
    for word in _NAMES.split(line.strip()):
        if words and words[-1] in METRIC_UNITS:
            words[-1] += f"  {word}"
        else:
            words.append(word)
    # Names longer than their column leave no space before the first; a unit shows them for what they are.
    sure = line.startswith("  ") or any("  " in word for word in words)
    return words if sure and all(map(_NAME.fullmatch, words)) else []


def values(line: str, columns: list[str]) -> tuple[float | None, str, list[DerivedMetric]] | None:
    """Time, place and the metric of each column; None where the line does not fit the names."""
    place = _PLACE.match(line.strip())
    assert place is not None  # every part of it is optional
    rest = line.strip()[place.end() :]
    cells = _VALUES.findall(rest)
    if len(cells) != len(columns) or _VALUES.sub("", rest).strip():
        return None
    found: list[DerivedMetric] = []
    for column, cell in zip(columns, cells, strict=True):
        if cell != "nan":
            printed = float(cell.replace(",", "."))
            found.append(derived(column, printed) or DerivedMetric(column, printed, 1.0, "1", ""))
    return float(place[1]) if place[1] else None, scope(place[2] or ""), found
