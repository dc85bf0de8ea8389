"""A timeline in the trace format that Perfetto and Chrome read, written as it comes.

A rank is a process, a row of it (steps, phases, asked, ...) a thread; times are microseconds since the begin
of the job. Slices of one thread must nest, and ours would only ever overlap: one that does goes to another
thread, "engine 2", beside the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, TextIO

from roofline.answers.tables import TableChunk

from .errors import Refused
from .tables.names import clean

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


class Written(NamedTuple):
    """What a trace holds."""

    slices: int
    counters: int
    ranks: int
    dropped: int  # slices that overlapped more than LANES others
    notes: list[str]


def write_trace(
    chunks: Iterable[TableChunk], out: TextIO, progress: Callable[[int], None] = lambda events: None
) -> Written:
    """Write the chunks of `Client.timeline` as one trace. progress: receives how many events are written.

    Raises Refused when they do not begin as a timeline does.
    """
    trace: _Trace | None = None
    notes: list[str] = []
    for chunk in chunks:
        notes += chunk.notes
        if trace is None:
            trace = _Trace(chunk, out)
        unit = next((column.unit for column in chunk.columns if column.name == "value"), "")
        for rank, kind, columns in _stretches(chunk):
            trace.add(rank, kind, columns, unit)
        progress(trace.slices + trace.counters)
    if trace is None:
        raise Refused("the server sends no timeline")
    out.write("\n]}\n")
    return Written(trace.slices, trace.counters, len(trace.processes), trace.dropped, notes)


Columns = Mapping[str, Sequence[Any]]  # equally long, by name


def _stretches(chunk: TableChunk) -> Iterator[tuple[str, str, Columns]]:
    """(rank, row, columns) of rows that follow each other in the same row of a rank."""
    columns = {column.name: column.values for column in chunk.columns}
    first = 0
    for (rank, kind), some in groupby(zip(columns["rank"], columns["row"], strict=True)):
        last = first + sum(1 for _ in some)
        yield str(rank), str(kind), {name: values[first:last] for name, values in columns.items()}
        first = last


class _Trace:
    """Events are written a stretch at a time, a template filled with all its numbers at once: one by one
    takes five times as long."""

    def __init__(self, first: TableChunk, out: TextIO) -> None:
        rows = list(first.records())
        job = next((row for row in rows if row["row"] == "job"), None)
        if job is None:
            raise Refused("the timeline that the server sends does not begin with the job")
        self._out = out
        self._begin_ns = int(job["begin_ns"] or 0)
        self._between = "\n"
        self._lanes: dict[tuple[str, str], list[_Lane]] = {}
        self._threads: dict[tuple[int, int], int] = {}  # (process, place of the row) -> how many
        self._texts: dict[str, str] = {}
        self.processes: dict[str, int] = {}
        self.slices = self.counters = self.dropped = 0
        clocks = [row for row in rows if row["row"] == "clock"]
        about = {
            "job": clean(str(job["name"])),
            "mode": job.get("mode", ""),
            "begin_unix_ns": job["begin_ns"],
            "end_unix_ns": job["end_ns"],
            "clock_error_s": {clean(str(row["host"])): row.get("error") for row in clocks},
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
        at, moments = _microseconds([begin - self._begin_ns for begin in columns["begin_ns"]])
        names = [self._text(name) for name in columns["name"]]
        value = _escaped(json.dumps(clean(unit)))
        template = f'{{"ph":"C","pid":{self.processes[rank]},"ts":{at},"name":%s,"args":{{{value}:%s}}}}'
        values = ["null" if number is None else number for number in columns["value"]]
        self._write(template, *moments, names, values)
        self.counters += len(names)

    def _meta(self, what: str, pid: int, tid: int, **values: Any) -> None:
        event = json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": values})
        self._write("%s", [event])

    def _add_slices(self, rank: str, row: str, columns: Columns) -> None:
        threads = self._threads_for(rank, row, columns["begin_ns"], columns["end_ns"])
        if None in threads:
            free = [at for at, thread in enumerate(threads) if thread is not None]
            self.dropped += len(threads) - len(free)
            threads = [threads[at] for at in free]
            columns = {name: [values[at] for at in free] for name, values in columns.items()}
        begins, ends = columns["begin_ns"], columns["end_ns"]
        at, moments = _microseconds([begin - self._begin_ns for begin in begins])
        lasts, lengths = _microseconds([max(0, end - begin) for begin, end in zip(begins, ends, strict=True)])
        names = [self._text(name) for name in columns["name"]]
        args, values = self._arguments({k: v for k, v in columns.items() if k not in FIXED})
        pid = self.processes[rank]
        template = f'{{"ph":"X","pid":{pid},"tid":%d,"ts":{at},"dur":{lasts},"name":%s{args}}}'
        self._write(template, threads, *moments, *lengths, names, *values)
        self.slices += len(threads)

    def _arguments(self, columns: Columns) -> tuple[str, list[Sequence[Any]]]:
        """A template of what else is known of slices, and what to fill it with."""
        if not columns:
            return "", []
        keys: list[str] = []
        texts: list[Sequence[Any]] = []
        complete = True
        for name, values in columns.items():
            keys.append(json.dumps(name))
            if any(isinstance(value, str) for value in values):
                texts.append([self._text(value) if value else None for value in values])
            else:
                texts.append(list(values))
            complete = complete and None not in texts[-1]
        if complete:
            inside = ",".join(f"{_escaped(key)}:%s" for key in keys)
            return f',"args":{{{inside}}}', texts
        found = []
        for row in zip(*texts, strict=True):
            known = [f"{key}:{value}" for key, value in zip(keys, row, strict=True) if value is not None]
            found.append(f',"args":{{{",".join(known)}}}' if known else "")
        return "%s", [found]

    def _threads_for(
        self, rank: str, row: str, begins: Sequence[int], ends: Sequence[int]
    ) -> list[int | None]:
        """Of each slice the number of the thread that it is drawn in; None: there are too many at once."""
        lanes = self._lanes.setdefault((rank, row), [])
        found: list[int | None] = []
        for begin, end in zip(begins, ends, strict=True):
            lane = lanes[0] if lanes and lanes[0].free_ns <= begin else self._free_lane(rank, row, begin)
            if lane is None:
                found.append(None)
                continue
            lane.free_ns = end if end > begin else begin
            found.append(lane.tid)
        return found

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
            if len(self._texts) > 10_000:
                self._texts.clear()
            found = self._texts[text] = json.dumps(clean(text))
        return found

    def _write(self, template: str, *columns: Sequence[Any]) -> None:
        """The template once for each row of the columns, which fill its holes in order."""
        count = len(columns[0])
        if count:
            filled = ",\n".join([template] * count) % tuple(chain.from_iterable(zip(*columns, strict=True)))
            self._out.write(self._between + filled)
            self._between = ",\n"


class _Lane:
    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.free_ns = -(2**63)


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _microseconds(nanoseconds: Sequence[int]) -> tuple[str, list[Sequence[Any]]]:
    """A template for times, exact, with the nanoseconds behind the point, and what to fill it with."""
    if min(nanoseconds, default=0) >= 0:
        return "%d.%03d", [[ns // 1000 for ns in nanoseconds], [ns % 1000 for ns in nanoseconds]]
    signs = ["-" if ns < 0 else "" for ns in nanoseconds]
    _, parts = _microseconds([abs(ns) for ns in nanoseconds])
    return "%s%d.%03d", [signs, *parts]
