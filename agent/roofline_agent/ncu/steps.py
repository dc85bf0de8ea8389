"""Parses which steps to profile: "100", "100-102", "10,20"."""

from __future__ import annotations

from collections.abc import Iterable

MAX_STEPS = 100  # each kernel of each is run a dozen times


class StepsError(ValueError):
    """The text says what is wrong, and what would be right."""


def parse(text: str) -> tuple[tuple[int, int], ...]:
    """Ranges (first, last) of steps, sorted, none overlapping. Raises StepsError."""
    ranges = []
    for part in text.split(","):
        part = part.strip()
        first, dash, last = part.partition("-")
        ends = [first.strip(), last.strip()] if dash else [first.strip()]
        if not all(end.isascii() and end.isdigit() and len(end) < 16 for end in ends):
            raise StepsError(f"{part!r} is no step: give numbers and ranges, as in 100 or 100-102 or 10,20")
        begin, end = int(ends[0]), int(ends[-1])
        if end < begin:
            raise StepsError(f"{part} goes backwards: {end}-{begin} is meant?")
        if begin == 0:
            raise StepsError("step 0 cannot be profiled: nothing marks its beginning; take a later one")
        ranges.append((begin, end))
    joined = _joined(ranges)
    count = sum(last - first + 1 for first, last in joined)
    if count > MAX_STEPS:
        raise StepsError(
            f"{count} steps are too many: every kernel is run several times; at most {MAX_STEPS}"
        )
    return joined


def ranges_of(steps: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Single steps as ranges."""
    return _joined((step, step) for step in steps)


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def written(ranges: tuple[tuple[int, int], ...]) -> str:
    """The ranges as `parse` reads them."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
