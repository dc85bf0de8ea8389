"""The table of `perf stat --metric-only`: a line of names, below it the values in columns of their own."""

from __future__ import annotations

import re

from .row import Derived, derived, scope

_NAMES = re.compile(r"\s{2,}")
_PLACE = re.compile(r"(?:(\d+\.\d{9})\s+)?(?:((?:S\d+|N\d+|CPU)[\w-]*)\s+(?:\d+\s+(?=.*\d))?)?")
_VALUES = re.compile(r"(-?\d+(?:[.,]\d+)?|nan)\s*%?(?:\s+|$)")


def names(line: str) -> list[str]:
    """The names of a header line, [] for any other."""
    if not line.startswith("  ") or "#" in line or any(c.isdigit() for c in line[:1]):
        return []
    words = _NAMES.split(line.strip())
    return (
        words if all(re.fullmatch(r"[A-Za-z%][\w %./-]*", word) for word in words) and words != [""] else []
    )


def values(line: str, columns: list[str]) -> tuple[float | None, str, list[Derived]] | None:
    """Time, place and the metric of each column; None where the line does not fit the names."""
    place = _PLACE.match(line.strip())
    assert place is not None  # every part of it is optional
    rest = line.strip()[place.end() :]
    cells = _VALUES.findall(rest)
    if len(cells) != len(columns) or _VALUES.sub("", rest).strip():
        return None
    found: list[Derived] = []
    for column, cell in zip(columns, cells, strict=True):
        if cell != "nan":
            printed = float(cell.replace(",", "."))
            found.append(derived(column, printed) or Derived(column, printed, 1.0, "1", ""))
    return float(place[1]) if place[1] else None, scope(place[2] or ""), found
