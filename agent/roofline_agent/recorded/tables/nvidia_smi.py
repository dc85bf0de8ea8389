"""Reads `nvidia-smi --query-gpu=... --format=csv`, once or by -l: one row per GPU and moment, all gauges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import NamedTuple

from ..cells import Array, Distinct
from ..collector import Collector
from ..columns import Columns, WantedColumns, array_of, in_turns, spread
from ..numbers import finite
from ..recording import Counter
from ..text import Text
from .rows import Header, TableBlock, TableRow, headers_in, read_all

_UNITS = {
    "%": (0.01, "1"),
    "MiB": (2.0**20, "byte"),
    "W": (1.0, "W"),
    "MHz": (1e6, "Hz"),
    "C": (1.0, "degC"),
    "KB/s": (1e3, "byte/s"),
    "ms": (1e-3, "s"),
}
# Names of the live source, where it has the value; of several columns for one the first of these has it.
_OURS = {
    "utilization.gpu": "utilization",
    "memory.used": "memory_used_bytes",
    "power.draw": "power_watts",
    "power.draw.instant": "power_watts",
    "temperature.gpu": "temperature_celsius",
    "clocks.sm": "sm_clock_hz",
    "clocks.current.sm": "sm_clock_hz",
    "clocks.mem": "memory_clock_hz",
    "clocks.current.memory": "memory_clock_hz",
}
_SECONDS_AT, _POINT_AT, _MOMENT_SIZE = map(
    len, ("2024/05/01 00:00:", "2024/05/01 00:00:30", "2024/05/01 00:00:30.250")
)
_SECOND_DIGITS, _MILLISECONDS = (17, 18, 20, 21, 22), (10_000, 1000, 100, 10, 1)
_TEXTS = frozenset(
    {"timestamp", "name", "gpu_name", "index", "uuid", "gpu_uuid", "pci.bus_id", "driver_version"}
)
_SIGNS = re.compile(
    r"utilization\.|memory\.(?:used|free|total)|power\.draw|clocks\.|temperature\.|pstate|fan\."
)
_NAMES = ("index", "uuid", "pci.bus_id")  # of GPUs
_NO_NAMES = (
    "no column says of which GPU a row is (index, uuid or pci.bus_id): all rows are taken for those of one"
)
_CELL = re.compile(r"(\s*)(-?[\d.]+)\s*([A-Za-z%/]*)")
_MINUTE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:")
_SECOND = re.compile(r"[0-6]\d\.\d{1,6}")


def sniff(head: str) -> int:
    return 91 if any(_is_header(header) for header in headers_in(head)) else 0


def _is_header(header: Header) -> bool:
    """Every column is one of nvidia-smi's: no other tool has several of them."""
    known = [name for name in header.names if _SIGNS.match(name)]
    others = [name for name in header.names if name not in _TEXTS and not re.fullmatch(r"[a-z_.0-9]+", name)]
    return bool(known) and not others and (len(known) > 1 or not _TEXTS.isdisjoint(header.names))


def read(text: Text, found: Collector) -> None:
    found.tool = "nvidia-smi"
    reader = _SmiReader(found)
    read_all(reader, text, found, _is_header, partial(_wanted, keeps=found.counters.keeps))
    if reader.has_nameless:
        found.warn(_NO_NAMES)


def _wanted(header: Header, keeps: bool) -> WantedColumns:
    """keeps: whether gauges are kept; else of rows that are alike those of the first are counted, and the
    moments are all that is needed of the others."""
    spare = [at for at, name in enumerate(header.names) if at and name != "timestamp"]
    return WantedColumns(range(len(header.names)), spare=() if keeps else spare)


