"""Lines of `perf stat` in its text form, of any version and locale."""

from __future__ import annotations

import re
from typing import NamedTuple

from .row import (
    UNITS,
    PerfRow,
    derived,
    grouped_number,
    is_event,
    is_mark,
    is_surely_event,
    may_be_event,
    scope,
)

_GROUPED = re.compile(r"\d{1,3}(?:\D\d{3})+")
_MARKS = "'’\u00a0\u2007\u2009\u202f\ufffd"
_NUMBER = rf"-?\d{{1,3}}(?: \d{{3}})+(?:[.,]\d+)?(?=\s)|-?\d+(?:[.,{_MARKS}]\d+)*"
_ROW = re.compile(
    r"\s*(?:(?P<t>\d+\.\d{9})\s+)?"
    r"(?:(?P<place>S\d+(?:-[A-Z]\w*)*|N\d+|D\d+|CPU\s*\d+)\s+(?:(?P<cpus>\d+)\s+)?"
    r"|(?P<thread>[^\d\s<#][^<#]{0,40}?-\d+)\s+)?"
    rf"(?P<value><not (?:counted|supported)>|{_NUMBER})\s+(?P<rest>[^\s#].*)"
)
_COVERAGE = re.compile(r"[(\[]\s*(?:scaled from\s+)?(\d{1,3}(?:[.,]\d+)?)\s?%\s*[)\]]\s*$")
_VARIANCE = re.compile(r"\(\s*\+-\s*[\d.,]+\s*%\s*\)|\[\+- *[\d.,]+%?\]")
_COMMENT = re.compile(r"\s*(-?\d+(?:[.,]\d+)?)\s*(\S.*?)\s*$")
_TIME = re.compile(
    rf"\s*({_NUMBER})(?:\s*\+-\s*[\d.,]+)?\s+seconds\s+(time elapsed|user|sys)\b", re.IGNORECASE
)
_HEADER = re.compile(r"\s*Performance counter stats for (.*?)(?: \((\d+) runs\))?:?\s*$")


class StatHeader(NamedTuple):
    """What was measured: a command in quotes, 'system wide', process id '1', 'CPU(s) 0-3'."""

    target: str
    runs: int


def header(line: str) -> StatHeader | None:
    match = _HEADER.match(line) if "Performance counter stats for" in line else None
    return StatHeader(match[1].strip(), int(match[2] or 1)) if match else None


def time(line: str) -> tuple[str, float] | None:
    """ "time elapsed", "user" or "sys" and its seconds."""
    match = _TIME.match(line) if "seconds" in line else None
    if not match:
        return None
    # Nine decimals always: a single mark is the decimal one even before exactly three digits.
    value = grouped_number(match[1] + "0") if re.search(r"[.,]\d{3}$", match[1]) else grouped_number(match[1])
    return (match[2].lower(), value) if value is not None else None


def lacks_event(line: str) -> bool:
    """Whether a line ends with a unit, its event being on the next line (perf of Linux 4.1 did that)."""
    match = _ROW.match(line)
    return bool(match) and match["rest"].strip() in UNITS  # type: ignore[index]


def row(line: str, inside: bool) -> PerfRow | None:
    """None for a line that is no row.

    inside: it is below a header of perf's, so that any word may be an event; elsewhere only what can
    hardly be anything else, for a program's own output may be there.
    """
    match = _ROW.match(line)
    if not match:
        return None
    rest = _VARIANCE.sub("", match["rest"])
    share = _COVERAGE.search(rest)
    rest = rest[: share.start()] if share else rest
    words, _, comment = rest.partition("#")
    named = _name(words, inside)
    text = match["value"]
    value = None if is_mark(text) else grouped_number(text)
    if named is None or (value is None and not is_mark(text)):
        return None
    unit, event, cgroup = named
    percent = float(share[1].replace(",", ".")) if share else 100.0
    if percent > 100:
        return None
    place = scope(match["place"]) if match["place"] else ""
    if match["thread"]:
        place = f"thread {match['thread'].strip()}"
    cpus = int(match["cpus"][:9]) if match["cpus"] else None
    t_s = float(match["t"]) if match["t"] else None
    metric = _COMMENT.match(comment)
    one = derived(metric[2], float(metric[1].replace(",", "."))) if metric else None
    return PerfRow(event, text, value, unit, t_s, place, cgroup, None, percent / 100, one, cpus)


def is_evident(found: PerfRow) -> bool:
    """Whether a row that stands outside of perf's own table is perf's, not another tool's or a source's."""
    grouped = _GROUPED.fullmatch(found.text) is not None
    sure = grouped or is_mark(found.text) or is_surely_event(found.event)
    return sure or found.t_s is not None or found.coverage != 1


def _name(text: str, inside: bool) -> tuple[str, str, str] | None:
    """Unit, event and cgroup."""
    words = text.split()
    unit = ""
    if len(words) > 1 and words[-1] in ("(msec)", "(ms)"):
        unit, words = "msec", words[:-1]
    elif len(words) > 1 and words[0] in UNITS:
        unit, words = words[0], words[1:]
    elif inside and len(words) == 2 and is_event(words[1]) and not is_event(words[0]):
        unit, words = words[0], words[1:]  # a unit that is not listed
    if len(words) > 1 and re.fullmatch(r"\[\w+\]", words[1]):
        words = [f"{words[0]} {words[1]}", *words[2:]]
    if len(words) not in (1, 2):
        return None
    event = words[0]
    if not is_event(event) and not (inside and may_be_event(event)):
        return None
    if len(words) == 1:
        return unit, event, ""
    # Outside of perf's table a second word may be any text; a cgroup's name is a path.
    return (unit, event, words[1]) if inside or "/" in words[1] else None
