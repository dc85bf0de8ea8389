"""Reads what likwid-perfctr and likwid-mpirun print: tables, CSV, and timelines of old and new versions."""

from __future__ import annotations

import re

from ..collector import Collector
from ..text import Text
from .tables import LikwidTables, is_heading
from .timeline import LikwidTimeline, is_header, parse_row

_TABLE = re.compile(r"\s*\|\s*(?:Event\s*\|\s*Counter|Metric|Region Info)\s*\|")
_CSV = re.compile(r"(?:Event,Counter|Metric|Region Info),(?:HWThread|Core|core|Sum)\b")
_OURS = re.compile(
    r"Runtime \(RDTSC\)|INSTR_RETIRED|RETIRED_INSTRUCTIONS|HWThread \d|\| *[Cc]ore \d|FIXC\d|PMC\d|RDTSC"
)
_FACTS = re.compile(r"(CPU name|CPU type|CPU clock):[,\t ]+(.*\S)")
_NO_CLOCK = re.compile(r"CPU clock:[,\t ]+0(?:\.0*)? GHz")
_DRAM_UNREADABLE = "required to measure Uncore counters"
_HEAD_LINES = 3000
MAX_ROW = 1 << 18  # characters: 256 threads have wide tables


def sniff(head: str) -> int:
    """90 for tables, 85 for a timeline's header, 75 for two or more rows of one alone."""
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
        row = parse_row(line)
        rows += row is not None and row.metrics > 1
    return max(best, 75 if rows > 1 else 0)


def read(text: Text, found: Collector) -> None:  # noqa: C901  # a branch for each kind of line, in one loop
    """Counters of every thread; a kernel for each region, or for the whole run."""
    found.tool = "likwid"
    tables = LikwidTables(found)
    timeline = LikwidTimeline(found, text.companions)
    # With one companion it is the other stream of the same run; with more nobody knows whose they are.
    if len(text.companions) == 1 and _DRAM_UNREADABLE in text.companions[0]:
        tables.dram_unreadable = timeline.dram_unreadable = True
    for line in text.lines():
        if len(line) > MAX_ROW:
            continue
        if line.startswith("#"):
            timeline.header(line)
        elif not timeline.line(line) and not tables.line(line):
            if line.startswith(("WARN", "ERROR")):
                found.warn(line[:200].strip(), text.line)
            elif fact := _FACTS.match(line):
                found.facts[fact[1].lower().replace(" ", "_")] = fact[2].rstrip(",")
            if _NO_CLOCK.match(line):
                tables.clockless = True
            if _DRAM_UNREADABLE in line:
                tables.dram_unreadable = timeline.dram_unreadable = True
    if tables.dram_unreadable:
        found.warn("LIKWID could not read the memory controllers: zeros of memory metrics are no measurement")
    if tables.clockless:
        found.warn("LIKWID took the CPU's clock for 0 GHz: zeros of times and rates are no measurement")
    tables.finish()
    if timeline.rows or not tables.rows:
        timeline.finish()
