"""Reads tables of AMD's profilers: CSV of rocprof and rocprofv3, pmc_perf.csv of rocprof-compute.

FLOPs and HBM bytes follow from the counters that were collected (amd.py); other counters stay counters. What
several files of one run say of the same kernels and copies counts once.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import NamedTuple

from ..cells import Array, Distinct
from ..collector import Collector
from ..columns import WantedColumns, first_of_each, groups, repeated, spread, sums_by
from ..recording import Launch
from ..text import Text
from .dispatches import NANOSECOND, Dispatch, DispatchColumns, Dispatches, is_other, other, scale_of
from .rocprof_headers import counter_name, counters_of, kind_of, kinds_in, repeats
from .rows import Header, TableBlock, TableRow, headers_in, read_all, sizes_of

MOST_SUMS = 1 << 20  # dispatches times counters of a block
_BEGIN, _END = ("start_timestamp", "begin_ns", "beginns"), ("end_timestamp", "end_ns", "endns")
_KEY = ("process_id", "agent_id", "dispatch_id")  # what tells a dispatch from the one before
_SIZES = tuple(f"{what}_{axis}" for what in ("grid_size", "workgroup_size") for axis in "xyz")
_DOMAIN = re.compile(
    r"[A-Z]+(?:_[A-Z]+)*_API(?:_EXT)?|KERNEL_DISPATCH|MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY"
)
_COPY = re.compile(r"Copy(?:Host|Device)To(?:Host|Device)|MEMORY_COPY_\w+")  # before rocprofv3, and in it
# Functions are bare names; RCCL's kernels begin as its functions do.
_CALL = re.compile(
    r"(?:__)?(?:hip|hsa|roctx)\w*|(?:SCRATCH_)?MEMORY_\w+|(?:nccl|rccl|msccl)(?!\w*[Kk]ernel)[A-Z]\w*"
)
_SUMMED = (
    "sums of {0} are left out: another of the files has these {0} one by one, and both would be added up"
)
_OTHER = "a table of rocprofv3 without kernels: tables of kernels, copies, counters and sums (stats) are read"
_REPEATED = (
    "kernels are left out: another of the files says more about those of this run, and each would count "
    "twice. If that one is of some kernels only, import this one alone; of counters of several passes that "
    "are not joined, rocprof-compute makes one table (pmc_perf.csv)"
)


def sniff(head: str) -> int:
    return 93 if any(kind_of(header) for header in headers_in(head)) else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "rocprof"
    before, after = text.companions[: text.earlier], text.companions[text.earlier :]
    is_elsewhere = repeats(text.head, before, after)
    if is_elsewhere:
        found.warn(_REPEATED)
    reader = _RocprofReader(found, is_elsewhere, kinds_in(text.companions))
    wanted = partial(_wanted, keeps=found.launches is not None)
    read_all(reader, text, found, lambda header: bool(kind_of(header)), wanted)
    reader.finish()


def _wanted(header: Header, keeps: bool) -> WantedColumns | None:
    """The columns of kernels and counters; keeps: with those of each launch."""
    kind = kind_of(header)
    if kind not in ("kernels", "counters") or not {_BEGIN[0], _END[0]} <= set(header.at):
        return None
    texts = ["kernel_name", "agent_id", *(_SIZES if keeps else ())]
    numbers = [_BEGIN[0], _END[0]]
    if kind == "counters":
        texts = ["kernel_name", "counter_name", *_KEY]
        numbers.append("counter_value")
    at = header.at
    return WantedColumns([at[one] for one in texts if one in at], [at[one] for one in numbers])


class _CounterRows(NamedTuple):
    """The dispatch that the rows of a counter each are of, what was counted and its value."""

    dispatches: Array
    names: Distinct
    values: Array


class _RocprofReader:
    """The tables of one file."""

    def __init__(self, found: Collector, is_elsewhere: bool, elsewhere: set[str]) -> None:
        """is_elsewhere: whether another file says more about the kernels; elsewhere: tables of the others."""
        self._found = found
        self._dispatches = Dispatches(found, is_elsewhere)
        self._has_kernels = bool(elsewhere & {"kernels", "counters", "wide"})
        self._has_copies = "copies" in elsewhere
        self._key: tuple[str, ...] = ()
        self._dispatch: Dispatch | None = None  # whose counters are in rows of their own
        self._counters: dict[str, float] = {}  # of it
        self._take = {
            "counters": self._counter,
            "kernels": self._launch,
            "wide": self._wide,
            "copies": self._copy,
            "statistics": self._statistic,
            "others": self._other,
        }

    def take(self, row: TableRow) -> None:
        if not self._take[kind_of(row.header)](row):
            self._found.warn("a row without a name, a time or a value; it is left out", row.line)

    def take_block(self, block: TableBlock) -> None:
        take = self._counter_block if kind_of(block.header) == "counters" else self._launch_block
        if not take(block):
            for row in block.rows():
                self.take(row)

    def _launch(self, row: TableRow) -> bool:
        span, name = _span(row), row.text("kernel_name")
        if span is None or not name:
            return False
        gpu, problem = _gpu(row.text("agent_id")), sizes_of(*map(row.text, _SIZES))
        self._dispatches.take(Dispatch(name, span, gpu=gpu, problem=problem))
        return True

    def _launch_block(self, block: TableBlock) -> bool:
        """The same as `_launch` for each row; False where one is unusual."""
        names, spans = block.names("kernel_name"), _spans(block)
        if names is None or spans is None:
            return False
        problems = block.each(_SIZES, sizes_of) if self._found.launches is not None else ()
        self._dispatches.take_columns(
            [DispatchColumns(names.texts, names.which, block.columns.places, *spans, problems=problems)],
            _gpus(block.distinct("agent_id")),
        )
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
        elif _COPY.fullmatch(name) and self._has_copies:
            self._found.warn(_SUMMED.format("copies"))
        elif _CALL.fullmatch(name) or _COPY.fullmatch(name):
            self._found.phase(name, total * NANOSECOND, int(calls))
        elif self._has_kernels:
            self._found.warn(_SUMMED.format("kernels"))
        else:
            self._found.launch(Launch(name, total * NANOSECOND, library="hip", count=int(calls)))
        return True

    def _other(self, row: TableRow) -> bool:
        self._found.warn(_OTHER)
        return True

    def _counter(self, row: TableRow) -> bool:
        name, value = counter_name(row.text("counter_name")), row.number("counter_value")
        if not name or value is None:
            return False
        key = tuple(map(row.text, _KEY))
        if key != self._key or self._dispatch is None:
            self._flush()
            self._key, self._counters = key, {}
            self._dispatch = Dispatch(row.text("kernel_name"), _span(row), gpu=_gpu(row.text("agent_id")))
        # One row for each instance, or their sum.
        self._counters[name] = self._counters.get(name, 0.0) + value
        return True

    def _counter_block(self, block: TableBlock) -> bool:
        """The same as `_counter` for each row, in columns for dispatches whose rows are all in the block.
        False where a row is unusual."""
        kernels, names, values = block.names("kernel_name"), block.names("counter_name"), _values(block)
        spans = _spans(block)
        if kernels is None or names is None or values is None or spans is None:
            return False
        is_new = self._dispatch is None or tuple(block.text(one, 0) for one in _KEY) != self._key
        names = names._replace(texts=list(map(counter_name, names.texts)))
        begins = block.changes(_KEY, is_new)
        if len(begins) < 2 or len(begins) * len(names.texts) > MOST_SUMS:
            return False
        for row in block.rows(0, int(begins[0])):
            self.take(row)
        self._flush()
        whole = slice(int(begins[0]), int(begins[-1]))
        counted = _CounterRows(
            repeated(begins[1:] - begins[:-1]), names._replace(which=names.which[whole]), values[whole]
        )
        table, is_there = sums_by(counted.dispatches, counted.names, counted.values)
        several = []
        for mine in groups(is_there):
            heads = begins[mine]
            counters = {name: table[mine, at] for at, name in enumerate(names.texts) if is_there[mine[0], at]}
            starts_s, times_s = (column[heads] for column in spans)
            which = kernels.which[heads]
            several.append(DispatchColumns(kernels.texts, which, mine, starts_s, times_s, counters))
        agents = block.distinct("agent_id")
        self._dispatches.take_columns(several, _gpus(agents))
        self._keep_others(counted, table, agents, whole)
        for row in block.rows(whole.stop):  # these may go on in the next block
            self.take(row)
        return True

    def _keep_others(
        self, counted: _CounterRows, table: Array, agents: Distinct | None, whole: slice
    ) -> None:
        """Counters that are neither of FLOPs nor of bytes, as long as there is room. table: their sums by
        dispatch and name."""
        dispatches, names, _ = counted
        are_others = [is_other(name) for name in names.texts]
        if not any(are_others):
            return
        firsts = first_of_each(dispatches * len(names.texts) + names.which)
        mine = firsts[spread(are_others, names.which[firsts])]
        room = max(self._dispatches.room, 0)
        kept, left = mine[:room], mine[room:]
        if len(kept):
            gpus = _gpus(agents)
            likes = [other(name, gpu) for name in names.texts for gpu in gpus]
            which = names.which[kept] * len(gpus)
            if agents is not None:
                which = which + agents.which[whole][kept]
            values = table[dispatches[kept], names.which[kept]]
            scaled = values * spread(list(map(scale_of, names.texts)), names.which[kept])
            self._found.counters.extend(likes, which, {"value": scaled, "printed": values})
        if len(left):
            self._dispatches.warn_of_room(len(set(dispatches[left].tolist())))

    def _wide(self, row: TableRow) -> bool:
        self._flush()
        counters = {
            name: value
            for name, at in counters_of(row.header).items()
            if (value := _number(row.cells[at])) is not None
        }
        gpu = row.text("gpu_id") or row.text("gpu-id") or _gpu(row.text("agent_id"))
        if name := row.text("kernel_name") or row.text("kernelname"):
            self._dispatches.take(Dispatch(name, _span(row), counters, gpu))
        return bool(name)

    def _flush(self) -> None:
        if self._dispatch is not None and self._dispatch.name:
            self._dispatches.take(self._dispatch._replace(counters=self._counters))
        self._dispatch = None

    def finish(self) -> None:
        self._flush()
        self._dispatches.finish()


def _span(row: TableRow) -> tuple[float, float] | None:
    """Start and duration in seconds."""
    begin = next((value for one in _BEGIN if (value := row.number(one)) is not None), None)
    end = next((value for one in _END if (value := row.number(one)) is not None), None)
    if begin is None or end is None or end < begin:
        return None
    return begin * NANOSECOND, (end - begin) * NANOSECOND


def _spans(block: TableBlock) -> tuple[Array, Array] | None:
    """Starts and durations in seconds; None where a row has none."""
    begins, ends = block.numbers(_BEGIN[0]), block.numbers(_END[0])
    if begins is None or ends is None:
        return None
    took = ends - begins
    return (begins * NANOSECOND, took * NANOSECOND) if (took >= 0).all() else None


def _values(block: TableBlock) -> Array | None:
    """Of counters; None where one is no number."""
    values = block.numbers("counter_value")
    return None if values is None or math.isnan(values.sum()) else values


def _gpu(agent: str) -> str:
    return agent.removeprefix("Agent ")


def _gpus(agents: Distinct | None) -> list[str]:
    return list(map(_gpu, agents.texts)) if agents is not None else [""]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
