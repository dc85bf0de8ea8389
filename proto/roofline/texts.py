"""How all programs write names."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """The text with a question mark for each character that cannot be printed: such ones steer terminals."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names and how many more there are: "a, b, c, d and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
