"""Lines of `perf stat -x SEP`, with any separator, which is found from the lines themselves.

Fields: [time] [place [number of CPUs]] value unit event [cgroup] [variance] runtime percent [metric unit];
perf before 4 has neither unit nor runtime. Event names may hold the separator.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .row import (
    UNITS,
    PerfRow,
    derived,
    is_event,
    is_mark,
    is_surely_event,
    may_be_event,
    plain_number,
    scope,
)

SUMMARY = "summary"
TIME = re.compile(r"\d+\.\d{9}")
_INTEGER = re.compile(r"\d+")
_WITH_DECIMALS = ("msec", "MiB", "Joules")  # perf always prints two
_BROKEN = re.compile(r"\d,\d\d,(?:msec|MiB|Joules),|,\d+,(?:100|\d\d?),\d\d(?:,|\s*$)")
_UNFINISHED = re.compile(r" *(?:\d+\.\d{9}([^\w.\s]))?-?\d+(?:\.\d+)?[^\w.\s](?:Joules|MiB|msec)")
_TWO_DIGITS = re.compile(r"\d\d")
_PERCENT = re.compile(r"(?:100|\d{1,2})[.,]\d\d")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")
_THREAD = re.compile(r".*[^\d.,].*-\d+")
_SIGNATURE = re.compile(r"(?P<sep>[^\w.<>\s]{1,4}?|\t|_)\d+(?P=sep)(?:100|\d{1,2})[.,]\d\d(?=(?P=sep)|\s*$)")
_USUAL = (",", ";", "\t", "|", ":", "!", "@", "^", "~", " ")
_MODIFIER = re.compile(r"[ukhGHIpPSDWeb]{1,8}")
# How many fields may be between event and runtime: cgroup and variance, modifiers if they are split off.
_MOST_BETWEEN = {" ": 1, ":": 3}


class FieldIndices(NamedTuple):
    """Which fields of a line are numbers that differ from line to line; time -1: there is none."""

    time: int
    value: int
    runtime: int  # the percentage comes after it
    metric: int


def separator(line: str) -> str:
    """The separator in a line of `perf stat -x`; "" for any other line."""
    signed = _SIGNATURE.search(line)
    candidates = ((signed["sep"],) if signed else ()) + _USUAL
    for sep in candidates:
        found = row(line, sep) if sep in line else None
        if found is None:
            continue
        # The first line of its kind must certainly be perf's, not a source's like `0, self.seconds`.
        if found.runtime_ns is not None or found.t_s is not None or is_mark(found.text):
            return sep
        if is_surely_event(found.event) or (len(found.text) > 2 and f"{sep} " not in line):
            return sep
    return ""


def lacks_event(line: str) -> bool:
    """Whether the line ends with a unit, event and runtime being on the next (perf of Linux 4.1 did that)."""
    return bool(_UNFINISHED.fullmatch(line))


def joined(first: str, second: str) -> str:
    """A line and the one it continues in, with a space between them unless a separator is there."""
    second = second.strip()
    return first + second if second[:1] and not second[0].isalnum() else f"{first} {second}"


def is_summary(line: str, sep: str) -> bool:
    """Whether the line is one of the sums that `-I` prints at its end."""
    first, _, rest = line.strip(" ").partition(sep)
    return first.strip() == SUMMARY or rest.startswith(SUMMARY + sep)


def row(line: str, sep: str) -> PerfRow | None:
    """None for a line that is no row."""
    return parse(line, sep)[0]


def parse(line: str, sep: str) -> tuple[PerfRow | None, FieldIndices | None]:
    """The row, None for a line that is none; and where its numbers stand, unless its kind seldom repeats."""
    # One branch for each optional field, in the order of the fields: splitting it up would hide that order.
    fields = line.strip(" ").split(sep)
    has_decimal_commas = sep == "," and bool(_BROKEN.search(line))
    if has_decimal_commas:
        _join_decimals(fields)

    at, t_s = 0, None
    if TIME.fullmatch(fields[0].strip()):
        at, t_s = 1, float(fields[0])
    place_at = at
    at, place = _place(fields, at)
    cpus = int(fields[at - 1][:9]) if at - place_at == 2 else None
    if at + 1 >= len(fields):
        return None, None
    text = fields[at].strip()
    value = None
    if not is_mark(text) and (not _NUMBER.fullmatch(text) or (value := plain_number(text)) is None):
        return None, None
    unit, end = _unit(fields, at + 1)
    event, end = _event(fields, end, sep)

    # Runtime and percentage at their place make the line perf's; without them its words must.
    rest = fields[end:]
    runtime_at = _runtime_index(rest)
    has_runtime = 0 <= runtime_at <= _MOST_BETWEEN.get(sep, 2)
    if not (is_event(event) or (has_runtime and may_be_event(event))) or (sep == " " and not has_runtime):
        return None, None
    # A row without runtime ends with a cgroup and a variance at most. Other tools' tables, PAPI's and
    # CUTLASS's among them, have numbers there, as have sources of programs.
    words = [word for field in rest if (word := field.strip())]
    has_end = len(words) < 3 and not any(map(_NUMBER.fullmatch, words))
    if not has_runtime and ((unit and unit not in UNITS) or not has_end):
        return None, None

    event, cgroup = _between(event, rest[: runtime_at if runtime_at >= 0 else 1], sep)
    found = PerfRow(event, text, value, unit, t_s, place, cgroup, cpus=cpus)
    if runtime_at < 0:
        return found, None
    percent = plain_number(rest[runtime_at + 1].strip())
    found = found._replace(
        runtime_ns=float(rest[runtime_at]), coverage=percent / 100 if percent is not None else None
    )
    if len(rest) > runtime_at + 3 and rest[runtime_at + 2] and rest[runtime_at + 3]:
        printed = plain_number(rest[runtime_at + 2].strip())
        found = found._replace(derived=derived(rest[runtime_at + 3], printed))
    if has_decimal_commas:
        return found, None
    runtime = end + runtime_at
    metric = runtime + 2 if len(fields) > runtime + 2 else runtime + 1
    return found, FieldIndices(place_at - 1, at, runtime, metric)


def _join_decimals(fields: list[str]) -> None:
    """Put together what a locale's decimal comma broke in two: `225851,20,msec` and `,5000,99,50,`."""
    at = 0
    while at < len(fields) - 1:
        following = fields[at + 2] if at + 2 < len(fields) else ""
        after_runtime = (
            at > 1 and _INTEGER.fullmatch(fields[at - 1]) and _PERCENT.fullmatch(f"{fields[at]}.00")
        )
        if _TWO_DIGITS.fullmatch(fields[at + 1]) and (following in _WITH_DECIMALS or after_runtime):
            fields[at : at + 2] = [f"{fields[at]}.{fields[at + 1]}"]
        at += 1


