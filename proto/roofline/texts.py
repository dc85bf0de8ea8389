"""How all programs write names, counts and times."""

from __future__ import annotations

import time
from collections.abc import Sequence

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BINARY_PREFIXES = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))

# From two minutes on minutes, from two hours on hours.
_TIMES = (
    (7200.0, 3600.0, "h"),
    (120.0, 60.0, "min"),
    (1.0, 1.0, "s"),
    (1e-3, 1e-3, "ms"),
    (1e-6, 1e-6, "us"),
)


def printable(text: str) -> str:
    """The text with a question mark for each character that cannot be printed: such ones steer terminals."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names and how many more there are: "a, b, c, d and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def utc(time_ns: int) -> str:
    """A UNIX time for sentences: "2026-11-27 21:31:16 UTC". Who reads it may live in another time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ns / 1e9))


def stretch(begin_ns: int, end_ns: int) -> str:
    """ "2026-11-27 21:31:16 to 21:36:00 UTC"; with the date of its end if that is another."""
    day, clock = utc(begin_ns).removesuffix(" UTC").split(" ")
    return f"{day} {clock} to {utc(end_ns).removeprefix(f'{day} ')}"


def number(amount: float) -> str:
    """Three digits, never a power of ten."""
    if abs(amount) >= 999.5:
        return f"{amount:,.0f}"
    return f"{amount:.3g}" if abs(amount) >= 1e-4 else "0"


def many(amount: float, what: str) -> str:
    """ "1 launch", "1.5 launches", "12,000 launches". what: the singular."""
    count = number(amount)
    if count == "1":
        return f"1 {what}"
    return f"{count} {what}{'es' if what.endswith('ch') else 's'}"


def prefix_of(amount: float) -> tuple[float, str]:
    """The decimal prefix of an amount as people read it: (1e9, "G"); (1.0, "") below a thousand."""
    return next(((scale, prefix) for scale, prefix in PREFIXES if abs(amount) >= scale), (1.0, ""))


def in_unit(seconds: float) -> tuple[float, str]:
    """A time in the unit that people read it in: (52.1, "ms"), (20.6, "min")."""
    for least, scale, unit in _TIMES:
        # What rounds up to the next unit is shown in the next unit: 1 s, not 1,000 ms.
        if abs(seconds) >= 0.9995 * least:
            return seconds / scale, unit
    return seconds / 1e-9, "ns"
