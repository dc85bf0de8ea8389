"""Ranges of steps as people write them."""

from __future__ import annotations

from .errors import Refused


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """(first, last), inclusive, of "10:90", "10:", ":90", "10" or "". Raises Refused."""
    first, colon, last = text.partition(":")
    try:
        low = int(first) if first else None
        high = int(last) if last else None if colon else low
    except ValueError:
        raise Refused(f"steps {text!r} must be FIRST:LAST, as 10:90, 10: or :90") from None
    return low, high
