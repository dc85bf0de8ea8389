"""Reads what `ncu --csv` prints, from 2019's to today's: raw, details, default, summary and session pages.

A file may hold the profiled program's output and the profiler's own lines anywhere, several appended tables,
or no table at all: then the collector gets the profiler's messages and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..collector import Collector
from ..recording import Counter, Launch, RecordedCeiling
from ..text import Text
from . import flops as ncu_flops
from . import metrics as ncu_metrics
from . import roofs as ncu_roofs
from .blocks import LinearLaunches, form_keys, in_columns
from .linear import FormKey, LaunchReading, LinearReading, linear, zeros
from .metrics import CompiledLaunch, CompiledMetrics, Elapsed, LaunchMetrics
from .other_lines import OtherLines
from .table import LaunchBlock, MetricTable, PrintedLaunch, is_header, launches, problem
from .text_tables import NcuTextTables
from .values import has_decimal_commas

MAX_FORMS = 10_000  # of tables' linear forms that are kept
MAX_COUNTERS = 20_000  # a raw page has hundreds of columns; what is read is bounded, not what may be imported

_SIGNS = (
    (re.compile(r'^"Launch Attribute","MetricValue"|"Nsight Compute Target","', re.MULTILINE), 90),
    (re.compile(r"^ *Section: [^\n]*\n[- ]+\n *Metric Name +Metric Unit", re.MULTILINE), 90),
    (re.compile(r"^==PROF== ", re.MULTILINE), 80),
    (re.compile(r"^==(?:ERROR|WARNING)== ", re.MULTILINE), 60),
)
_NO_TABLE = "no table of kernels is here: nothing was profiled, or it went elsewhere (ncu's -o, --log-file)"
DEVICE = ncu_metrics.DEVICE_NAME
_ATTRIBUTES = (ncu_metrics.DEVICE_NAME, ncu_metrics.CC_MAJOR, ncu_metrics.CC_MINOR)


def sniff(head: str) -> int:
    if any(is_header(line) for line in head.split("\n")):
        return 95
    return max((sure for sign, sure in _SIGNS if sign.search(head)), default=0)


def read(text: Text, found: Collector) -> None:
    found.tool = "ncu"
    reader = _NcuReader(found, has_decimal_commas(text.head), ncu_flops.architecture(text.head))
    text_tables = NcuTextTables(reader.take)
    others = OtherLines(found, text_tables.line)
    for some in launches(text, found, reader.wants, others):
        if isinstance(some, LaunchBlock):
            reader.take_block(some)
        else:
            reader.take(some)
    text_tables.end()
    others.end()
    if not reader.launches and not others.is_session:
        found.warn(_NO_TABLE)


class _NcuReader:
    """Turns printed launches into records."""

    def __init__(self, found: Collector, decimal_comma: bool, cc: str) -> None:
        self.launches = 0
        self._roofs: dict[str, RecordedCeiling] = {}
        self._found = found
        self._decimal_comma = decimal_comma
        self._cc = cc  # of the whole file, for pages of old versions that have no such column

    @property
    def _is_full(self) -> bool:
        return len(self._found.counters) >= MAX_COUNTERS

    def _warn_full(self, times: int) -> None:
        self._found.warn(f"more than {MAX_COUNTERS} other metrics; the rest are left out", 0, times)

    def wants(self, metric: str) -> bool:
        return ncu_metrics.is_needed(metric) if self._is_full else ncu_metrics.is_wanted(metric)

    def take(self, printed: PrintedLaunch) -> None:
        self.launches += 1
        if printed.count < 1:
            self._found.warn("a row of 0 invocations; it is left out", printed.line)
            return
        values = self._values(printed)
        cc = self._describe(printed, values)
        reading = _reading(values, printed.kernel, cc)
        self._add(printed, reading)
        roofs = ncu_roofs.roofs(values, printed.device)
        for roof in roofs:
            self._keep_roof(roof)
        if reading.time_s is None and reading.flops is None:
            for rate in ncu_roofs.rates(values, printed.device):
                self._found.counters.append(rate)
        has_others = self._keep_others(printed, values)
        if isinstance(values, CompiledLaunch) and not roofs and not has_others:
            self._find_linear(values, printed.kernel, cc)

    def _add(self, printed: PrintedLaunch, reading: LaunchReading) -> None:
        for caveat in reading.caveats:
            self._found.warn(caveat, printed.line)
        # A summary page prints means over its launches; a record of several launches holds their sums.
        times = printed.count
        self._found.launch(
            Launch(
                printed.kernel or "(no name)",
                None if reading.time_s is None else reading.time_s * times,
                None if reading.flops is None else reading.flops * times,
                {level: value * times for level, value in reading.bytes.items()},
                precision=reading.precision,
                library="cuda",
                problem=problem(printed.grid, printed.block),
                note=reading.note,
                count=times,
            )
        )

    def take_block(self, block: LaunchBlock) -> None:
        """The same as `take` for each of its launches; those whose table has a linear form go in columns."""
        compiled, count = self._compiled(block.table), len(block.rows)
        keys = form_keys(block, self._cc) if compiled.is_plain and not self._decimal_comma else []
        forms = list(map(compiled.linear.get, keys))
        done: set[int] = set()
        if None in forms:
            done = self._take_first(block, compiled, keys)
            forms = [None if at in done else compiled.linear.get(key) for at, key in enumerate(keys)]
        for form, places, columns in self._in_columns(block, compiled, forms):
            done.update(places)
            for caveat in form.caveats:
                self._found.warn(caveat, block.line + block.rows[places[0]], len(places))
            if self._is_full:
                self._warn_full(len(places))
            self.launches += len(places)
            self._found.launch_columns(columns)
        for at in range(count) if len(done) < count else ():
            if at not in done:
                self.take(block.launch(at))

    def _take_first(self, block: LaunchBlock, compiled: CompiledMetrics, keys: Sequence[FormKey]) -> set[int]:
        """The first two launches of each kind, which show its form; their places."""
        done: set[int] = set()
        for at, key in enumerate(keys):
            if self._found.launches is not None or (len(self._found.counters) and not self._is_full):
                break  # launches and other metrics are kept in the order of the file
            if key not in compiled.linear and compiled.seen.get(key, 0) < 2:
                self.take(block.launch(at))
                done.add(at)
        return done

    def _in_columns(
        self, block: LaunchBlock, compiled: CompiledMetrics, forms: Sequence[LinearReading | None]
    ) -> list[LinearLaunches]:
        """Launches by their forms; none where other metrics are to be kept, too, or where launches that are
        kept would get out of order."""
        keeps = self._found.launches is not None
        found = list(in_columns(block, forms, keeps))
        if any(one.form.left and not self._is_full for one in found):
            return []
        if keeps and not (len(found) == 1 and len(found[0].places) == len(forms) and found[0].form.precision):
            return []
        if found and DEVICE in compiled.at:
            for name in dict.fromkeys(block.values[compiled.at[DEVICE]]):
                _fact(self._found, "device", name)
        return found

    def _find_linear(self, values: CompiledLaunch, kernel: str, cc: str) -> None:
        """The form of a kernel's table, when it is seen for the second time: finding it costs as much as some
        launches."""
        compiled, pattern = values.compiled, zeros(values.cells)
        key = kernel, cc, pattern
        compiled.seen[key] = compiled.seen.get(key, 0) + 1
        if compiled.seen[key] != 2 or len(compiled.linear) >= MAX_FORMS:
            return

        def read(cells: tuple[str, ...]) -> LaunchReading:
            return _reading(CompiledLaunch(compiled, cells), kernel, cc)

        def left(cells: tuple[str, ...]) -> list[str]:
            launch = CompiledLaunch(compiled, cells)
            _reading(launch, kernel, cc)
            ncu_roofs.roofs(launch, "")
            return [name for name, _ in launch.left() if name not in _ATTRIBUTES]

        form = linear(compiled.table.names, read, left, pattern)
        compiled.linear[key] = form and compiled.forms.setdefault(form, form)

    def _values(self, printed: PrintedLaunch) -> LaunchMetrics:
        table = printed.table
        if table is None:
            return LaunchMetrics(printed.metrics, self._decimal_comma)
        compiled = self._compiled(table)
        if compiled.is_plain:
            return CompiledLaunch(compiled, printed.values)
        return LaunchMetrics(table.metrics(printed.values), self._decimal_comma)

    def _compiled(self, table: MetricTable) -> CompiledMetrics:
        if table.reading is None:
            table.reading = CompiledMetrics(table, self._decimal_comma)
        assert isinstance(table.reading, CompiledMetrics)
        return table.reading

    def _keep_roof(self, roof: RecordedCeiling) -> None:
        """The highest of all launches, whose clocks differ a little."""
        key = f"{roof.device} {roof.name}"
        known = self._roofs.get(key)
        if known is None or roof.value > known.value:
            self._roofs[key] = roof
            self._found.ceilings = list(self._roofs.values())

    def _describe(self, printed: PrintedLaunch, values: LaunchMetrics) -> str:
        """The launch's compute capability; name and capability of its GPU become facts."""
        attributes = [values.get(one) for one in _ATTRIBUTES]
        name, major, minor = (one.text if one else "" for one in attributes)
        cc = printed.cc or (f"{major}.{minor}" if major and minor else "")
        _fact(self._found, "device", name)
        _fact(self._found, "compute_capability", cc)
        if not cc:
            self._cc = ncu_flops.newest(self._cc, ncu_flops.architecture(printed.kernel))
        return cc or self._cc

    def _keep_others(self, printed: PrintedLaunch, values: LaunchMetrics) -> bool:
        """Whether there are any that still find room."""
        if self._is_full:
            self._warn_full(1)
            return False
        others = [one for one in values.left() if one[1].printed is not None and one[0] not in _ATTRIBUTES]
        for name, value in others:
            counter = Counter(
                name,
                value.event,
                value.value,
                value.unit or "1",
                scope=f"gpu {printed.device or 0}",
                kind="gauge",
                printed=value.printed,
                printed_unit=value.printed_unit,
            )
            self._found.counters.append(counter)
        return bool(others)


def _reading(values: LaunchMetrics, kernel: str, cc: str) -> LaunchReading:
    time, time_note = ncu_metrics.time_s(values)
    moved, notes = ncu_metrics.moved(values, time)
    flops = ncu_flops.count(values, kernel, cc, Elapsed(time, _cycles(values, time)))
    note = "; ".join(filter(None, (time_note, *notes, *flops.notes)))
    return LaunchReading(time, flops.flops, moved, flops.precision, note, flops.notes)


def _cycles(values: LaunchMetrics, time: float | None) -> float | None:
    """Elapsed cycles, for metrics that are printed per cycle."""
    for part in ("smsp", "sm"):
        rate = values.take(f"{part}__cycles_elapsed.avg.per_second", "Hz")
        if rate is not None and time is not None:
            return rate * time
    return values.take("smsp__cycles_elapsed.avg") or values.take("sm__cycles_elapsed.avg")


def _fact(found: Collector, key: str, value: str) -> None:
    """A file may name several GPUs: keep all of them, once each."""
    known = str(found.facts.get(key, ""))
    if value and value not in known.split(", ") and len(known) < 200:
        found.facts[key] = f"{known}, {value}" if known else value
