"""Reads what `perf stat` printed: as text, with `-x SEP`, or with `-j`; once or by intervals.

Other lines, a program's own output among them, are passed over. Percentages are the share of time in which an
event was counted; they never scale its value again: perf has done that.
"""

from __future__ import annotations

import re
from datetime import datetime

from .. import stream
from ..collector import Collector
from ..columns import spread
from ..recording import Counter
from ..text import LineBlock, Text
from . import csv as perf_csv
from . import human as perf_human
from . import json as perf_json
from . import metric_only as perf_metric_only
from .events import EventMeaning, meaning
from .lines import CsvLines
from .row import NOT_COUNTED, DerivedMetric, PerfRow, is_mark
from .run import NAME, PerfRun

MAX_ROW = 4096  # characters; longer lines are not perf's
_HEAD_LINES = 3000
_STARTED = re.compile(r"# started on \w{3} (\w{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})")
# perf does not translate them.
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CACHED = 10_000


def sniff(head: str) -> int:
    """100 for a row in JSON, 90 below perf's own header, less for rows that are alone."""
    # One branch for each way in which perf writes: JSON, its own header and rows, fields with a separator.
    best, inside, has_separator, before = 0, False, False, ""
    for line in head.split("\n")[:_HEAD_LINES]:
        if len(line) > MAX_ROW:
            continue
        line = line.rstrip("\r")
        if before:
            line = perf_csv.joined(before, line)
        before = line if not before and perf_csv.lacks_event(line) else ""
        if perf_json.is_json(line) and any(perf_json.rows(line)):
            return 100
        if line.startswith("{") and perf_json.looks_metrics_alone(line):
            return 100
        if perf_human.header(line):
            inside, best = True, max(best, 70)
        elif row := perf_human.row(line, inside):
            if inside:
                best = max(best, 90)
            elif perf_human.is_evident(row):
                best = max(best, 60)
        elif best < 80 and not has_separator and perf_csv.separator(line):
            best, has_separator = 80, True
    return best


def read(text: Text, found: Collector) -> None:
    """Counters of every row, and the run as a point where its FLOPs, bytes or time are known."""
    found.tool = "perf stat"
    reader = _PerfReader(text, found)
    # STREAM is often what perf stat measured, and prints into the same file.
    results = stream.StreamReader(text, found) if stream.sniff(text.head) > 50 else None
    for block in text.blocks():
        if results is None and isinstance(block, LineBlock) and reader.take_columns(block):
            continue
        for line in text.each(block):
            if len(line) <= MAX_ROW:
                reader.line(line)
                if results is not None:
                    results.line(line[:300])
    reader.finish()
    if results is not None:
        results.finish()
        found.version = ""  # STREAM's, not perf's