def _place(fields: list[str], at: int) -> tuple[int, str]:
    """The place after the columns that name where it was counted, and that scope."""
    if at >= len(fields):
        return at, ""
    first = fields[at].strip()
    if not first or first[0].isdigit() or first[0] == "<":
        return at, ""
    where = scope(first)
    if where:
        counted = at + 2 < len(fields) and _INTEGER.fullmatch(fields[at + 1].strip())
        if counted and _is_value(fields[at + 2].strip()):
            return at + 2, where
        return at + 1, where
    if _THREAD.fullmatch(first) and at + 1 < len(fields) and _is_value(fields[at + 1].strip()):
        return at + 1, f"thread {first}"
    return at, ""


def _is_value(text: str) -> bool:
    return is_mark(text) or bool(_NUMBER.fullmatch(text))


def _unit(fields: list[str], at: int) -> tuple[str, int]:
    first = fields[at].strip()
    if not first or first in UNITS:
        return first, at + 1
    if is_event(first) or at + 1 >= len(fields):
        return "", at  # before perf 3.14 there was no unit column
    following = fields[at + 1].strip()
    return (first, at + 1) if may_be_event(following) else ("", at)


def _event(fields: list[str], at: int, sep: str) -> tuple[str, int]:
    """The event's name and the place after it: between slashes the separator is part of the name."""
    if at >= len(fields):
        return "", at
    name, end = fields[at], at + 1
    while name.count("/") == 1 and end < len(fields):
        name, end = name + sep + fields[end], end + 1
    if name.count("/") == 1:
        name, end = fields[at], at + 1
    return name.strip(), end


def _runtime_index(rest: list[str]) -> int:
    """Where runtime and percent stand, -1 for nowhere."""
    for at in range(len(rest) - 1):
        if _INTEGER.fullmatch(rest[at]) and _PERCENT.fullmatch(rest[at + 1].strip()):
            return at
    return -1


def _between(event: str, fields: list[str], sep: str) -> tuple[str, str]:
    """What is between event and runtime: modifiers when the separator is a colon, the cgroup."""
    cgroup = ""
    for field in fields:
        text = field.strip()
        if sep == ":" and _MODIFIER.fullmatch(text):
            event += ":" + text
        elif text and not text.endswith("%") and not _NUMBER.fullmatch(text):
            cgroup = text
    return event, cgroup
