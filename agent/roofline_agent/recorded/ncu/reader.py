"""Reads what `ncu --csv` prints, from 2019's to today's: raw, details, default, summary and session pages.

A file may hold the profiled program's output and the profiler's own lines anywhere, several appended tables,
or no table at all: then the collector gets the profiler's messages and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..collector import Collector
from ..columns import in_turns, turns
from ..recording import Counter, Launch, RecordedCeiling
from ..text import Text
from . import flops as ncu_flops
from . import metrics as ncu_metrics
from . import roofs as ncu_roofs
from .blocks import NO_NAME, Kinds, LinearLaunches, in_columns, kinds_of
from .decimals import Decimals
from .header import is_header
from .launches import LaunchBlock, MetricTable, PrintedLaunch, problem
from .linear import LaunchReading, LinearReading, linear
from .metrics import CompiledLaunch, CompiledMetrics, Elapsed, LaunchMetrics
from .other_lines import OtherLines
from .pages import launches
from .text_tables import NcuTextTables

MAX_FORMS = 10_000  # of tables' linear forms that are kept
WORTH_A_FORM = 8  # launches: to find a form costs as much as reading some
FEW = 4  # launches, which are read sooner one by one
MAX_RANKS = 1000  # GPUs and processes that are told apart
MAX_COUNTERS = 20_000  # a raw page has hundreds of columns; what is read is bounded, not what may be imported

_SIGNS = (
    (re.compile(r'^"Launch Attribute","MetricValue"|"Nsight Compute Target","', re.MULTILINE), 90),
    (re.compile(r"^ *Section: [^\n]*\n[- ]+\n *Metric Name +Metric Unit", re.MULTILINE), 90),
    (re.compile(r"^==PROF== ", re.MULTILINE), 80),
    (re.compile(r"^==(?:ERROR|WARNING)== ", re.MULTILINE), 60),
)
_NO_TABLE = "no table of kernels is here: nothing was profiled, or it went elsewhere (ncu's -o, --log-file)"
# Columns that tell ranks apart.
_SEVERAL = {
    "device": "kernels of {} GPUs, which may be those of several ranks: all are taken for one rank",
    "process id": "kernels of {} processes, which may be several ranks: all are taken for one rank",
}
DEVICE = ncu_metrics.DEVICE_NAME
_ATTRIBUTES = (ncu_metrics.DEVICE_NAME, ncu_metrics.CC_MAJOR, ncu_metrics.CC_MINOR)


def sniff(head: str) -> int:
    if any(is_header(line) for line in head.split("\n")):
        return 95
    return max((sure for sign, sure in _SIGNS if sign.search(head)), default=0)


def read(text: Text, found: Collector) -> None:
    found.tool = "ncu"
    reader = _NcuReader(found, Decimals(text.name, text.head), ncu_flops.architecture(text.head))
    text_tables = NcuTextTables(reader.take)
    others = OtherLines(found, text_tables.line)
    for some in launches(text, found, reader.wants, others):
        if isinstance(some, LaunchBlock):
            reader.take_block(some)
        else:
            reader.take(some)
    text_tables.end()
    others.end()
    reader.warn_of_ranks()
    if not (reader.launches or others.is_session or others.is_source):
        found.warn(_NO_TABLE)


class _NcuReader:
    """Turns printed launches into records."""

    def __init__(self, found: Collector, decimals: Decimals, cc: str) -> None:
        self.launches = 0
        self._ranks: dict[str, set[str]] = {column: set() for column in _SEVERAL}
        self._roofs: dict[str, RecordedCeiling] = {}
        self._found = found
        self._decimals = decimals
        self._cc = cc  # of the whole file, for pages of old versions that have no such column

    @property
    def _is_full(self) -> bool:
        return len(self._found.counters) >= MAX_COUNTERS

    def _warn_full(self, times: int) -> None:
        self._found.warn(f"more than {MAX_COUNTERS} other metrics; the rest are left out", 0, times)

    def wants(self, metric: str) -> bool:
        return ncu_metrics.is_needed(metric) if self._is_full else ncu_metrics.is_wanted(metric)

    def take(self, printed: PrintedLaunch, keeps_others: bool = True) -> None:
        self.launches += 1
        self._note_rank("device", printed.device)
        self._note_rank("process id", printed.process)
        if printed.count < 1:
            self._found.warn("a row of 0 invocations; it is left out", printed.line)
            return
        if not self._decimals.are_known:
            self._decimals.look_at(printed.cells, printed.line)
        values = self._values(printed)
        cc = self._describe(printed, values)
        reading = _reading(values, printed.kernel, cc)
        self._add(printed, reading)
        for roof in ncu_roofs.roofs(values, printed.device):
            self._keep_roof(roof)
        if reading.time_s is None and reading.flops is None:
            for rate in ncu_roofs.rates(values, printed.device):
                self._found.counters.append(rate)
        if keeps_others:
            self._keep_others(printed, values)

    def _add(self, printed: PrintedLaunch, reading: LaunchReading) -> None:
        for caveat in reading.caveats:
            self._found.warn(caveat, printed.line)
        # A summary page prints means over its launches; a record of several launches holds their sums.
        times = printed.count
        self._found.launch(
            Launch(
                printed.kernel or NO_NAME,
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
        """The same as `take` for each of its launches; those whose kind has a linear form go in columns."""
        if not self._decimals.are_known:
            self._decimals.look_at(block.marked_cells(), block.line + block.first)
        compiled, keeps = self._compiled(block.table), self._found.launches is not None
        for column in self._ranks:
            distinct = block.distinct(column)
            for name in distinct.texts if distinct is not None else ():
                self._note_rank(column, name.strip())
        kinds = self._kinds(block, compiled)
        if kinds is None:
            self._take_each(block, range(block.launches))
            return
        forms = [self._form(compiled, kinds, kind) for kind in range(len(kinds.keys))]
        if keeps:  # each launch with its precision
            forms = [form and (form if form.precision or not form.flops else None) for form in forms]
        kept = self._keep_left(block, compiled, forms)
        left = kinds.which >= 0  # all of them
        for at in self._take_firsts(block, forms, kept):
            left[at] = False
        some = list(in_columns(block, kinds, forms, left, keeps))
        after = left.copy()
        for one in some:
            after[one.launches.places] = False
        if keeps and after.any():  # launches are kept in the order of the file
            some, after = [], left
        self._take_columns(block, compiled, some, kept)
        self._take_each(block, after.nonzero()[0].tolist(), kept)

    def _note_rank(self, column: str, name: str) -> None:
        if name and len(self._ranks[column]) < MAX_RANKS:
            self._ranks[column].add(name)

    def warn_of_ranks(self) -> None:
        """Of GPUs and processes that the file holds together."""
        for column, names in self._ranks.items():
            if len(names) > 1:
                self._found.warn(_SEVERAL[column].format(len(names)))

    def _take_each(self, block: LaunchBlock, places: Iterable[int], kept: int = 0) -> None:
        """kept: launches from the first on whose other metrics are kept already."""
        for at in places:
            self.take(block.launch(at), at >= kept)

    def _keep_left(
        self, block: LaunchBlock, compiled: CompiledMetrics, forms: Sequence[LinearReading | None]
    ) -> int:
        """Keeps the other metrics of the first launches, as many as find room; says of how many. 0 where they
        are to be looked at one by one."""
        lefts = {form.left if form is not None else () for form in forms}
        devices = block.distinct("device")
        left, *others = lefts
        if self._is_full or others or not left or (devices is not None and len(devices.texts) > 1):
            return 0
        device = devices.texts[0].strip() if devices is not None else ""
        metrics = [compiled.at[name] for name in left]
        count = min(block.launches, -(-(MAX_COUNTERS - len(self._found.counters)) // len(left)))
        printed = [block.numbers(metric)[:count] for metric in metrics]
        if not all((one >= 0).all() for one in printed):
            return 0
        units = [compiled.units[metric] for metric in metrics]
        likes = [
            _other(name, block.table.names[metric], unit.base, device, block.table.units[metric])
            for name, metric, unit in zip(left, metrics, units, strict=True)
        ]
        values = [one * unit.factor for one, unit in zip(printed, units, strict=True)]
        numbers = {"value": in_turns(values), "printed": in_turns(printed)}
        self._found.counters.extend(likes, turns(count, len(likes)), numbers)
        return count

    def _take_firsts(
        self, block: LaunchBlock, forms: Sequence[LinearReading | None], kept: int
    ) -> Iterator[int]:
        """Takes launches that are not to go in columns, and says which: while other metrics find room, and,
        unless all launches are kept, the first of each kernel, which has its note."""
        begin = 0
        if not kept and any(form is not None and form.left for form in forms):
            while begin < block.launches and not self._is_full:
                self.take(block.launch(begin))
                yield begin
                begin += 1
        kernels = block.distinct("kernel name")
        if self._found.launches is not None or kernels is None:
            return
        new = [
            int((kernels.which == at).argmax())
            for at, name in enumerate(kernels.texts)
            if not self._found.has_kernel(name.strip() or NO_NAME)
        ]
        for first in sorted(one for one in new if one >= begin):
            self.take(block.launch(first), first >= kept)
            yield first

    def _take_columns(
        self, block: LaunchBlock, compiled: CompiledMetrics, some: Sequence[LinearLaunches], kept: int
    ) -> None:
        for one in some:
            count, first = len(one.launches.places), int(one.launches.places[0])
            crowded = int((one.launches.places >= kept).sum())  # launches whose other metrics find no room
            for caveat in one.form.caveats:
                self._found.warn(caveat, block.line + block.first + first * block.step, count)
            if self._is_full and crowded:
                self._warn_full(crowded)
            self.launches += count
        if some:
            ccs = block.distinct("cc")
            for cc in ccs.texts if ccs is not None else ():
                _fact(self._found, "compute_capability", cc.strip())
            for name in block.distinct_values(compiled.at[DEVICE]) if DEVICE in compiled.at else ():
                _fact(self._found, "device", name)
        self._found.launch_columns([one.launches for one in some])

    def _kinds(self, block: LaunchBlock, compiled: CompiledMetrics) -> Kinds | None:
        """None where launches are to be taken one by one."""
        if not compiled.is_plain or self._decimals.are_commas or block.launches < FEW:
            return None
        kinds = kinds_of(block, compiled.needed)
        if kinds is None or all(cc for _, cc, _ in kinds.keys):
            return kinds
        # What GPU it is shows in other metrics, or in the names of the kernels so far.
        newest = max(self._cc, *map(ncu_flops.architecture, block.kernels))
        if ncu_metrics.CC_MAJOR in compiled.at or newest != self._cc:
            return None
        return kinds._replace(keys=[(shown, cc or newest, zeros) for shown, cc, zeros in kinds.keys])

    def _form(self, compiled: CompiledMetrics, kinds: Kinds, kind: int) -> LinearReading | None:
        """Of launches of a kind; None where there is none, or where these are too few to look for it."""
        key = kinds.keys[kind]
        if key in compiled.linear or len(compiled.linear) >= MAX_FORMS:
            return compiled.linear.get(key)
        seen = compiled.seen[key] = compiled.seen.get(key, 0) + kinds.count(kind)
        if seen < WORTH_A_FORM and self._found.launches is None:
            return None
        form = _linear(compiled, kinds.kernels[kind], *key[1:])
        compiled.linear[key] = form and compiled.forms.setdefault(form, form)
        return compiled.linear[key]

    def _values(self, printed: PrintedLaunch) -> LaunchMetrics:
        table = printed.table
        if table is None:
            return LaunchMetrics(printed.metrics, self._decimals.are_commas)
        compiled = self._compiled(table)
        if compiled.is_plain:
            return CompiledLaunch(compiled, printed.values)
        return LaunchMetrics(table.metrics(printed.values), self._decimals.are_commas)

    def _compiled(self, table: MetricTable) -> CompiledMetrics:
        known = table.reading
        if not isinstance(known, CompiledMetrics) or known.decimal_comma != self._decimals.are_commas:
            known = table.reading = CompiledMetrics(table, self._decimals.are_commas)
        return known

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

    def _keep_others(self, printed: PrintedLaunch, values: LaunchMetrics) -> None:
        if self._is_full:
            self._warn_full(1)
            return
        others = [one for one in values.left() if one[1].printed is not None and one[0] not in _ATTRIBUTES]
        for name, value in others:
            counter = _other(name, value.event, value.unit, printed.device, value.printed_unit)
            counter = counter._replace(value=value.value, printed=value.printed)
            self._found.counters.append(counter)


def _linear(compiled: CompiledMetrics, kernel: str, cc: str, zeros: tuple[int, ...]) -> LinearReading | None:
    """The form of launches of a kernel in which these values are zero; None where roofs or rates are to be
    made of them, too."""

    def read(cells: tuple[str, ...]) -> LaunchReading:
        return _reading(CompiledLaunch(compiled, cells), kernel, cc)

    def left(cells: tuple[str, ...]) -> list[str]:
        launch = CompiledLaunch(compiled, cells)
        _reading(launch, kernel, cc)
        ncu_roofs.roofs(launch, "")
        return [name for name, _ in launch.left() if name not in _ATTRIBUTES]

    names = compiled.table.names
    cells = tuple("0" if at in zeros else "3" for at in range(len(names)))
    one = read(cells)
    if (one.time_s is None and one.flops is None) or ncu_roofs.roofs(CompiledLaunch(compiled, cells), ""):
        return None
    return linear(names, read, left, zeros, compiled.needed)


def _reading(values: LaunchMetrics, kernel: str, cc: str) -> LaunchReading:
    time, time_note = ncu_metrics.time_s(values)
    moved, notes = ncu_metrics.moved(values, time)
    flops = ncu_flops.count(values, kernel, cc, Elapsed(time, _cycles(values, time)))
    note = "; ".join(filter(None, (time_note, *notes, *flops.notes)))
    return LaunchReading(time, flops.flops, moved, flops.precision, note, flops.notes)


def _other(name: str, event: str, unit: str, device: str, printed_unit: str) -> Counter:
    scope = f"gpu {device or 0}"
    return Counter(name, event, None, unit or "1", scope, kind="gauge", printed_unit=printed_unit)


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
