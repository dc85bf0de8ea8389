"""Reads AMD's profilers: CSV of rocprofv3, and pmc_perf.csv of rocprof-compute.

FLOPs and HBM bytes follow from the counters that were collected (amd.py); other counters stay counters.
"""

from __future__ import annotations

import re

from ..collector import Collector
from ..recording import Counter, Launch
from ..text import Text
from .amd import work_of
from .rows import Header, TableRow, headers_in, rows

NANOSECOND = 1e-9
MAX_COUNTERS = 20_000  # values that are neither FLOPs nor bytes
_BEGIN, _END = ("start_timestamp", "begin_ns"), ("end_timestamp", "end_ns")
_USED = ("sq_insts_valu_", "tcc_ea", "tcc_bubble")
_WORDS = """kind guid agent_id queue_id stream_id process_id thread_id dispatch_id kernel_id kernel_name
correlation_id lds_block_size lds_block_size_v scratch_size scratch_per_workitem vgpr_count accum_vgpr_count
sgpr_count arch_vgpr accum_vgpr sgpr wave_size grid_size workgroup_size lds_per_workgroup gpu_id node_id
pid tid queue_index private_segment_size group_segment_size start_timestamp end_timestamp"""
_IDENTITY = frozenset(_WORDS.split())
_DOMAIN = re.compile(
    r"[A-Z]+(?:_[A-Z]+)*_API(?:_EXT)?|KERNEL_DISPATCH|MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY"
)
# Functions are bare names; RCCL's kernels begin as its functions do.
_CALL = re.compile(
    r"(?:__)?(?:hip|hsa|roctx)\w*|(?:SCRATCH_)?MEMORY_\w+|(?:nccl|rccl|msccl)(?!\w*[Kk]ernel)[A-Z]\w*"
)


def sniff(head: str) -> int:
    return 93 if any(_kind(header) for header in headers_in(head)) else 0


def _kind(header: Header) -> str:
    names = set(header.at)
    if {"counter_name", "counter_value", "kernel_name", "dispatch_id"} <= names:
        return "counters"
    if {"kernel_name", "start_timestamp", "end_timestamp"} <= names:
        return "kernels" if "kind" in names else "wide" if {"dispatch_id", "gpu_id"} & names else ""
    if {"direction", "start_timestamp", "end_timestamp"} <= names:
        return "copies"
    return "statistics" if {"name", "calls", "totaldurationns"} <= names else ""


def read(text: Text, found: Collector) -> None:
    found.tool = "rocprof"
    reader = _RocprofReader(found)
    for row in rows(text, found, lambda header: bool(_kind(header))):
        reader.take(row)
    reader.finish()


class _Dispatch:
    """The counters of one dispatch, which stand in rows of their own."""

    def __init__(self, row: TableRow) -> None:
        self.name = row.text("kernel_name")
        self.span_s = _span(row)
        self.agent = row.text("agent_id").removeprefix("Agent ")
        self.counters: dict[str, float] = {}


class _RocprofReader:
    """The tables of one file."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._zero_s: float | None = None
        self._key: tuple[str, ...] = ()
        self._dispatch: _Dispatch | None = None
        self._take = {
            "counters": self._counter,
            "kernels": self._launch,
            "wide": self._wide,
            "copies": self._copy,
            "statistics": self._statistic,
        }

    def take(self, row: TableRow) -> None:
        if not self._take[_kind(row.header)](row):
            self._found.warn("a row without a name, a time or a value; it is left out", row.line)

    def _launch(self, row: TableRow) -> bool:
        span, name = _span(row), row.text("kernel_name")
        if span is None or not name:
            return False
        sizes = [row.text(f"{what}_{axis}") for what in ("grid_size", "workgroup_size") for axis in "xyz"]
        problem = "grid {}, {}, {} block {}, {}, {}".format(*sizes) if all(sizes) else ""
        start_s = self._since_zero(span[0])
        self._found.launch(Launch(name, span[1], start_s=start_s, library="hip", problem=problem))
        return True

    def _copy(self, row: TableRow) -> bool:
        span = _span(row)
        if span is None:
            return False
        self._found.phase(f"copy {row.text('direction').lower()}", span[1])
        return True

    def _statistic(self, row: TableRow) -> bool:
        name, calls, total = row.text("name"), row.number("calls"), row.number("totaldurationns")
        if not name or not calls or total is None:
            return False
        if _DOMAIN.fullmatch(name):
            self._found.warn(
                "sums of whole domains (domain_stats) are left out: kernel_stats has the kernels"
            )
        elif _CALL.fullmatch(name):
            self._found.phase(name, total * NANOSECOND, int(calls))
        else:
            self._found.launch(Launch(name, total * NANOSECOND, library="hip", count=int(calls)))
        return True

    def _counter(self, row: TableRow) -> bool:
        name, value = row.text("counter_name"), row.number("counter_value")
        if not name or value is None:
            return False
        key = tuple(row.text(one) for one in ("process_id", "agent_id", "dispatch_id"))
        if key != self._key or self._dispatch is None:
            self._flush()
            self._key, self._dispatch = key, _Dispatch(row)
        counters = self._dispatch.counters
        counters[name] = counters.get(name, 0.0) + value  # one row for each instance, or their sum
        return True

    def _wide(self, row: TableRow) -> bool:
        self._flush()
        dispatch = _Dispatch(row)
        for name, cell in zip(row.header.names, row.cells, strict=True):
            if name not in _IDENTITY and (value := _number(cell)) is not None:
                dispatch.counters[_case(name)] = value
        dispatch.agent = row.text("gpu_id") or dispatch.agent
        self._dispatch = dispatch
        self._flush()
        return bool(dispatch.name)

    def _flush(self) -> None:
        dispatch, self._dispatch = self._dispatch, None
        if dispatch is None or not dispatch.name:
            return
        work = work_of(dispatch.counters)
        self._found.launch(
            Launch(
                dispatch.name,
                dispatch.span_s[1] if dispatch.span_s else None,
                work.flops,
                {} if work.hbm_bytes is None else {"dram": work.hbm_bytes},
                start_s=self._since_zero(dispatch.span_s[0]) if dispatch.span_s else None,
                precision=work.precision,
                library="hip",
                note=work.note,
            )
        )
        for name, value in dispatch.counters.items():
            if name.lower().startswith(_USED):
                continue
            if len(self._found.counters) >= MAX_COUNTERS:
                self._found.warn(f"more than {MAX_COUNTERS} other counters; the rest are left out")
                return
            scope = f"gpu {dispatch.agent or 0}"
            self._found.counters.append(Counter(name, name, value, "1", scope, kind="gauge", printed=value))

    def _since_zero(self, start_s: float) -> float:
        """The clock of the GPU's driver has no date."""
        if self._zero_s is None:
            self._zero_s = start_s
        return start_s - self._zero_s

    def finish(self) -> None:
        self._flush()


def _span(row: TableRow) -> tuple[float, float] | None:
    """Start and duration in seconds."""
    begin = next((value for one in _BEGIN if (value := row.number(one)) is not None), None)
    end = next((value for one in _END if (value := row.number(one)) is not None), None)
    if begin is None or end is None or end < begin:
        return None
    return begin * NANOSECOND, (end - begin) * NANOSECOND


def _case(name: str) -> str:
    """Counters as the hardware's manual writes them: names of headers are in lower case here."""
    return "_".join(
        part if part in ("sum", "avr", "max", "min") else part.upper() for part in name.split("_")
    )


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
