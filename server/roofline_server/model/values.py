"""A number with its history, or the reason there is none."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple


class Provenance(IntEnum):
    UNSPECIFIED = 0
    MEASURED = 1
    ESTIMATED = 2
    ANALYTIC = 3
    REPORTED = 4


class Scope(IntEnum):
    UNSPECIFIED = 0
    PROCESS = 1
    SOCKET = 2
    NODE = 3
    GPU = 4
    ROLE = 5


class Value(NamedTuple):
    """value None: absent, `reason` says why. coverage: share of what should have been seen that was, 0..1."""

    value: float | None
    unit: str
    provenance: Provenance = Provenance.UNSPECIFIED
    scope: Scope = Scope.UNSPECIFIED
    coverage: float | None = None
    reason: str = ""


def value(
    number: float | None,
    unit: str,
    provenance: Provenance,
    scope: Scope,
    coverage: float | None = None,
    reason: str = "",
    missing: str = "not measured",
) -> Value:
    """A Value; absent with the reason `missing` when the number is None or not finite."""
    if number is None or not math.isfinite(number):
        return Value(None, unit, reason=missing)
    return Value(float(number), unit, provenance, scope, coverage, reason)