class _SmiReader:
    def __init__(self, found: Collector) -> None:
        self._found = found
        self._zero_s: float | None = None
        self._order: dict[str, int] = {}
        self.has_nameless = False  # rows that do not say of which GPU they are

    def take(self, row: TableRow) -> None:
        self.has_nameless = self.has_nameless or not any(map(row.text, _NAMES))
        t_s = self._time(row.text("timestamp"))
        gpu = row.text("index") or self._number_of(row.text("uuid") or row.text("pci.bus_id") or "0")
        self._note(row.text)
        metrics, units = _metrics(row.header.names), row.header.units
        for name, metric, unit, cell in zip(row.header.names, metrics, units, row.cells, strict=True):
            gauge = _gauge(name, metric, unit, cell.strip())
            if gauge is not None:
                self._found.counters.append(gauge._replace(scope=f"gpu {gpu}", t_s=t_s))

    def take_block(self, block: TableBlock) -> None:
        """Take in each row, in columns where all of them say which GPU it is and when it was."""
        at = block.header.at.get("timestamp")
        gpus = None if block.columns.are_alike else self._gpus(block)
        self.has_nameless = self.has_nameless or block.header.at.keys().isdisjoint(_NAMES)
        moments = () if at is None else self._moments(block.columns, at)
        if moments is None or (gpus is None and not block.columns.are_alike):
            for row in block.rows():
                self.take(row)
            return
        since = () if at is None else self._since_zero(moments)
        self._note(lambda name: block.text(name, 0))
        columns = range(len(block.header.names))
        if not self._found.counters.keeps or gpus is None:
            self._found.counters.skip(_count(block))
        elif found := [one for column in columns if (one := _gauges(block, column)) is not None]:
            self._keep(found, gpus, None if at is None else spread(since, block.columns.which(at)))

    def _keep(self, found: Sequence[_Gauges], gpus: Distinct, times: Array | None) -> None:
        """The gauges of columns, those of a row one behind the other. times: of the rows."""
        likes: list[Counter] = []
        kinds = []
        for gauges in found:
            ours = gauges.which
            kinds.append((len(likes) + ours * len(gpus.texts) + gpus.which) * (ours >= 0) - (ours < 0))
            likes += [like._replace(scope=f"gpu {gpu}") for like in gauges.likes for gpu in gpus.texts]
        which = in_turns(kinds)
        are_there = which >= 0
        columns = {
            "value": [gauges.values for gauges in found],
            "printed": [gauges.printed for gauges in found],
        }
        if times is not None:
            columns["t_s"] = [times] * len(found)
        numbers = {name: in_turns(column)[are_there] for name, column in columns.items()}
        self._found.counters.extend(likes, which[are_there], numbers)

    def _gpus(self, block: TableBlock) -> Distinct | None:
        """The number of each row's GPU; None where one does not say it."""
        named = next(filter(None, map(block.distinct, _NAMES)), None)
        if named is None or "" in named.texts:
            return None
        if "index" in block.header.at:
            return named
        return named._replace(texts=list(map(self._number_of, named.texts)))

    def _note(self, text: Callable[[str], str]) -> None:
        """What a row says of the machine. text: its cells by name."""
        if name := text("name") or text("gpu_name"):
            self._found.facts.setdefault("device", name)
        if version := text("driver_version"):
            self._found.facts.setdefault("driver", version)

    def _time(self, text: str) -> float | None:
        """Seconds since the first row."""
        moment = moment_s(text)
        return None if moment is None else self._since_zero([moment])[0]

    def _moments(self, columns: Columns, at: int) -> Sequence[float] | None:
        """UNIX times of the different texts of a column; None where one is no moment."""
        letters = columns.letters(at)
        found = moments_s(letters) if letters is not None and letters.shape[1] == _MOMENT_SIZE else None
        if found is not None:
            return found
        moments = [moment_s(text.strip()) for text in columns.distinct(at).texts]
        return [one for one in moments if one is not None] if None not in moments else None

    def _since_zero(self, moments: Sequence[float]) -> Sequence[float]:
        """Seconds since the first row; the first of the file's begins it."""
        if self._zero_s is None:
            self._zero_s = moments[0]
            self._found.started_ns = round(moments[0] * 1e9)
        zero_s = self._zero_s
        self._found.duration_s = max(self._found.duration_s or 0.0, max(moments) - zero_s)
        return [moment - zero_s for moment in moments]

    def _number_of(self, gpu: str) -> str:
        """GPUs in the order of the file where their index was not asked for."""
        return str(self._order.setdefault(gpu, len(self._order)))


class _Gauges(NamedTuple):
    """What the cells of a column say. which: of `likes` each is like, -1: it is no measured number."""

    likes: list[Counter]
    which: Array
    values: Array
    printed: Array


class _Around(NamedTuple):
    """A gauge, and what comes before and after its number."""

    gauge: Counter
    before: str
    after: str


def _around(block: TableBlock, at: int, first: str) -> _Around | None:
    """Of the first cell of a column; None where it is no measured number."""
    match = _CELL.fullmatch(first)
    gauge = _gauge_of(block.header, at, first)
    return (
        _Around(gauge, match[1], first[match.end(2) :]) if match is not None and gauge is not None else None
    )


def _count(block: TableBlock) -> int:
    """How many cells are measured numbers."""
    if not block.columns.are_alike:
        return sum(_count_of(block, at) for at in range(len(block.header.names)))
    first = next(iter(block.rows(0, 1))).cells
    return len(block.columns) * sum(_around(block, at, cell) is not None for at, cell in enumerate(first))


