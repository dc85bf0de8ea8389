"""The lines of a whole `perf stat -x` file, most of which differ from earlier ones in their numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ..cells import Array
from ..columns import WantedColumns, columns, combined, spread
from ..text import LineBlock
from .csv import TIME, FieldIndices, parse
from .row import PerfRow, plain_number

T = TypeVar("T")
_REMEMBERED = 10_000  # lines of a machine with thousands of CPUs
_DIGITS = 30
_BEGINS = b" 0123456789"  # what the time of an interval begins with


class RowColumns(NamedTuple):
    """Rows of intervals, in the order of their lines."""

    kinds: Sequence[PerfRow]  # of these rows, with the numbers of the first that was read of its kind
    which: Array  # of the kinds is each
    times_s: Array
    values: Array
    coverages: Array


class CsvLines:
    """The rows of one file. Of lines that differ in their numbers only, the first is parsed and of the others
    just the numbers are read: a recording of days has a few dozen different lines."""

    def __init__(self, sep: str) -> None:
        self.sep = sep
        # By the number of fields: where numbers stand, and which kind the fields are that are none.
        self._forms: dict[int, tuple[FieldIndices, dict[tuple[str, ...], int]]] = {}
        self._kinds: list[PerfRow] = []  # the first row of each
        self._shares: dict[str, float] = {}
        self._alike: set[int] = set()  # fields that were the same in all lines of the columns before
        self._time: tuple[str | None, float] = (None, 0.0)  # as the last line had it

    def row(self, line: str) -> PerfRow | None:
        """None for a line that is no row."""
        fields = line.strip(" ").split(self.sep)
        form = self._forms.get(len(fields))
        if form is not None:
            kind = form[1].get(_words(fields, form[0]))
            repeated = self._repeat(self._kinds[kind], fields, form[0]) if kind is not None else None
            if repeated is not None:
                return repeated
        found, places = parse(line, self.sep)
        if found is None or places is None or found.coverage is None:
            return found
        # Remembered are lines whose metric is a number, or which have none and nothing behind it.
        metric, words = fields[places.metric].strip(), fields[places.metric + 1 :]
        if plain_number(metric) is not None or not any((metric, *words)):
            if form is None or form[0] != places:
                form = self._forms[len(fields)] = (places, {})
            if len(self._kinds) < _REMEMBERED:
                form[1][_words(fields, places)] = len(self._kinds)
                self._kinds.append(found)
            self._shares[fields[places.runtime + 1]] = found.coverage
        return found

    def columns(self, lines: LineBlock) -> RowColumns | None:
        """The rows of whole lines; None unless all of them are intervals, like lines before but for their
        numbers, and without a derived metric."""
        data = lines.data
        width = data[: data.find(b"\n") + 1].count(self.sep.encode()) + 1
        places, known = self._forms.get(width, (None, {}))
        if places is None or places.time != 0 or b'"' in data:
            return None
        numeric = places.time, places.value, places.runtime
        words = [*_words(range(width), places), places.runtime + 1]
        cells = columns(lines, width, self.sep, WantedColumns(words, numeric, self._alike), _BEGINS)
        if cells is None:
            return None
        times, values, runtimes = map(cells.numbers, numeric)
        if not ((times >= 0).all() and (values >= 0).all() and (runtimes > 0).all()):
            return None  # a counter that never ran has no value
        parts = [cells.distinct(at) for at in words]
        self._alike = {at for at, part in zip(words, parts, strict=True) if len(part.texts) == 1}
        firsts, which = combined([one.which for one in parts])
        found: dict[int, int] = {}  # kind -> its place among those found
        at, shares = [], []
        for first in firsts.tolist():
            *texts, share = (one.texts[one.which[first]] for one in parts)
            kind = known.get(tuple(texts), -1)
            if kind < 0 or share not in self._shares or self._kinds[kind].derived:
                return None
            at.append(found.setdefault(kind, len(found)))
            shares.append(self._shares[share])
        kinds = [self._kinds[kind] for kind in found]
        return RowColumns(kinds, spread(at, which), times, values, spread(shares, which))

    def _repeat(self, known: PerfRow, fields: list[str], places: FieldIndices) -> PerfRow | None:
        """The known row with this line's numbers, None where one of them looks different."""
        text, runtime = fields[places.value], fields[places.runtime]
        coverage = self._shares.get(fields[places.runtime + 1])
        is_number = text.isdecimal() or text.replace(".", "", 1).isdecimal()
        if coverage is None or not runtime.isdecimal() or not is_number or len(text) >= _DIGITS:
            return None
        t_s = None
        if not places.time:
            if fields[0] != self._time[0]:
                if not TIME.fullmatch(fields[0]):
                    return None
                self._time = (fields[0], float(fields[0]))
            t_s = self._time[1]
        elif TIME.fullmatch(text):
            return None
        one = known.derived
        if one is not None:
            printed = plain_number(fields[places.metric].strip())
            one = one._replace(printed=printed) if printed is not None else None
        return PerfRow(
            known.event, text, float(text), known.unit, t_s, known.scope, known.cgroup, float(runtime),
            coverage, one, known.cpus,
        )  # fmt: skip


def _words(fields: Sequence[T], places: FieldIndices) -> tuple[T, ...]:
    """Everything in a line, or of its columns, but time, value, runtime, percentage and metric."""
    time, value, runtime, metric = places
    return (*fields[time + 1 : value], *fields[value + 1 : runtime], *fields[metric + 1 :])
