"""A timeline in the trace format that Perfetto and Chrome read, written as it comes.

A rank is a process, a row of it (steps, phases, asked, ...) a thread; times are microseconds since the begin
of the job. Slices of one thread must nest, and ours would only ever overlap: one that does goes to another
thread, "engine 2", next to the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TextIO

import numpy as np
from roofline.answers.tables import TableChunk

from ..answers import ABSENT
from ..errors import Refused
from ..tables.names import clean
from . import json_rows
from .arrays import Arrays, Column, of_chunk, stretches
from .json_rows import Block, Bools, Ints

ROWS = (
    "steps",
    "between",
    "phases",
    "asked",
    "engine",
    "layers",
    "kernels",
    "waits",
    "not watched",
)  # from above
LANES = 64  # threads of one row at most
FIXED = ("rank", "host", "row", "name", "begin_ns", "end_ns")
COUNTER = "counter"
PAUSE = 0.1  # of a sample's length: where no sample follows for longer, its curve falls to 0
MOST_TEXTS = 200_000  # names that are kept in JSON: steps of ranks have the same ones


class Written(NamedTuple):
    """What a trace holds."""

    slices: int
    counters: int
    ranks: int
    dropped: int  # slices that overlapped more than LANES others
    notes: list[str]


def write_trace(
    pieces: Iterable[Arrays | TableChunk], out: TextIO, progress: Callable[[int], None] = lambda events: None
) -> Written:
    """Write what `Client.timeline` or `timeline_arrays` gives as one trace. progress: receives how many
    events are written.

    Raises Refused when it does not begin as a timeline does.
    """
    trace: _Trace | None = None
    notes: list[str] = []
    for given in pieces:
        piece = given if isinstance(given, Arrays) else of_chunk(given)
        notes += piece.notes
        if trace is None:
            trace = _Trace(piece, out)
        for columns in stretches(piece.columns, "rank", "row"):
            trace.add(str(columns["rank"][0]), str(columns["row"][0]), columns, piece.units.get("value", ""))
        progress(trace.slices + trace.counters)
    if trace is None:
        raise Refused("the server sends no timeline")
    trace.end_curves()
    out.write("\n]}\n")
    return Written(trace.slices, trace.counters, len(trace.processes), trace.dropped, notes)


Columns = Mapping[str, Column]  # equally long, by name


class _Trace:
    """Events are written a stretch at a time, all their times, names and arguments at once."""

    def __init__(self, first: Arrays, out: TextIO) -> None:
        rows = [
            dict(zip(first.columns, row, strict=True)) for row in zip(*first.columns.values(), strict=True)
        ]
        job = next((row for row in rows if row["row"] == "job"), None)
        if job is None:
            raise Refused("the timeline that the server sends does not begin with the job")
        self._out = out
        begin_ns, end_ns = (_number(job[name]) for name in ("begin_ns", "end_ns"))
        self._begin_ns = int(begin_ns or 0)
        self._has_events = False
        self._lanes: dict[tuple[str, str], list[_Lane]] = {}
        self._threads: dict[tuple[int, int], int] = {}  # (process, place of the row) -> how many
        self._curves: dict[tuple[str, str], _Sample] = {}  # (rank, name) -> the last one
        self._texts: dict[str, str] = {}
        self.processes: dict[str, int] = {}
        self.slices = self.counters = self.dropped = 0
        clocks = [row for row in rows if row["row"] == "clock"]
        about = {
            "job": clean(str(job["name"])),
            "mode": job.get("mode", ""),
            "begin_unix_ns": begin_ns,
            "end_unix_ns": end_ns,
            "clock_error_s": {clean(str(row["host"])): _number(row.get("error")) for row in clocks},
            "writer": "roofline-client timeline; units of arguments: s, byte, FLOP",
        }
        head = {"displayTimeUnit": "ns", "otherData": about}
        out.write(json.dumps(head)[:-1] + ', "traceEvents": [')

    def add(self, rank: str, kind: str, columns: Columns, unit: str) -> None:
        """unit: of a counter's value."""
        if kind == "rank":
            pid = self.processes[rank] = len(self.processes) + 1
            host = columns["host"][0]
            self._meta("process_name", pid, 0, name=clean(f"{rank} @{host}" if host else rank))
            self._meta("process_sort_index", pid, 0, sort_index=pid)
        elif kind == COUNTER:
            self._add_counters(rank, columns, unit)
        elif kind not in ("job", "clock"):
            self._add_slices(rank, kind, columns)

    def _add_counters(self, rank: str, columns: Columns, unit: str) -> None:
        for curve in stretches(columns, "name"):
            self._add_curve(rank, str(curve["name"][0]), curve, unit)

    def _add_curve(self, rank: str, name: str, columns: Columns, unit: str) -> None:
        """A sample holds until the next one: where there is none for a while, the curve falls to 0."""
        begins, ends = _numbers(columns, "begin_ns"), _numbers(columns, "end_ns")
        values = np.asarray(columns["value"])
        last = self._curves.get((rank, name), _Sample(int(begins[0]), int(begins[0]), unit))
        since, until = np.append(last.begin_ns, begins[:-1]), np.append(last.end_ns, ends[:-1])
        falls = until[begins - until > PAUSE * (until - since)]
        times = np.append(begins, falls)
        order = np.argsort(times, kind="stable")
        values = np.append(values, np.zeros(len(falls), values.dtype))
        self._write_samples(rank, name, times[order], values[order], unit)
        self._curves[rank, name] = _Sample(int(begins[-1]), int(ends[-1]), unit)
        self.counters += len(begins)

    def end_curves(self) -> None:
        """Behind their last samples."""
        for (rank, name), last in self._curves.items():
            self._write_samples(rank, name, np.array([last.end_ns]), np.zeros(1, np.int64), last.unit)

    def _write_samples(self, rank: str, name: str, times: Ints, values: Column, unit: str) -> None:
        there, count = _there(values), len(times)
        self._write(
            count,
            f'{{"ph":"C","pid":{self.processes[rank]},"ts":',
            json_rows.microseconds(times - self._begin_ns),
            f',"name":{self._text(name)},"args":{{{json.dumps(clean(unit))}:',
            json_rows.where(there, self._values(values)),
            json_rows.where(~there, json_rows.same("null", count)),
            "}}",
        )

    def _meta(self, what: str, pid: int, tid: int, **values: Any) -> None:
        event = json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": values})
        self._write(1, event)

    def _add_slices(self, rank: str, row: str, columns: Columns) -> None:
        begins, ends = _numbers(columns, "begin_ns"), _numbers(columns, "end_ns")
        threads = self._threads_for(rank, row, begins, ends)
        free = threads >= 0
        if not free.all():
            self.dropped += int(np.count_nonzero(~free))
            columns = {name: _some(column, free) for name, column in columns.items()}
            begins, ends, threads = begins[free], ends[free], threads[free]
            if not len(begins):
                return
        args = self._arguments({name: column for name, column in columns.items() if name not in FIXED})
        self._write(
            len(begins),
            f'{{"ph":"X","pid":{self.processes[rank]},"tid":',
            json_rows.whole(threads),
            ',"ts":',
            json_rows.microseconds(begins - self._begin_ns),
            ',"dur":',
            json_rows.microseconds(np.maximum(0, ends - begins)),
            ',"name":',
            self._names(columns["name"]),
            *args,
            "}",
        )
        self.slices += len(begins)

    def _arguments(self, columns: Columns) -> list[Block]:
        """What else is known of slices."""
        known = [(name, column, _there(column)) for name, column in columns.items()]
        shown = [
            (json.dumps(name), self._values(column), there) for name, column, there in known if there.any()
        ]
        if not shown:
            return []
        some = np.logical_or.reduce([there for _, _, there in shown])
        return [json_rows.where(some, json_rows.same(',"args":', len(some))), json_rows.members(shown)]

    def _values(self, column: Column) -> Block:
        if isinstance(column, list):
            return self._names(column)
        if column.dtype.kind == "f":
            return json_rows.texts(map(str, column.tolist()))
        return json_rows.whole(column.astype(np.int64, copy=False))

    def _names(self, column: Column) -> Block:
        """Texts in JSON, mostly a few that come again and again."""
        place = {text: at for at, text in enumerate(dict.fromkeys(column))}
        which = np.fromiter(map(place.__getitem__, column), np.int64, len(column))
        return json_rows.names([self._text(text) for text in place], which)

    def _threads_for(self, rank: str, row: str, begins: Ints, ends: Ints) -> Ints:
        """Of each slice the number of the thread that it is drawn in; -1: there are too many at once."""
        ends = np.maximum(begins, ends)
        first = self._free_lane(rank, row, int(begins[0]))
        if first is not None and (begins[1:] >= ends[:-1]).all():  # nearly always
            first.free_ns = int(ends[-1])
            return np.full(len(begins), first.tid)
        found = []
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            lane = self._free_lane(rank, row, begin)
            if lane is not None:
                lane.free_ns = end
            found.append(-1 if lane is None else lane.tid)
        return np.array(found, np.int64)

    def _free_lane(self, rank: str, row: str, begin_ns: int) -> _Lane | None:
        """A thread of that row in which nothing goes on at that moment; None: there are too many."""
        lanes = self._lanes.setdefault((rank, row), [])
        for lane in lanes:
            if lane.free_ns <= begin_ns:
                return lane
        if len(lanes) >= LANES:
            return None
        pid = self.processes[rank]
        place = ROWS.index(row) if row in ROWS else 0 if row.startswith("steps") else len(ROWS)
        others = self._threads.get((pid, place), 0)
        self._threads[pid, place] = others + 1
        # Chrome puts threads in the order of the index, Perfetto in that of their numbers.
        lane = _Lane(pid * 100_000 + place * 10_000 + others)
        lanes.append(lane)
        self._meta("thread_name", pid, lane.tid, name=clean(f"{row} {len(lanes)}" if lanes[1:] else row))
        self._meta("thread_sort_index", pid, lane.tid, sort_index=lane.tid)
        return lane

    def _text(self, text: str) -> str:
        """The text in JSON; names come again and again."""
        found = self._texts.get(text)
        if found is None:
            if len(self._texts) > MOST_TEXTS:
                self._texts.clear()
            found = self._texts[text] = json.dumps(clean(text))
        return found

    def _write(self, count: int, *parts: Block | str) -> None:
        """So many events; a part that is a text is the same in all of them."""
        if count:
            blocks = [json_rows.same(part, count) if isinstance(part, str) else part for part in parts]
            written = json_rows.text_of(json_rows.beside([json_rows.same(",\n", count), *blocks]))
            self._out.write(written if self._has_events else written[1:])
            self._has_events = True


class _Sample(NamedTuple):
    """Of a curve."""

    begin_ns: int
    end_ns: int
    unit: str


class _Lane:
    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.free_ns = -(2**63)


def _numbers(columns: Columns, name: str) -> Ints:
    return np.asarray(columns[name], np.int64)


def _there(column: Column) -> Bools:
    """Which rows have a value."""
    if isinstance(column, list):
        return np.fromiter(map(bool, column), np.bool_, len(column))
    return ~np.isnan(column) if column.dtype.kind == "f" else column != ABSENT


def _some(column: Column, which: Bools) -> Column:
    if isinstance(column, list):
        return [column[at] for at in np.flatnonzero(which)]
    return column[which]


def _number(value: Any) -> int | float | None:
    """None: it is absent."""
    if value is None or value == ABSENT or value != value:
        return None
    return int(value) if isinstance(value, np.integer) else float(value)
