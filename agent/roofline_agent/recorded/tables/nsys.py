"""Reads what `nsys stats --format csv` prints, and its `.sqlite` as its trace report would print it.

Kernels have launches and times, no FLOPs: Nsight Systems counts none. API calls, MPI events, NVTX ranges,
copies and fills are phases; a size report beside a time report gives the copies their bytes. A CUDA graph
that was recorded as a whole is one kernel.
"""

from __future__ import annotations

import re

from ..collector import Collector
from ..recording import Kernel, Launch
from ..text import Text
from .rows import Header, TableRow, headers_in, rows

_SECONDS = {"ns": 1e-9, "nsec": 1e-9, "us": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_OWN_REPORTS = {
    "CUDA_KERNEL": {"kernels", "trace"},
    "MEMORY_OPER": {"copies", "trace"},
    "CUDA_API": {"API", "calls"},
}
_WHOLE_GRAPHS = (
    "CUDA graphs were recorded as a whole, without their kernels: record with --cuda-graph-trace=node"
)
_FACTS = re.compile(r"# nsys (\w+): (.*)")


def sniff(head: str) -> int:
    return 92 if any(_kind(header) for header in headers_in(head)) else 0


def _kind(header: Header) -> str:
    """Which report the header is of, "" for none."""
    names = set(header.at)
    if {"start", "duration", "name"} <= names and {"result", "strm"} & names:
        return "calls" if "result" in names else "trace"
    if "total time" in names and names & {"time", "time(%)"}:
        if "operation" in names:
            return "mixed" if {"category", "instances"} <= names else "copies"
        if names & {"range", "num calls", "source"}:  # an event of MPI has a source
            return "activities"
        return "kernels" if {"instances", "name"} <= names else ""
    return "sizes" if {"total", "count", "operation"} <= names and header.unit("total") in _BYTES else ""


def read(text: Text, found: Collector) -> None:
    """Kernels, and phases of what is none."""
    found.tool = "nsys"
    reader = _NsysReader(found)
    for line in text.head.split("\n")[:10]:
        if fact := _FACTS.match(line):
            reader.fact(fact[1], fact[2])
    for row in rows(text, found, lambda header: bool(_kind(header))):
        reader.take(row)
    reader.finish()


class _NsysReader:
    """The reports of one file."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._sizes: dict[str, float] = {}
        self._copies: dict[str, tuple[int, float]] = {}
        self._mixed: dict[tuple[str, str], tuple[int, float]] = {}  # by category and name
        self._kinds: set[str] = set()
        self._zero_s: float | None = None
        self._take = {
            "trace": self._trace,
            "calls": self._call,
            "mixed": self._any,
            "copies": self._copy,
            "activities": self._activity,
            "kernels": self._kernel,
            "sizes": self._size,
        }

    def fact(self, name: str, value: str) -> None:
        if name == "warning":
            self._found.warn(value)
        elif name == "started_ns":
            self._found.started_ns = int(value) if value.isdigit() and len(value) < 20 else None
        else:
            self._found.facts[name] = value[:200]

    def take(self, row: TableRow) -> None:
        kind = _kind(row.header)
        self._kinds.add("API" if kind == "activities" and "num calls" in row.header.at else kind)
        if not self._take[kind](row):
            self._found.warn("a row without a name, a time or a count; it is left out", row.line)

    def _kernel(self, row: TableRow) -> bool:
        time_s, count, name = _seconds(row, "total time"), row.number("instances"), row.text("name")
        if time_s is None or not count or not name:
            return False
        self._found.kernel(Kernel(name, int(count), time_s, None, {}))
        return True

    def _activity(self, row: TableRow) -> bool:
        time_s, name = _seconds(row, "total time"), row.text("range").lstrip(":") or row.text("name")
        count = row.number("instances") if "instances" in row.header.at else row.number("num calls")
        if time_s is None or not count or not name:
            return False
        self._found.phase(f"NVTX {name}" if "range" in row.header.at else name, time_s, int(count))
        return True

    def _call(self, row: TableRow) -> bool:
        time_s, name = _seconds(row, "duration"), row.text("name")
        if time_s is None or not name:
            return False
        self._found.phase(name, time_s)
        return True

    def _any(self, row: TableRow) -> bool:
        """Of a report on kernels and copies, and perhaps calls, together."""
        time_s, count, name = _seconds(row, "total time"), row.number("instances"), row.text("operation")
        if time_s is None or not count or not name:
            return False
        self._mixed[row.text("category"), name] = (int(count), time_s)
        return True

    def _copy(self, row: TableRow) -> bool:
        time_s, count, name = _seconds(row, "total time"), row.number("count"), row.text("operation")
        if time_s is None or not count or not name:
            return False
        self._copies[name] = (int(count), time_s)
        return True

    def _size(self, row: TableRow) -> bool:
        total, name = row.number("total"), row.text("operation")
        if total is None or not name:
            return False
        self._sizes[name] = total * _BYTES[row.header.unit("total")]
        return True

    def _trace(self, row: TableRow) -> bool:
        start_s, time_s, name = _seconds(row, "start"), _seconds(row, "duration"), row.text("name")
        if start_s is None or time_s is None or not name:
            return False
        if name.startswith(("[CUDA mem", "[NVTX")):
            moved = row.number("bytes")
            size = _BYTES.get(row.header.unit("bytes"), 1.0)
            self._found.phase(name, time_s, 1, None if moved is None else moved * size)
            return True
        if self._zero_s is None and self._found.started_ns is None:
            self._zero_s = start_s  # the trace counts from the session's begin, which is not in it
        shape = [row.text(one) for one in ("grdx", "grdy", "grdz", "blkx", "blky", "blkz")]
        problem = "grid {}, {}, {} block {}, {}, {}".format(*shape) if all(shape) else ""
        if name.startswith("[CUDA graph"):
            self._found.warn(_WHOLE_GRAPHS)
        start_s -= self._zero_s or 0.0
        self._found.launch(Launch(name, time_s, start_s=start_s, library="cuda", problem=problem))
        if device := row.text("device"):
            self._found.facts.setdefault("device", re.sub(r"\s*\(\d+\)$", "", device))
        return True

    def finish(self) -> None:
        self._add_mixed()
        for name, (count, time_s) in self._copies.items():
            self._found.phase(name, time_s, count, self._sizes.get(name))
        if self._sizes and not self._copies:
            self._found.warn(
                "sizes of copies without their times: the report cuda_gpu_mem_time_sum has these"
            )

    def _add_mixed(self) -> None:
        """What has a report of its own in the file is in there already."""
        for (category, name), (count, time_s) in self._mixed.items():
            if self._kinds & _OWN_REPORTS.get(category, set()):
                continue
            if category == "CUDA_KERNEL":
                self._found.kernel(Kernel(name, count, time_s, None, {}))
            elif category == "MEMORY_OPER":
                self._copies[name] = (count, time_s)
            else:
                self._found.phase(name, time_s, count)


def _seconds(row: TableRow, name: str) -> float | None:
    value, factor = row.number(name), _SECONDS.get(row.header.unit(name))
    return None if value is None or factor is None or value < 0 else value * factor
