"""Sentences on what a plot leaves out, and why. Sentences that differ only in numbers are merged."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roofline.answers.roofline import RoofPoint

from .markers import can_be_drawn
from .point_labels import names_of
from .scales import is_drawable

# Not part of a name, as "worker:0" or "avx512".
_NUMBER = re.compile(r"(?<![\w:.,#])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:])")


def missing(points: Sequence[RoofPoint]) -> list[str]:
    """Why points are not drawn, and what the hollow ones lack."""
    not_drawn = [(p.label, f"not drawn ({_why_not_drawn(p)})") for p in points if not can_be_drawn(p)]
    hollow = [(p.label, f"incomplete ({p.incomplete})") for p in points if can_be_drawn(p) and p.incomplete]
    return [f"{sentence}." for sentence in merged([*not_drawn, *hollow])]


def merged(statements: Sequence[tuple[str, str]]) -> list[str]:
    """(subject, text) pairs as sentences; texts that differ in numbers alone are merged: "3 to 5 calls"."""
    groups: dict[str, dict[str, list[str]]] = {}
    for subject, text in statements:
        groups.setdefault(_NUMBER.sub("#", text), {}).setdefault(text, []).append(subject)
    sentences = []
    for group in groups.values():
        subjects = list(dict.fromkeys(subject for some in group.values() for subject in some))
        names = names_of(subjects)
        if len(names) > 60:
            names = f"{subjects[0]} and {len(subjects) - 1} more"
        sentences.append(f"{names}: {_with_ranges(list(group))}")
    return sentences


def _with_ranges(texts: Sequence[str]) -> str:
    """The first of texts that differ in numbers alone, with the range of each number."""
    ranges = []
    for numbers in zip(*(_NUMBER.findall(text) for text in texts), strict=True):
        ordered = sorted(dict.fromkeys(numbers), key=lambda number: float(number.replace(",", "")))
        ranges.append(ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}")
    replacements = iter(ranges)
    return _NUMBER.sub(lambda _: next(replacements), texts[0])


def _why_not_drawn(point: RoofPoint) -> str:
    for value, what in ((point.flops_per_second, "FLOP/s"), (point.intensity, "FLOP/byte")):
        if value.value is None:
            return f"no {what}: {value.reason or 'not measured'}"
        if not is_drawable(value.value):
            return f"{value.value:g} {what} has no place on a logarithmic axis"
    return "unknown"
