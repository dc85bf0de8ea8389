"""Ranges of steps as people write them."""

from __future__ import annotations

from .errors import UsageError

MOST = 2**63 - 1
Range = tuple[int | None, int | None]


def parse_steps(text: str) -> Range:
    """(first, last), inclusive, of "10:90", "10:", ":90", "10", "all" or "". Raises UsageError.

    Without a range the server takes the steady steps; "all" is the range from step 0 on.
    """
    if text == "all":
        return 0, None
    first, colon, last = text.partition(":")
    try:
        low = int(first) if first else None
        high = int(last) if last else None if colon else low
    except ValueError:
        raise UsageError(f"steps {text!r} must be FIRST:LAST, as 10:90, 10: or :90, or all") from None
    return checked(low, high)


def checked(first: int | None, last: int | None) -> Range:
    """(first, last) as given. Raises UsageError for a range that no step can be in."""
    if any(bound is not None and bound < 0 for bound in (first, last)):
        raise UsageError(f"steps {_shown(first)}:{_shown(last)}: steps are counted from 0")
    if any(bound is not None and bound > MOST for bound in (first, last)):
        raise UsageError(
            f"steps {_shown(first)}:{_shown(last)} are out of range: no step has a number above {MOST}"
        )
    if first is not None and last is not None and first > last:
        raise UsageError(f"steps {first} to {last}: the first comes after the last")
    return first, last


def _shown(bound: int | None) -> str:
    return "" if bound is None else str(bound)


def either(steps: str, first: int | None, last: int | None) -> Range:
    """The range that was given as --steps, or as --from and --to. Raises UsageError where both were."""
    if not steps:
        return checked(first, last)
    if first is not None or last is not None:
        raise UsageError("give either --steps FIRST:LAST, or --from and --to")
    return parse_steps(steps)