def _count_of(block: TableBlock, at: int) -> int:
    """How many cells of a column are measured numbers."""
    around = _around(block, at, block.columns.text(at, 0))
    if around is not None and block.columns.are_numbers_within(at, around.before, around.after):
        return len(block.columns)
    gauges = _gauges(block, at)
    return 0 if gauges is None else int((gauges.which >= 0).sum())


def _gauges(block: TableBlock, at: int) -> _Gauges | None:
    """Of a column; None where no cell is a measured number."""
    if block.header.names[at] in _TEXTS:
        return None
    around = _around(block, at, block.columns.text(at, 0))
    if around is not None:
        numbers = block.columns.numbers_within(at, around.before, around.after)
        if numbers is not None:
            factor, _ = _unit(around.gauge.printed_unit)
            return _Gauges([around.gauge], numbers.astype(int) * 0, numbers * factor, numbers)
    cells = block.columns.distinct(at)
    found = [_gauge_of(block.header, at, cell) for cell in cells.texts]
    likes = {one.printed_unit: one for one in found if one is not None}
    units = list(likes)
    columns: tuple[Sequence[float], ...] = (
        [-1 if one is None else units.index(one.printed_unit) for one in found],
        [one.value or 0.0 if one is not None else 0.0 for one in found],
        [one.printed or 0.0 if one is not None else 0.0 for one in found],
    )
    which, values, printed = (spread(column, cells.which) for column in columns)
    return _Gauges(list(likes.values()), which, values, printed) if likes else None


@lru_cache(maxsize=64)
def _metrics(names: tuple[str, ...]) -> tuple[str, ...]:
    """Of the columns of a table, each metric once: a second column for one keeps nvidia-smi's name, "" if it
    is the same column again."""
    first: dict[str, str] = {}
    for name in (one for one in _OURS if one in names):
        first.setdefault(_OURS[name], name)
    ours = {name: metric for metric, name in first.items()}
    return tuple(ours.get(name, name) if at == names.index(name) else "" for at, name in enumerate(names))


def _gauge_of(header: Header, at: int, cell: str) -> Counter | None:
    """What `_gauge` returns for a cell in this column."""
    return _gauge(header.names[at], _metrics(header.names)[at], header.units[at], cell.strip())


@lru_cache(maxsize=1 << 14)
def _gauge(name: str, metric: str, unit: str, cell: str) -> Counter | None:
    """What a cell says, of any GPU at any time; None where it is no measured number: [N/A], P0, a name."""
    match = _CELL.fullmatch(cell) if metric and name not in _TEXTS else None
    printed = finite(match[2]) if match else None
    if match is None or printed is None:
        return None
    shown = match[3] or unit or ("C" if name.startswith("temperature") else "")
    factor, base = _unit(shown)
    return Counter(metric, name, printed * factor, base, kind="gauge", printed=printed, printed_unit=shown)


def _unit(shown: str) -> tuple[float, str]:
    """Its factor and base unit."""
    return _UNITS.get(shown, (1.0, shown or "1"))


def moment_s(text: str) -> float | None:
    """UNIX time. nvidia-smi prints local time without a zone: that of this machine."""
    minute, second = _minute_s(text[:_SECONDS_AT]), _second_s(text[_SECONDS_AT:])
    return None if minute is None or second is None else minute + second


def moments_s(letters: Array) -> list[float] | None:
    """UNIX times of many texts with milliseconds, a row of characters each; None where one is none."""
    digits = letters[:, _SECOND_DIGITS] - ord("0")
    if not ((digits <= 9).all() and (digits[:, 0] <= 6).all() and (letters[:, _POINT_AT] == ord(".")).all()):
        return None
    changes = (letters[1:, :_SECONDS_AT] != letters[:-1, :_SECONDS_AT]).any(axis=1)
    firsts = [0, *(changes.nonzero()[0] + 1).tolist()]
    minutes = [_minute_s(letters[at, :_SECONDS_AT].tobytes().decode("latin-1")) for at in firsts]
    if None in minutes:
        return None
    seconds = digits @ array_of(_MILLISECONDS) / 1000  # as exact as the number that is printed
    of_each = array_of([0, *changes.cumsum().tolist()])
    return list((spread(minutes, of_each) + seconds).tolist())


@lru_cache(maxsize=1024)
def _minute_s(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:").timestamp() if _MINUTE.fullmatch(text) else None
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=1 << 14)
def _second_s(text: str) -> float | None:
    return float(text) if _SECOND.fullmatch(text) else None
