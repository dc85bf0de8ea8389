"""A timeline in the trace format that Perfetto and Chrome read, written as it comes.

A rank is a process, a row of it (steps, phases, asked, ...) a thread; times are microseconds since the begin
of the job. Slices of one thread must nest, and ours would only ever overlap: one that does goes to another
thread, "engine 2", beside the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TextIO

from roofline.answers.tables import TableChunk

from .errors import Refused
from .tables.names import clean

ROWS = ("steps", "between", "phases", "asked", "engine", "kernels", "not watched")  # from above
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
        for row in chunk.records():
            trace.add(row, unit)
        progress(trace.slices + trace.counters)
    if trace is None:
        raise Refused("the server sends no timeline")
    out.write("\n]}\n")
    return Written(trace.slices, trace.counters, len(trace.processes), trace.dropped, notes)


class _Trace:
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
        self._names: dict[str, str] = {}
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

    def add(self, row: Mapping[str, Any], unit: str) -> None:
        """unit: of a counter's value."""
        kind, rank = row["row"], row["rank"]
        if kind == "rank":
            pid = self.processes[rank] = len(self.processes) + 1
            host = row["host"]
            self._meta("process_name", pid, 0, name=clean(f"{rank} @{host}" if host else rank))
            self._meta("process_sort_index", pid, 0, sort_index=pid)
        elif kind == COUNTER:
            at = _microseconds(row["begin_ns"] - self._begin_ns)
            name, value = self._name(row["name"]), json.dumps({clean(unit): row["value"]})
            self._write(f'{{"ph":"C","pid":{self.processes[rank]},"ts":{at},"name":{name},"args":{value}}}')
            self.counters += 1
        elif kind not in ("job", "clock"):
            self._add_slice(row)

    def _meta(self, what: str, pid: int, tid: int, **values: Any) -> None:
        self._write(json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": values}))

    def _add_slice(self, row: Mapping[str, Any]) -> None:
        begin, end = row["begin_ns"], row["end_ns"]
        lane = self._free_lane(row["rank"], row["row"], begin)
        if lane is None:
            self.dropped += 1
            return
        lane.free_ns = max(end, begin)
        at, lasts = _microseconds(begin - self._begin_ns), _microseconds(max(0, end - begin))
        more = {k: v for k, v in row.items() if k not in FIXED and v is not None and v != ""}
        args = f',"args":{json.dumps(more)}' if more else ""
        thread = f'"pid":{lane.pid},"tid":{lane.tid}'
        self._write(f'{{"ph":"X",{thread},"ts":{at},"dur":{lasts},"name":{self._name(row["name"])}{args}}}')
        self.slices += 1

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
        lane = _Lane(pid, pid * 100_000 + place * 10_000 + others)
        lanes.append(lane)
        self._meta("thread_name", pid, lane.tid, name=clean(f"{row} {len(lanes)}" if lanes[1:] else row))
        self._meta("thread_sort_index", pid, lane.tid, sort_index=lane.tid)
        return lane

    def _name(self, name: str) -> str:
        """The name in JSON; names come again and again."""
        if len(self._names) > 10_000:
            self._names.clear()
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = json.dumps(clean(name))
        return found

    def _write(self, event: str) -> None:
        self._out.write(self._between + event)
        self._between = ",\n"


class _Lane:
    def __init__(self, pid: int, tid: int) -> None:
        self.pid, self.tid = pid, tid
        self.free_ns = -(2**63)


def _microseconds(nanoseconds: int) -> str:
    """Exact, with the nanoseconds behind the point."""
    sign, amount = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    return f"{sign}{amount // 1000}.{amount % 1000:03d}"
