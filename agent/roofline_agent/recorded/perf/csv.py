"""Lines of `perf stat -x SEP`, with any separator, told from the lines themselves.

Fields: [time] [place [number of CPUs]] value unit event [cgroup] [variance] runtime percent [metric unit];
perf before 4 has neither unit nor runtime. Event names may hold the separator.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .row import UNITS, Row, derived, is_event, is_mark, is_surely_event, may_be_event, plain_number, scope

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
# How many fields may stand between event and runtime: cgroup and variance, modifiers if they are split off.
_MOST_BETWEEN = {" ": 1, ":": 3}


class Places(NamedTuple):
    """Which fields of a line are numbers that differ from line to line; time -1: there is none."""

    time: int
    value: int
    runtime: int  # the percentage stands behind it
    metric: int


def separator(line: str) -> str:
    """The separator in a line of `perf stat -x`; "" for any other line."""
    signed = _SIGNATURE.search(line)
    candidates = ((signed["sep"],) if signed else ()) + _USUAL
    for sep in candidates:
        if sep in line and (found := row(line, sep)) is not None and _is_evident(found, line, sep):
            return sep
    return ""


def _is_evident(found: Row, line: str, sep: str) -> bool:
    """Whether a line that is the first of its kind is perf's, not a source's like `0, self.seconds`."""
    if found.runtime_ns is not None or found.t_s is not None or is_mark(found.text):
        return True
    return is_surely_event(found.event) or (len(found.text) > 2 and f"{sep} " not in line)


def lacks_event(line: str) -> bool:
    """Whether the line ends with a unit, event and runtime being on the next (perf of Linux 4.1 did that)."""
    return bool(_UNFINISHED.fullmatch(line))


def joined(first: str, second: str) -> str:
    """A line and the one it goes on in: separated by what the second begins with, or for people."""
    second = second.strip()
    return first + second if second[:1] and not second[0].isalnum() else f"{first} {second}"


def is_summary(line: str, sep: str) -> bool:
    """Whether the line is one of the sums that `-I` prints at its end."""
    first, _, rest = line.strip(" ").partition(sep)
    return first.strip() == SUMMARY or rest.startswith(SUMMARY + sep)


def row(line: str, sep: str) -> Row | None:
    """The line as a Row, None where it is none."""
    return understood(line, sep)[0]


def understood(line: str, sep: str) -> tuple[Row | None, Places | None]:
    """The line as a Row, and where its numbers stand unless it is of a kind that seldom repeats."""
    fields = line.strip(" ").split(sep)
    broken = sep == "," and _BROKEN.search(line)
    if broken:
        _join_decimals(fields)
    at, t_s = 0, None
    if TIME.fullmatch(fields[0].strip()):
        at, t_s = 1, float(fields[0])
    before = at
    at, place = _place(fields, at)
    cpus = int(fields[at - 1][:9]) if at - before == 2 else None
    if at + 1 >= len(fields):
        return None, None
    text = fields[at].strip()
    value = None
    if not is_mark(text) and (not _NUMBER.fullmatch(text) or (value := plain_number(text)) is None):
        return None, None
    unit, end = _unit(fields, at + 1)
    event, end = _event(fields, end, sep)
    rest = fields[end:]
    pair = _pair(rest)
    believed = 0 <= pair <= _MOST_BETWEEN.get(sep, 2)
    if not (is_event(event) or (believed and may_be_event(event))) or (sep == " " and not believed):
        return None, None
    if not believed and ((unit and unit not in UNITS) or not _may_end(rest)):
        return None, None
    event, cgroup = _between(event, rest[: pair if pair >= 0 else 1], sep)
    found = Row(event, text, value, unit, t_s, place, cgroup, cpus=cpus)
    if pair < 0:
        return found, None
    runtime = end + pair
    places = Places(before - 1, at, runtime, runtime + 1 + (len(fields) > runtime + 2))
    return _with_end(found, rest, pair), None if broken else places


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
    """Past the columns that say where it was counted, and what they say."""
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


def _may_end(rest: list[str]) -> bool:
    """Whether a row without runtime may end so: a cgroup, a variance. Other tools' tables, PAPI's and
    CUTLASS's among them, have numbers there, as have sources of programs."""
    words = [text for field in rest if (text := field.strip())]
    return len(words) < 3 and not any(map(_NUMBER.fullmatch, words))


def _pair(rest: list[str]) -> int:
    """Where runtime and percent stand, -1 for nowhere."""
    for at in range(len(rest) - 1):
        if _INTEGER.fullmatch(rest[at]) and _PERCENT.fullmatch(rest[at + 1].strip()):
            return at
    return -1


def _between(event: str, fields: list[str], sep: str) -> tuple[str, str]:
    """What stands between event and runtime: modifiers when the separator is a colon, the cgroup."""
    cgroup = ""
    for field in fields:
        text = field.strip()
        if sep == ":" and _MODIFIER.fullmatch(text):
            event += ":" + text
        elif text and not text.endswith("%") and not _NUMBER.fullmatch(text):
            cgroup = text
    return event, cgroup


def _with_end(found: Row, rest: list[str], pair: int) -> Row:
    percent = plain_number(rest[pair + 1].strip())
    words = rest[pair + 3] if len(rest) > pair + 3 and rest[pair + 2] else ""
    return found._replace(
        runtime_ns=float(rest[pair]),
        coverage=percent / 100 if percent is not None else None,
        derived=derived(words, plain_number(rest[pair + 2].strip())) if words else None,
    )
