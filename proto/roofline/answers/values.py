"""Numbers with their history: what answers of every kind are made of."""

from __future__ import annotations

import math
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar

E = TypeVar("E", bound="WireEnum")


class WireEnum(str, Enum):
    """Names of an enum of the wire, in the order of its numbers from 0. A member is its name, a text."""

    # Texts and JSON show a member as its name, in every Python from 3.10 on.
    __str__ = str.__str__
    __repr__ = str.__repr__

    number: int  # on the wire

    def __init__(self, _name: str) -> None:
        self.number = len(type(self).__members__)  # of those before it

    @classmethod
    def of_number(cls: type[E], number: int) -> E:
        """The member with this number on the wire; of a number that is not known here the unspecified one."""
        members: tuple[E, ...] = _members(cls)
        return members[number] if 0 <= number < len(members) else members[0]


@cache
def _members(kind: type[WireEnum]) -> tuple[Any, ...]:
    return tuple(kind)


class Provenance(WireEnum):
    """Where a value comes from."""

    UNSPECIFIED = ""
    MEASURED = "measured"
    ESTIMATED = "estimated"
    ANALYTIC = "analytic"
    REPORTED = "reported"


class Scope(WireEnum):
    """What a value counts."""

    UNSPECIFIED = ""
    PROCESS = "process"
    SOCKET = "socket"
    NODE = "node"
    GPU = "gpu"
    ROLE = "role"


class Value(NamedTuple):
    """A number with its history, or the reason why there is none."""

    value: float | None  # in `unit`; None: absent, `reason` says why
    unit: str
    provenance: Provenance = Provenance.UNSPECIFIED  # of an absent value unspecified
    scope: Scope = Scope.UNSPECIFIED  # of an absent value unspecified
    coverage: float | None = None  # share of what should have been seen that was, 0..1
    reason: str = ""  # why it is absent, or what to know about it


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


class Spread(NamedTuple):
    """How a number is spread over steps or calls: quantiles."""

    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    count: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
