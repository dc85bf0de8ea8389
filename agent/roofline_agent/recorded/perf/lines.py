"""The lines of a whole `perf stat -x` file, most of which differ from earlier ones in their numbers only."""

from __future__ import annotations

from .csv import TIME, FieldIndices, parse
from .row import PerfRow, plain_number

_REMEMBERED = 10_000  # lines of a machine with thousands of CPUs
_DIGITS = 30


class CsvLines:
    """The rows of one file. Of lines that differ in their numbers only, the first is parsed and of the others
    just the numbers are read: a recording of days has a few dozen different lines."""

    def __init__(self, sep: str) -> None:
        self.sep = sep
        # By the number of fields: where numbers stand, and the rows known by the fields that are none.
        self._forms: dict[int, tuple[FieldIndices, dict[tuple[str, ...], PerfRow]]] = {}
        self._shares: dict[str, float] = {}
        self._time = ("", 0.0)

    def row(self, line: str) -> PerfRow | None:
        """None for a line that is no row."""
        fields = line.strip(" ").split(self.sep)
        form = self._forms.get(len(fields))
        if form is not None:
            known = form[1].get(_words(fields, form[0]))
            repeated = self._repeat(known, fields, form[0]) if known is not None else None
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
            if len(form[1]) < _REMEMBERED:
                form[1][_words(fields, places)] = found
            self._shares[fields[places.runtime + 1]] = found.coverage
        return found

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


def _words(fields: list[str], places: FieldIndices) -> tuple[str, ...]:
    """Everything in a line but time, value, runtime, percentage and metric."""
    time, value, runtime, metric = places
    return (*fields[time + 1 : value], *fields[value + 1 : runtime], *fields[metric + 1 :])
