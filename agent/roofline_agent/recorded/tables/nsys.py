"""Reads what `nsys stats --format csv` prints, and its `.sqlite` as its trace report would print it.

Kernels have launches and times, no FLOPs: Nsight Systems counts none. API calls, MPI events, NVTX ranges,
copies and fills are phases; a size report next to a time report gives the copies their bytes. Of what was
traced, the sums next to the trace are left out; of several reports of one thing only the first counts, for
nothing in them says whether they cover the same time. A CUDA graph that was recorded as a whole is one
kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial

from ..cells import Array, Distinct
from ..collector import MAX_PHASES, Collector
from ..columns import WantedColumns, first_of_each, spread, sums
from ..numbers import finite
from ..recording import Kernel, Launch, LaunchColumns
from ..text import Text
from .nsys_database import SEVERAL_PROCESSES
from .rows import Header, TableBlock, TableRow, headers_in, read_all, sizes_of

_SECONDS = {"ns": 1e-9, "nsec": 1e-9, "us": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_OWN_REPORTS = {
    "CUDA_KERNEL": {"kernels", "trace"},
    "MEMORY_OPER": {"copies", "trace"},
    "CUDA_API": {"API", "calls"},
}
_ONCE = {
    "trace": "what the GPU did",
    "calls": "calls",
    "kernels": "sums of kernels",
    "copies": "times of copies",
    "sizes": "sizes of copies",
    "mixed": "sums of kernels, copies and calls",
}
_REPEATED = "several reports of {}: only the first counts, as the others may repeat it"
_REPEATED_NAME = "calls or ranges are in several reports: each counts as in the first that has it"
_ELSEWHERE = "{} are left out: another of the files has what they are of, and both would be added up"
# Reports of which one, in another file, says the same.
_SAME = {
    "kernels": {"trace", "mixed", "kernels"},
    "copies": {"trace", "mixed", "copies"},
    "sizes": {"trace", "sizes"},
    "mixed": {"trace", "mixed", "kernels", "copies"},
}
_SIZES = ("grdx", "grdy", "grdz", "blkx", "blky", "blkz")
_NO_KERNELS = ("[CUDA mem", "[NVTX")
_WHOLE_GRAPHS = (
    "CUDA graphs were recorded as a whole, without their kernels: record with --cuda-graph-trace=node"
)
_SEVERAL_GPUS = "kernels of {} GPUs, which may be those of several ranks: all are taken for one rank"
_MOST_NAMES = 1000  # of GPUs and of processes that are told apart
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


def _kinds_in(heads: Sequence[str]) -> set[str]:
    return {_kind(header) for head in heads for header in headers_in(head)}


def read(text: Text, found: Collector) -> None:
    """Kernels, and phases of what is none."""
    found.tool = "nsys"
    elsewhere = _kinds_in(text.companions) & {"trace"} | _kinds_in(text.companions[: text.earlier])
    reader = _NsysReader(found, elsewhere)
    for line in text.head.split("\n")[:10]:
        if fact := _FACTS.match(line):
            reader.fact(fact[1], fact[2])
    wanted = partial(_wanted, keeps=found.launches is not None)
    read_all(reader, text, found, lambda header: bool(_kind(header)), wanted)
    reader.finish()


def _wanted(header: Header, keeps: bool) -> WantedColumns | None:
    """The columns of a trace; keeps: with those of each launch."""
    if _kind(header) != "trace" or not {"start", "duration"} <= set(header.at):
        return None
    names = ("name", "bytes", "device", *(_SIZES if keeps else ()))
    numeric = header.at["start"], header.at["duration"]
    return WantedColumns([header.at[name] for name in names if name in header.at], numeric)


class _NsysReader:
    """The reports of one file."""

    def __init__(self, found: Collector, elsewhere: set[str]) -> None:
        """elsewhere: reports of files that are imported together with this one and that count before it."""
        self._found = found
        self._elsewhere = elsewhere
        self._tables = 0
        self._is_repeated = False  # this table
        self._first_tables: dict[str, int] = {}  # of calls and ranges
        self._kernels: dict[str, tuple[int, float]] = {}  # sums
        self._calls: dict[str, tuple[int, float]] = {}  # sums
        self._traced_calls: set[str] = set()
        self._devices: set[str] = set()
        self._processes: set[str] = set()
        self._sizes: dict[str, float] = {}
        self._copies: dict[str, tuple[int, float]] = {}
        self._mixed: dict[tuple[str, str], tuple[int, float]] = {}  # by category and name
        self._kinds: set[str] = set()
        self._zero_s: float | None = None
        self._header: Header | None = None
        self._kind = ""  # of that header
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
            self._found.started_ns = int(value) if value.isdecimal() and len(value) < 20 else None
        else:
            self._found.facts[name] = value[:200]

    def take(self, row: TableRow) -> None:
        self._look_at(row.header)
        if self._is_repeated:
            return
        if not self._take[self._kind](row):
            self._found.warn("a row without a name, a time or a count; it is left out", row.line)

    def take_block(self, block: TableBlock) -> None:
        self._look_at(block.header)
        if not self._is_repeated and not self._trace_block(block):
            for row in block.rows():
                self.take(row)

    def _look_at(self, header: Header) -> None:
        if header is self._header:
            return
        self._header, self._kind = header, _kind(header)
        self._tables += 1
        self._is_repeated = self._kind in self._kinds and self._kind in _ONCE
        if self._is_repeated:
            self._found.warn(_REPEATED.format(_ONCE[self._kind]))
        elif self._elsewhere & _SAME.get(self._kind, set()):
            self._is_repeated = True
            self._found.warn(_ELSEWHERE.format(_ONCE[self._kind]))
        self._kinds.add("API" if self._kind == "activities" and "num calls" in header.at else self._kind)

    def _kernel(self, row: TableRow) -> bool:
        time_s, count, name = _seconds(row, "total time"), row.number("instances"), row.text("name")
        if time_s is None or not count or not name:
            return False
        # A report by sizes of grid and block has a row for each of them.
        count_before, time_before = self._kernels.get(name, (0, 0.0))
        self._kernels[name] = (count_before + int(count), time_before + time_s)
        return True

    def _activity(self, row: TableRow) -> bool:
        time_s, name = _seconds(row, "total time"), row.text("range").lstrip(":") or row.text("name")
        count = row.number("instances") if "instances" in row.header.at else row.number("num calls")
        if time_s is None or not count or not name:
            return False
        name = f"NVTX {name}" if "range" in row.header.at else name
        if self._is_in_earlier_table(name):
            self._found.warn(_REPEATED_NAME, row.line)
            return True
        if "num calls" in row.header.at:
            count_before, time_before = self._calls.get(name, (0, 0.0))
            self._calls[name] = (count_before + int(count), time_before + time_s)
        else:
            self._found.phase(name, time_s, int(count))
        return True

    def _is_in_earlier_table(self, name: str) -> bool:
        if len(self._first_tables) < MAX_PHASES:  # more phases are not kept either
            self._first_tables.setdefault(name, self._tables)
        return self._first_tables.get(name, self._tables) != self._tables

    def _call(self, row: TableRow) -> bool:
        time_s, name = _seconds(row, "duration"), row.text("name")
        if time_s is None or not name:
            return False
        self._found.phase(name, time_s)
        self._traced_calls.add(name)
        if len(self._processes) < _MOST_NAMES:
            self._processes.add(row.text("pid"))
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
        if name.startswith(_NO_KERNELS):
            self._copy_of(name, time_s, row.text("bytes"), row.header)
            return True
        if name.startswith("[CUDA graph"):
            self._found.warn(_WHOLE_GRAPHS)
        problem = sizes_of(*map(row.text, _SIZES))
        start_s -= self._zero(start_s)
        self._found.launch(Launch(name, time_s, None, {}, start_s, "", "cuda", "", problem))
        self._note_device(row.text("device"))
        return True

    def _trace_block(self, block: TableBlock) -> bool:
        """The same as `_trace` for each row, kernels in columns; False where a row is unusual."""
        names = block.names("name")
        starts, times = _column_s(block, "start"), _column_s(block, "duration")
        if names is None or starts is None or times is None:
            return False
        are_kernels = [name[:1] != "[" for name in names.texts]
        if not all(name.startswith(_NO_KERNELS) for name in names.texts if name[:1] == "["):
            return False
        is_kernel = spread(are_kernels, names.which)
        kernels, others = is_kernel.nonzero()[0], (~is_kernel).nonzero()[0]
        if len(others):
            self._copies_of(block, names, times, others)
        if not len(kernels):
            return True
        keeps = self._found.launches is not None  # else sums alone are made, which say nothing of sizes
        launches = LaunchColumns(
            Launch("", None, library="cuda"),
            names.texts,
            names.which[kernels],
            kernels,
            times[kernels],
            starts_s=starts[kernels] - self._zero(float(starts[kernels[0]])),
            problems=block.each(_SIZES, sizes_of, kernels) if keeps else (),
        )
        self._found.launch_columns([launches])
        devices = block.distinct("device")
        if devices is not None:
            which = devices.which[kernels]
            firsts = [0] if len(devices.texts) == 1 else first_of_each(which).tolist()
            for first in firsts:
                self._note_device(devices.texts[which[first]])
        return True

    def _copies_of(self, block: TableBlock, names: Distinct, times: Array, rows: Array) -> None:
        """The same as `_copy_of` for each of the rows."""
        sizes, which, many = block.numbers("bytes", rows), names.which[rows], len(names.texts)
        factor = _BYTES.get(block.header.unit("bytes"), 1.0)
        moved = [math.nan] * many if sizes is None else sums(which, sizes * factor, many)
        counts, seconds = sums(which, None, many), sums(which, times[rows], many)
        for name, count, time_s, size in zip(names.texts, counts, seconds, moved, strict=True):
            if count:
                self._found.phase(name, time_s, int(count), None if math.isnan(size) else size)

    def _copy_of(self, name: str, time_s: float, size: str, header: Header) -> None:
        """Or a fill, or a range, which has no size."""
        moved = finite(size)
        factor = _BYTES.get(header.unit("bytes"), 1.0)
        self._found.phase(name, time_s, 1, None if moved is None else moved * factor)

    def _zero(self, start_s: float) -> float:
        """The trace counts from the session's begin, where the file has it, else from the first kernel."""
        if self._zero_s is None:
            self._zero_s = start_s if self._found.started_ns is None else 0.0
        return self._zero_s

    def _note_device(self, name: str) -> None:
        if not name:
            return
        if len(self._devices) < _MOST_NAMES:
            self._devices.add(name)
        if "device" not in self._found.facts:
            self._found.facts["device"] = re.sub(r"\s*\(\d+\)$", "", name)

    def finish(self) -> None:
        if len(self._devices) > 1:
            self._found.warn(_SEVERAL_GPUS.format(len(self._devices)))
        if len(self._processes) > 1:
            self._found.warn(SEVERAL_PROCESSES)
        if "trace" in self._kinds:
            self._kernels.clear()
            self._copies.clear()
            self._sizes.clear()
        for name, (count, time_s) in self._kernels.items():
            self._found.kernel(Kernel(name, count, time_s, None, {}, on_gpu=True))
        for name, (count, time_s) in self._calls.items():
            if name not in self._traced_calls:
                self._found.phase(name, time_s, count)
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
                self._found.kernel(Kernel(name, count, time_s, None, {}, on_gpu=True))
            elif category == "MEMORY_OPER":
                self._copies[name] = (count, time_s)
            else:
                self._found.phase(name, time_s, count)


def _column_s(block: TableBlock, name: str) -> Array | None:
    """In seconds; None where a cell is no time."""
    values, factor = block.numbers(name), _SECONDS.get(block.header.unit(name))
    return None if values is None or factor is None or math.isnan(values.sum()) else values * factor


def _seconds(row: TableRow, name: str) -> float | None:
    value, factor = row.number(name), _SECONDS.get(row.header.unit(name))
    return None if value is None or factor is None or value < 0 else value * factor
