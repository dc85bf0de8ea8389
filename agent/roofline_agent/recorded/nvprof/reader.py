"""Reads nvprof's output: tables of metrics, events and times, traces of single launches; CSV and human form.

A reader of a file that nvprof wrote with several of them, or the profiled program's output between, gets them
all. Times of API calls, copies and fills become phases.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..collector import Collector
from ..ncu.other_lines import PERMISSION
from ..ncu.values import number
from ..recording import Launch
from ..text import Text
from .kernels import Kernels, MeanMetric, binary_unit, bytes_of, convert, flops_of
from .text_tables import NvprofTextTables

_SIGNS = (
    (re.compile(r"^==\d+== NVPROF ", re.MULTILINE), 96),
    (re.compile(r'^"?Device"?,"?Kernel"?,"?Invocations"?,', re.MULTILINE), 95),
    (re.compile(r'"?Time\(%\)"?,"?Time"?,"?Calls"?,"?Avg"?', re.MULTILINE), 95),
    (re.compile(r'^"?Start"?,"?Duration"?,"?(?:Grid X|Name)"?,', re.MULTILINE), 90),
    (re.compile(r"^==[\d=]+ (?:Profiling result|Metric result|Event result)", re.MULTILINE), 90),
    (re.compile(r"^\s*Invocations\s+(?:Metric|Event) Name\s", re.MULTILINE), 90),
    (re.compile(r"Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name"), 90),
)
_HEADERS = frozenset({"Kernel", "Name", "Total Size"})  # one of these is in every header
_ROW = re.compile(r'["\d,]')  # how a row of any CSV table begins
_ROUNDING = 1e-2  # printed means may lie a digit outside
_RESULT = re.compile(r"==(\d{1,12})== .*\bresult:")
_SEVERAL_PROCESSES = (
    "results of several processes, and rows do not say whose they are: all are taken for one rank, times add "
    "up, metrics are those of the first. nvprof --log-file FILE.%p writes a file for each"
)
_MESSAGE = re.compile(r"==[\d=]+ (?:(?P<kind>Warning|Error|Internal error):\s*)?(?P<text>.*)")


def sniff(head: str) -> int:
    return max((sure for sign, sure in _SIGNS if sign.search(head)), default=0)


def read(text: Text, found: Collector) -> None:
    found.tool = "nvprof"
    kernels = Kernels(found)
    tables = _CsvTables(found, kernels)
    text_tables = NvprofTextTables(found, kernels)
    process = ""
    for line in text.lines():
        if not line.startswith("=="):
            if not tables.line(line, text.line):
                text_tables.line(line)
            continue
        if result := _RESULT.match(line):
            if process not in ("", result[1]):
                found.warn(_SEVERAL_PROCESSES, text.line)
            process = result[1]
        message = _MESSAGE.match(line)
        if message and (message["kind"] or "No kernels were profiled" in message["text"]):
            if "will be replayed" not in message["text"]:
                found.warn(f"nvprof: {message['text']}", text.line)
            if "ERR_NVGPUCTRPERM" in line or "permission" in line:
                found.warn(PERMISSION, text.line)
        text_tables.section = "API calls" if "API calls" in line else ""
    kernels.end()


class _NvprofHeader(NamedTuple):
    at: Mapping[str, int]
    names: list[str]
    units: list[str] | None  # None: not seen yet
    kind: str  # "means", "times", "trace", "metrics trace", "unified memory"

    def cell(self, row: list[str], name: str) -> str:
        at = self.at.get(name)
        return row[at] if at is not None and at < len(row) else ""

    def seconds(self, row: list[str], name: str) -> float | None:
        """Its unit is in the row of units, or, where there is none, behind the number ("542.36ms")."""
        value, base, *_ = convert(self.cell(row, name), self.cell(self.units or [], name))
        return value if base == "s" else None


class _CsvTables:
    """Takes the lines of one file in order, and the rows of its CSV tables out of them."""

    def __init__(self, found: Collector, kernels: Kernels) -> None:
        self._found = found
        self._kernels = kernels
        self._header: _NvprofHeader | None = None
        self._readers = {
            "means": self._means,
            "times": self._times,
            "trace": self._trace,
            "metrics trace": self._metrics_trace,
            "unified memory": self._unified_memory,
        }

    def line(self, line: str, number: int) -> bool:
        """Whether the line belongs to a CSV table."""
        row: list[str] = []
        if "," in line:
            with contextlib.suppress(csv.Error):
                row = next(csv.reader([line]), [])
        header = _header(row)
        if header is not None:
            self._header = header
        elif self._header is None:
            return False
        elif self._header.units is None and len(row) >= len(self._header.names):
            is_units = not row[-1]  # names have no unit, and come last
            self._header = self._header._replace(units=row if is_units else [])
            if not is_units:
                self._take(self._header, row, line, number)
        elif not _ROW.match(line):
            return False
        else:
            self._take(self._header, row, line, number)
        return True

    def _take(self, header: _NvprofHeader, row: list[str], line: str, number: int) -> None:
        if len(row) < len(header.names) or line.count('"') % 2:
            self._found.warn("row cut short; it is left out", number)
        else:
            self._readers[header.kind](header, row, number)

    def _means(self, header: _NvprofHeader, row: list[str], line: int) -> None:
        name = header.cell(row, "metric name") or header.cell(row, "event name")
        invocations = number(header.cell(row, "invocations"))
        kernel = header.cell(row, "kernel")
        if not name or not kernel or invocations is None or not 0 < invocations < 1e15:
            self._found.warn("row without a kernel, a metric or invocations; it is left out", line)
            return
        means = [convert(header.cell(row, name))[0] for name in ("min", "avg", "max")]
        known = [value for value in means if value is not None]
        if len(known) == 3 and not known[0] * (1 - _ROUNDING) <= known[1] <= known[2] * (1 + _ROUNDING):
            self._found.warn("mean outside minimum and maximum: row cut short? It is left out", line)
            return
        device = header.cell(row, "device")
        self._kernels.device(device)
        self._kernels.mean(kernel, device, int(invocations), MeanMetric(name, header.cell(row, "avg")))

    def _times(self, header: _NvprofHeader, row: list[str], line: int) -> None:
        time, calls = header.seconds(row, "time"), number(header.cell(row, "calls"))
        name = header.cell(row, "name")
        if time is None or calls is None or not name or not 0 < calls < 1e15:
            self._found.warn("row without a name, a time or calls; it is left out", line)
            return
        self._kernels.activity(header.cell(row, "type"), name, int(calls), time)

    def _trace(self, header: _NvprofHeader, row: list[str], line: int) -> None:
        start, duration = header.seconds(row, "start"), header.seconds(row, "duration")
        name = header.cell(row, "name")
        if name.startswith("[Unified Memory") and not header.cell(row, "duration"):
            return  # a page fault of the CPU: a moment
        if not name or duration is None:
            self._found.warn("row without a name or a duration; it is left out", line)
        elif not header.cell(row, "grid x") or name.startswith("[CUDA mem"):
            size = number(header.cell(row, "size"))
            size_unit = binary_unit(header.cell(header.units or [], "size"))
            moved = size * size_unit.factor if size is not None and size_unit.base == "byte" else None
            self._found.phase(name, duration, 1, moved)
        else:
            self._kernels.device(header.cell(row, "device"))
            grid, block = (
                ", ".join(header.cell(row, f"{what} {axis}") for axis in "xyz") for what in ("grid", "block")
            )
            self._found.launch(
                Launch(
                    re.sub(r" \[\d+\]$", "", name),
                    duration,
                    start_s=start,
                    library="cuda",
                    problem=f"grid ({grid}), block ({block})",
                )
            )

    def _unified_memory(self, header: _NvprofHeader, row: list[str], line: int) -> None:
        sums = [header.cell(row, name) for name in ("count", "total size", "total time")]
        self._kernels.unified_memory(row[-1], *sums)

    def _metrics_trace(self, header: _NvprofHeader, row: list[str], line: int) -> None:
        kernel = header.cell(row, "kernel")
        values: dict[str, float] = {}
        for name in header.names:
            value = convert(header.cell(row, name), header.cell(header.units or [], name))[0]
            if value is not None:
                values[name] = value
        flops, precision = flops_of(values)
        self._found.launch(Launch(kernel, None, flops, bytes_of(values), precision=precision, library="cuda"))


def _header(row: list[str]) -> _NvprofHeader | None:
    if _HEADERS.isdisjoint(row):  # asked of every row
        return None
    names = [name.strip().lower() for name in row]
    at = {name: i for i, name in reversed(list(enumerate(names)))}
    if {"kernel", "invocations", "avg"} <= at.keys() and ("metric name" in at or "event name" in at):
        return _NvprofHeader(at, names, [], "means")
    if {"time(%)", "time", "calls", "name"} <= at.keys():
        return _NvprofHeader(at, names, None, "times")
    if {"start", "duration", "name"} <= at.keys():
        return _NvprofHeader(at, names, None, "trace")
    if {"device", "count", "total size"} <= at.keys():
        return _NvprofHeader(at, names, [], "unified memory")
    if {"device", "context", "stream", "kernel"} <= at.keys() and len(names) > 4:
        return _NvprofHeader(at, names, None, "metrics trace")
    return None
