"""What a work answers."""

from __future__ import annotations

from typing import NamedTuple


class Amount(NamedTuple):
    """How much of a quantity was done."""

    done: float
    whole: (
        float  # what an error is relative to: the same, or where it is 0 what could have been counted wrongly
    )
    unsure: float = 0.0  # so much more may have been done


Quantities = dict[str, Amount]


class Cannot(Exception):
    """The work cannot be done here; the text says why."""


def amounts(**done: float) -> Quantities:
    """Quantities of these amounts, which are above 0."""
    return {name: Amount(amount, amount) for name, amount in done.items()}
