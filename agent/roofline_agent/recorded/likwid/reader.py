"""Reads what likwid-perfctr and likwid-mpirun print: tables, CSV, and time lines of old and new versions."""

from __future__ import annotations

import re

from ..collect import Collector
from ..text import Text
from .tables import Tables, is_heading
from .timeline import TimeLine, fields, is_header

_TABLE = re.compile(r"\s*\|\s*(?:Event\s*\|\s*Counter|Metric|Region Info)\s*\|")
_CSV = re.compile(r"(?:Event,Counter|Metric|Region Info),(?:HWThread|Core|core|Sum)\b")
_OURS = re.compile(
    r"Runtime \(RDTSC\)|INSTR_RETIRED|RETIRED_INSTRUCTIONS|HWThread \d|\| *[Cc]ore \d|FIXC\d|PMC\d|RDTSC"
)
_FACTS = re.compile(r"(CPU name|CPU type|CPU clock):[,\t ]+(.*\S)")
_NO_CLOCK = re.compile(r"CPU clock:[,\t ]+0(?:\.0*)? GHz")
_BLIND = "required to measure Uncore counters"
_HEAD_LINES = 3000
MAX_ROW = 1 << 18  # characters: 256 threads have wide tables


def sniff(head: str) -> int:
    """90 for tables, 85 for a time line's header, 75 for two or more rows of one alone."""
    best, rows, table = 0, 0, False
    for line in head.split("\n")[:_HEAD_LINES]:
        line = line.rstrip("\r")
        table = table or bool(_TABLE.match(line) or _CSV.match(line))
        if is_heading(line) and (line.startswith("TABLE,") or table):
            best = 90
        if table and _OURS.search(line):
            best = 90
        if is_header(line):
            best = max(best, 85)
        row = fields(line)
        rows += row is not None and row[1] > 1
    return max(best, 75 if rows > 1 else 0)


def read(text: Text, found: Collector) -> None:
    """Counters of every thread; a point for each region, or for the whole run."""
    found.tool = "likwid"
    tables = Tables(found)
    line_of_time = TimeLine(found, text.companions)
    # With one companion it is the other stream of the same run; with more nobody knows whose they are.
    tables.blind = line_of_time.blind = len(text.companions) == 1 and _BLIND in text.companions[0]
    for line in text.lines():
        if len(line) > MAX_ROW:
            continue
        if line.startswith("#"):
            line_of_time.header(line)
        elif not line_of_time.line(line) and not tables.line(line):
            _aside(line, found, text.line)
            tables.clockless |= bool(_NO_CLOCK.match(line))
            if _BLIND in line:
                tables.blind = line_of_time.blind = True
    if tables.blind:
        found.warn("LIKWID could not read the memory controllers: zeros of memory metrics are no measurement")
    if tables.clockless:
        found.warn("LIKWID took the CPU's clock for 0 GHz: zeros of times and rates are no measurement")
    tables.finish()
    if line_of_time.rows or not tables.rows:
        line_of_time.finish()


def _aside(line: str, found: Collector, number: int) -> None:
    if line.startswith(("WARN", "ERROR")):
        found.warn(line[:200].strip(), number)
        return
    fact = _FACTS.match(line)
    if fact:
        found.facts[fact[1].lower().replace(" ", "_")] = fact[2].rstrip(",")