class _PerfReader:
    """Takes the lines of one file in order."""

    def __init__(self, text: Text, found: Collector) -> None:
        self.text = text
        self.found = found
        self.lines: CsvLines | None = None  # once a line showed the separator
        self.columns: list[str] = []  # of a table of metrics alone
        self.inside = False
        self.unfinished = ""  # a line whose event stands on the next
        self.run = PerfRun()
        self.begin_s = 0.0  # of that run, since the recording's time zero
        self.done: list[PerfRun] = []
        self.skipped = 0
        self._seen: dict[tuple[str, str, str, str, str], tuple[EventMeaning, str]] = {}

    def line(self, line: str) -> None:
        if "\x1b" in line:
            line = _COLOURS.sub("", line)
        if self.unfinished:
            line, self.unfinished = perf_csv.joined(self.unfinished, line), ""
        if self.lines is not None:
            row = self.lines.row(line)
            if row is not None:
                self._take(row)
                return
            if "summary" in line and perf_csv.is_summary(line, self.lines.sep):
                self.skipped += 1
                return
        if line.startswith("#"):
            self._started(line)
        elif line.startswith("{") or perf_json.is_json(line):
            self._take_json(line)
        elif head := perf_human.header(line):
            self.inside = True
            if self.run.last_s is None or self.run.elapsed_s is not None:
                self._next_run(PerfRun(head.target, head.runs))
        elif not self._time(line):
            self._row(line)

    def take_columns(self, lines: LineBlock) -> bool:
        """The same as `line` for each of them; False: nothing was taken in, as they are not alike enough."""
        rows = self.lines.columns(lines) if self.lines is not None and not self.unfinished else None
        if rows is None:
            return False
        meanings = [self._meaning(row) for row in rows.kinds]
        means = [of_kind for of_kind, _ in meanings]
        bases = rows.values * spread([of_kind.factor for of_kind in means], rows.which)
        if not self.run.add_columns(rows, means, bases):
            return False
        for kind, of_kind in enumerate(means):
            if of_kind.caution:
                mine = rows.which == kind
                line = lines.line + int(mine.argmax())
                self.found.warn(of_kind.caution, line, int(mine.sum()))
        times_s = rows.times_s + self.begin_s
        self.found.counters.extend(
            [_delta(row, *meaning) for row, meaning in zip(rows.kinds, meanings, strict=True)],
            rows.which,
            {"value": bases, "coverage": rows.coverages, "t_s": times_s, "printed": rows.values},
        )
        return True

    def _take_json(self, line: str) -> None:
        if not perf_json.is_json(line):
            table = perf_json.metrics_alone(line)
            if table is not None:
                self._take_table(*table)
            return
        for row in perf_json.rows(line):
            self._take(row)
        if alone := perf_json.derived_alone(line):
            self._derived(alone, self._whole(None), None, None)

    def _started(self, line: str) -> None:
        match = _STARTED.match(line)
        if not match or match[1] not in _MONTHS:
            return
        self._next_run(PerfRun())
        try:
            day, hour, minute, second = map(int, match.group(2, 3, 4, 5))
            started = datetime(int(match[6]), _MONTHS.index(match[1]) + 1, day, hour, minute, second)
            # perf prints local time without a zone: that of this machine is as good as any other.
            stamp = int(started.timestamp()) * 1_000_000_000
        except (ValueError, OverflowError, OSError):
            return
        if self.found.started_ns is None:
            self.found.started_ns = stamp - round(self.begin_s * 1e9)
            return
        since_s = (stamp - self.found.started_ns) / 1e9
        if since_s < self.begin_s - 1:  # stamps are whole seconds
            self.found.warn(
                "a run began before the one above it ended: it is placed behind that", self.text.line
            )
        self.begin_s = max(self.begin_s, since_s)

    def _next_run(self, run: PerfRun) -> None:
        """run: what comes, behind the run before where nothing says when it began."""
        self.begin_s += max(self.run.last_s or 0.0, self.run.elapsed_s or 0.0)
        if self.run.rows or self.run.elapsed_s is not None:
            self.done.append(self.run)
        elif not run.target:
            run.target, run.runs = self.run.target, self.run.runs
        self.run = run

    def _time(self, line: str) -> bool:
        time = perf_human.time(line)
        if time is None or not (self.inside or self.run.rows):
            return False
        what, seconds = time
        if what == "time elapsed":
            self.inside = False
            self.run.elapsed_s = seconds
        else:
            self.found.facts[f"{what}_s"] = seconds
        return True

    def _row(self, line: str) -> None:
        row = perf_human.row(line, self.inside)
        if row is not None and (self.inside or perf_human.is_evident(row)):
            self._take(row)
        elif perf_human.lacks_event(line) or perf_csv.lacks_event(line):
            self.unfinished = line.rstrip()
        elif self.inside and self._take_metrics(line):
            return
        elif self.lines is None and (sep := perf_csv.separator(line)):
            self.lines = CsvLines(sep)
            self.line(line)

    def _take_metrics(self, line: str) -> bool:
        """Take in a line of `--metric-only`; False: it is none."""
        table = perf_metric_only.values(line, self.columns) if self.columns else None
        self.columns = self.columns if table else perf_metric_only.names(line)
        if table is None:
            return bool(self.columns)
        self._take_table(*table)
        return True

    def _take_table(self, t_s: float | None, where: str, found: list[DerivedMetric]) -> None:
        self.run.note_time(t_s)
        for one in found:
            self._derived(one, where or self._whole(None), None, self._since_zero(t_s))

    def _since_zero(self, t_s: float | None) -> float | None:
        """t_s: as printed, since the run's begin."""
        return None if t_s is None else self.begin_s + t_s

    def _take(self, row: PerfRow) -> None:
        if row.t_s is None and self.run.last_s is not None:
            self.skipped += 1  # sums that follow the intervals
            return
        if row.t_s is not None and self.run.last_s is not None and row.t_s < self.run.last_s - 0.5:
            self._next_run(PerfRun(self.run.target))
        means, where = self._meaning(row)
        value, coverage = row.value, row.coverage
        if value is None:
            # What was not counted has no coverage, whatever percentage perf prints next to it.
            coverage = 0.0 if row.text == NOT_COUNTED else None
        elif row.runtime_ns == 0 and value == 0:
            value, coverage = None, 0.0  # a counter that never ran counted nothing, not zero
        base = value * means.factor if value is not None else None
        self.run.add(row, means, base, self.found, self.text.line)
        if means.caution:
            self.found.warn(means.caution, self.text.line)
        t_s = self._since_zero(row.t_s)
        kind = "total" if t_s is None else "delta"
        self.found.counters.append(
            Counter(
                means.metric, row.event, base, means.unit, where, coverage, t_s, kind, row.value, row.unit
            )
        )
        if row.derived is not None:
            self._derived(row.derived, where, coverage, t_s)

    def _derived(self, one: DerivedMetric, where: str, coverage: float | None, t_s: float | None) -> None:
        self.found.counters.append(
            Counter(
                one.name, one.name, one.printed * one.factor, one.unit, where, coverage, t_s, "gauge",
                one.printed, one.printed_unit,
            )
        )  # fmt: skip

    def _meaning(self, row: PerfRow) -> tuple[EventMeaning, str]:
        """What the row's event means and where it was counted."""
        # The number's form matters for clocks without a unit alone, and one file prints them alike.
        key = (row.event, row.unit, row.scope, row.cgroup, self.run.target)
        known = self._seen.get(key)
        if known is None:
            means = meaning(row.event, row.unit, row.text)
            where = row.scope or self._whole(means)
            if row.cgroup:
                where = f"{where}, cgroup {row.cgroup}" if where else f"cgroup {row.cgroup}"
            known = means, where
            if len(self._seen) < _CACHED and not is_mark(row.text):
                self._seen[key] = known
        return known

    def _whole(self, means: EventMeaning | None) -> str:
        """The scope of a row that names no place: the node for uncore counters, else what was measured."""
        target = self.run.target
        if (means and means.uncore) or target.strip("'") == "system wide":
            return "node"
        if not target:
            return ""
        cpus = re.fullmatch(r"'CPU\(s\) ([\d,\-]+)'", target)
        return f"cpu {cpus[1]}" if cpus else "process"

    def finish(self) -> None:
        runs = [*self.done, self.run] if self.run.rows or self.run.elapsed_s is not None else self.done
        if self.skipped:
            self.found.facts["summary_rows_skipped"] = self.skipped
        if len(runs) > 1:
            self.found.warn(
                f"{len(runs)} recordings in one file: each is a kernel of its own, not one whole run"
            )
            for at, run in enumerate(runs, 1):
                point = run.kernel(f"run {at} {run.target}".strip(), self.found)
                if point is not None:
                    self.found.kernel(point)
            return
        for run in runs:
            self.found.run = run.kernel(NAME, self.found)
            self.found.duration_s = run.time_s
            if run.target:
                quoted = run.target.startswith("'")
                self.found.facts["command"] = run.target.strip("'") if quoted else run.target
            if run.runs > 1:
                self.found.facts["runs"] = run.runs


def _delta(row: PerfRow, means: EventMeaning, where: str) -> Counter:
    """What counters of intervals have in common with others of such rows."""
    return Counter(means.metric, row.event, None, means.unit, where, kind="delta", printed_unit=row.unit)
