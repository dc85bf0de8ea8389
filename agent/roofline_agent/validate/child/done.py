"""What a work answers."""

from __future__ import annotations

# By quantity the amount, and what an error is relative to: the amount itself, or where it is 0 what could
# have been counted by mistake.
Quantities = dict[str, tuple[float, float]]


class Cannot(Exception):
    """The work cannot be done here; the text says why."""


def amounts(**done: float) -> Quantities:
    """Of amounts above 0."""
    return {name: (amount, amount) for name, amount in done.items()}
