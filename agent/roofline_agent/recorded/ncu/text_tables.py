"""Nsight Compute's text tables, printed without --csv, as the same launches of metrics."""

from __future__ import annotations

import re
from collections.abc import Callable

from .launches import MetricCell, PrintedLaunch

MAX_LINE = 20_000  # characters
_KERNEL = re.compile(
    r"(?P<name>\S.*?)(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w{3}-\d{2} [\d:]+)?, Context \d+, Stream \d+"
    r"(?:, Device (?P<device>\d+), CC (?P<cc>[\d.]+))?"
)
_SECTION = re.compile(r"Section: ")
_RULE = re.compile(r"(-+) (-+) -+")
# ASCII: the blanks with which some locales group digits are none between columns.
_METRIC = re.compile(r"(?P<name>\S+(?: \S+)*)\s{2,}(?:(?P<unit>\S+)\s+)?(?P<value>\S+)", re.ASCII)


class NcuTextTables:
    """Takes lines that belong to no CSV table; hands each launch on when it is complete."""

    def __init__(self, take: Callable[[PrintedLaunch], None]) -> None:
        self._take = take
        self._kernel: re.Match[str] | None = None
        self._line = 0
        self._in_section = False
        self._metrics: dict[str, list[MetricCell]] = {}
        self._widths = (0, 0)  # of the columns of names and units, as the rule over a table draws them

    def line(self, text: str, number: int) -> None:
        text = text.strip() if len(text) <= MAX_LINE else ""
        kernel = _KERNEL.fullmatch(text) if ", Context " in text else None
        if kernel:
            self.end()
            self._kernel, self._line = kernel, number
        elif _SECTION.match(text):
            self._in_section = True
        elif rule := _RULE.fullmatch(text):
            self._widths = (len(rule[1]), len(rule[2]))
        elif self._kernel and self._in_section and not text.startswith(("-", "Metric Name ")):
            row = self._row(text)
            if row:
                name, unit, value = row
                self._metrics.setdefault(name, []).append(MetricCell(value, unit))

    def _row(self, text: str) -> tuple[str, str, str] | None:
        """Name, unit and value of a row.

        Where the longest name meets the longest unit one blank is between them ("Memory Throughput
        Gbyte/second"): only the rule over the table separates them.
        """
        names, units = self._widths
        name, unit, value = text[:names], text[names + 1 : names + 1 + units], text[names + 2 + units :]
        in_columns = text[names : names + 1] == text[names + 1 + units : names + 2 + units] == " "
        if names and in_columns and name.strip() and " " not in unit.strip() and len(value.split()) == 1:
            return name.strip(), unit.strip(), value.strip()
        metric = _METRIC.fullmatch(text)
        return (metric["name"], metric["unit"] or "", metric["value"]) if metric else None

    def end(self) -> None:
        """The launch so far, if there is one, is complete."""
        if self._kernel and self._metrics:
            found = {key: value or "" for key, value in self._kernel.groupdict().items()}
            grid, block = (f"({found[key]})" if found[key] else "" for key in ("grid", "block"))
            self._take(
                PrintedLaunch(
                    found["name"], self._metrics, self._line, found["device"], found["cc"], grid, block
                )
            )
        self._kernel, self._in_section, self._metrics = None, False, {}
