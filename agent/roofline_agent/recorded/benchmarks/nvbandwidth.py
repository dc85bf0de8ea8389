"""Reads NVIDIA's nvbandwidth, text or --json: copies between host and GPUs.

Copies within a GPU's memory are its ceiling: nvbandwidth counts bytes that were both read and written.
Copies over PCIe and NVLink are counters: no level of a roofline.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..collector import Collector
from ..numbers import finite
from ..recording import Counter, RecordedCeiling
from ..text import Text

GIGABYTE = 1e9
MAX_JSON = 64 << 20
_RUNNING = re.compile(r"\s*Running (\w+)\.")
_VERSION = re.compile(r"nvbandwidth Version: v?([\d.]+)")
_DEVICE = re.compile(r"\s*Device (\d+): (.+?)(?:\s*\([0-9A-Fa-f:.]+\))?\s*$")
_MATRIX = re.compile(r"\s*(\d+)((?:\s+(?:[\d.]+|N/A))+)\s*$")
_LOCAL = "device_local_copy"


def sniff(head: str) -> int:
    return 96 if "nvbandwidth Version" in head or re.match(r'\s*\{\s*"nvbandwidth"\s*:', head) else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "nvbandwidth"
    if text.head.lstrip().startswith("{"):
        _read_json("".join(text.chunks())[:MAX_JSON], found)
        return
    test, described, is_below = "", "", False
    for line in text.lines():
        if version := _VERSION.search(line):
            found.version = version[1]
        elif device := _DEVICE.match(line):
            found.facts.setdefault("device", device[2])
        elif running := _RUNNING.match(line):
            test, is_below = running[1], False
        elif test and "(GB/s)" in line:
            described, is_below = line, True  # a line of column numbers follows, then the rows
        elif line.lstrip().startswith("SUM"):
            is_below = False
        elif is_below and (row := _MATRIX.match(line)) and "." in line:
            for column, cell in enumerate(row[2].split()):
                _add(test, described, int(row[1]), column, finite(cell), found)


def _read_json(content: str, found: Collector) -> None:
    try:
        report: Any = json.loads(content.rstrip("\0"))["nvbandwidth"]
        tests = report["testcases"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        found.warn(f"no whole report of nvbandwidth ({error})")
        return
    found.version = str(report.get("git_version", "")).lstrip("v")
    for test in tests if isinstance(tests, list) else []:
        if not isinstance(test, dict):
            continue
        described, matrix = str(test.get("bandwidth_description") or ""), test.get("bandwidth_matrix")
        if described and "(GB/s)" not in described:
            continue  # a latency
        for at, row in enumerate(matrix if isinstance(matrix, list) else []):
            for column, cell in enumerate(row if isinstance(row, list) else []):
                _add(str(test.get("name", "")), described, at, column, finite(str(cell)), found)


def _add(test: str, described: str, row: int, column: int, value: float | None, found: Collector) -> None:
    """described: what the test says of its matrix, "" where it says nothing."""
    if value is None or value <= 0:
        return
    rate = value * GIGABYTE
    if test.startswith(_LOCAL):
        method = f"nvbandwidth: {test}, read and written"
        gpu = f"gpu {column}"
        found.ceilings.append(
            RecordedCeiling("hbm.copy", "memory", "hbm", "", 2 * rate, "byte/s", method, 0, gpu)
        )
        return
    name = f"nvbandwidth.{test}"
    is_of_pairs = "GPU(row)" in described if described else test.startswith("device_to_device")
    scope = f"gpu {row} to gpu {column}" if is_of_pairs else f"gpu {column}"
    found.counters.append(
        Counter(name, name, rate, "byte/s", scope, kind="gauge", printed=value, printed_unit="GB/s")
    )
