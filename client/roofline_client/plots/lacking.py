"""Sentences on what is not in a picture, and why; what is alike is said once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model_records import RoofPoint
from .marks import can_be_drawn
from .point_labels import names_of
from .scales import is_drawable

# Not part of a name, as "worker:0" or "avx512".
_NUMBER = re.compile(r"(?<![\w:.,#])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:])")


def missing(points: Sequence[RoofPoint]) -> list[str]:
    """Why points are not drawn, and what those lack that are drawn hollow; points of one reason together."""
    gone = [(p.label, f"not drawn ({_why(p)})") for p in points if not can_be_drawn(p)]
    partly = [(p.label, f"incomplete ({p.incomplete})") for p in points if can_be_drawn(p) and p.incomplete]
    return [f"{told}." for told in together([*gone, *partly])]


def together(said: Sequence[tuple[str, str]]) -> list[str]:
    """Of (who, what is said of it) what differs in numbers alone once of all: "ps:0-1: 3 to 5 calls"."""
    groups: dict[str, dict[str, list[str]]] = {}
    for who, what in said:
        groups.setdefault(_NUMBER.sub("#", what), {}).setdefault(what, []).append(who)
    return [
        f"{_few([who for some in group.values() for who in some])}: {_over(list(group))}"
        for group in groups.values()
    ]


def _over(alike: Sequence[str]) -> str:
    """Sentences that differ in numbers as one, with the range of each number."""
    numbers = zip(*(_NUMBER.findall(one) for one in alike), strict=True)
    told = iter([_range(some) for some in numbers])
    return _NUMBER.sub(lambda _: next(told), alike[0])


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(dict.fromkeys(numbers), key=lambda number: float(number.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _few(labels: Sequence[str]) -> str:
    labels = list(dict.fromkeys(labels))
    told = names_of(labels)
    return told if len(told) <= 60 else f"{labels[0]} and {len(labels) - 1} more"


def _why(point: RoofPoint) -> str:
    for value, what in ((point.flops_per_second, "FLOP/s"), (point.intensity, "FLOP/byte")):
        if value.value is None:
            return f"no {what}: {value.reason or 'nobody measured it'}"
        if not is_drawable(value.value):
            return f"{value.value:g} {what} has no place on a logarithmic axis"
    return "unknown"
