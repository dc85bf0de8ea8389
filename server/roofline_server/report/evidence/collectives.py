"""Collectives in the steps of a rank: asked for, executed, and of which steps that is known at all.

Some frameworks report the collectives of some steps only (PyTorch's DDP: asking each time costs too much).
A step in which a rank was blocked in communication, but of which no collective was reported, had some too.
"""

from __future__ import annotations

import numpy as np

from ...correlate.spans import BUSY, COMMUNICATE, EXPOSED, NO_COLLECTIVES
from ...records import ABSENT, Bools, Table, rows

FAMILIES = ("asked", "engine")


def names_of(table: Table, family: str) -> list[str]:
    """Names of the family's collectives that a table of steps has columns of."""
    names = {
        name.removesuffix(".ns") for name in table if name.startswith(f"{family}.") and name.endswith(".ns")
    }
    return sorted(names - {BUSY, EXPOSED, *NO_COLLECTIVES})


def unknown(table: Table, family: str) -> Bools:
    """Steps in which the rank was blocked in communication and nothing of this family is known."""
    none: Bools = np.zeros(rows(table), bool)
    names = names_of(table, family)
    if not names or f"{COMMUNICATE}.ns" not in table:
        return none
    some = [(table[f"{name}.count"] > 0) | (table[f"{name}.ns"] > 0) for name in names]
    found: Bools = (table[f"{COMMUNICATE}.ns"] > 0) & ~np.any(some, axis=0)
    return found


def without_unknown(table: Table) -> Table:
    """The table with what nobody reported absent: it was no zero."""
    found = dict(table)
    for family in FAMILIES:
        hidden = unknown(table, family)
        if not hidden.any():
            continue
        names = names_of(table, family)
        if family == "engine":
            names += [BUSY, EXPOSED]
        for name in names:
            for column in (f"{name}.ns", f"{name}.count", f"{name}.bytes"):
                if column in table:
                    found[column] = np.where(hidden, ABSENT, table[column])
    return found
