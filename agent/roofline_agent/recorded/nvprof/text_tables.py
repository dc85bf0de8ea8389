"""nvprof's text tables: metrics by device and kernel, summaries of times, traces of launches."""

from __future__ import annotations

import re

from ..collector import Collector
from ..ncu.values import number, unit
from ..recording import Launch
from .kernels import Kernels, MeanMetric, convert

MAX_LINE = 10_000  # characters
_DEVICE = re.compile(r'Device "(?P<name>[^"]*)"')
_KERNEL = re.compile(r"Kernel: (?P<name>.*)")
_TIME = r"(\d[\d.]*(?:e[-+]?\d+)?)(ns|us|ms|s|min|h)"
_SUMMARY = re.compile(
    rf"(?:(?P<type>[A-Z][\w ()]*):\s+)?[\d.]+%\s+{_TIME}\s+(\d+)"  # of all time, time, calls
    rf"\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(?P<name>.+)"  # mean, minimum, maximum
)
_TRACE = re.compile(
    rf"{_TIME}\s+{_TIME}\s+(?P<grid>\([\d ]+\)|-)\s+(?P<block>\([\d ]+\)|-)\s.*?\s(?P<name>\S.*)"
)
_TRACE_NAME = re.compile(r".*?\s+\d+\s+\d+\s\s*(?P<name>\D.*?)(?: \[\d+\])?$")
_UNIFIED_MEMORY = re.compile(
    r"(?P<count>\d+)(?:\s+\S+){3}\s+(?P<size>[\d.]+[KMGT]?B|-)\s+(?P<time>[\d.]+[a-z]{1,3}|-)\s\s*(?P<name>[A-Z].*)"
)


class NvprofTextTables:
    """Takes lines that are neither messages nor rows of a CSV table. section: of the table of times."""

    def __init__(self, found: Collector, kernels: Kernels) -> None:
        self.section = ""
        self._found = found
        self._kernels = kernels
        self._device = ""
        self._kernel = ""

    def line(self, line: str) -> None:
        if len(line) > MAX_LINE:
            return  # no table has such lines, and searching them takes long
        line = line.strip()
        if device := _DEVICE.match(line):
            self._device, self._kernel = device["name"], ""
            self._kernels.device(self._device)
        elif kernel := _KERNEL.match(line):
            self._kernel = kernel["name"].strip()
        elif summary := _SUMMARY.fullmatch(line):
            self.section = summary["type"] or self.section
            time_s = _seconds(summary[2], summary[3])
            calls = int(summary[4]) if len(summary[4]) < 15 else 0
            if time_s is not None and calls:
                self._kernels.activity(self.section, summary["name"].strip(), calls, time_s)
        elif trace := _TRACE.fullmatch(line):
            self._trace(trace)
        elif moved := _UNIFIED_MEMORY.fullmatch(line):
            self._kernels.unified_memory(moved["name"], moved["count"], moved["size"], moved["time"])
        elif self._kernel:
            self._mean_row(re.split(r"\s{2,}", line))

    def _trace(self, match: re.Match[str]) -> None:
        start, duration = _seconds(match[1], match[2]), _seconds(match[3], match[4])
        name = _TRACE_NAME.fullmatch(match[0])
        if name is None or duration is None:
            return
        if match["grid"] == "-" or name["name"].startswith("[CUDA mem"):
            self._found.phase(name["name"], duration)
        else:
            problem = f"grid {match['grid']}, block {match['block']}"
            self._found.launch(Launch(name["name"], duration, start_s=start, library="cuda", problem=problem))

    def _mean_row(self, parts: list[str]) -> None:
        # Metrics have a description and min, max, avg; events min, max, avg, of late total, no description.
        if len(parts) < 5 or not parts[0].isdecimal() or len(parts[0]) > 14 or not int(parts[0]):
            return
        is_event = convert(parts[2])[0] is not None
        if len(parts) == 5 and not is_event:
            return
        mean = MeanMetric(parts[1], parts[4] if is_event else parts[-1])
        self._kernels.mean(self._kernel, self._device, int(parts[0]), mean)


def _seconds(value: str, printed_unit: str) -> float | None:
    found = number(value)
    return None if found is None else found * unit(printed_unit).factor
