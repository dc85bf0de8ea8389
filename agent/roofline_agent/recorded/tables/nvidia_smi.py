"""Reads `nvidia-smi --query-gpu=... --format=csv`, once or by -l: one row per GPU and moment, all gauges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from ..collector import Collector
from ..columns import Distinct, WantedColumns, in_turns, spread
from ..recording import Counter
from ..text import Text
from .rows import Header, TableBlock, TableRow, blocks, headers_in, number

_UNITS = {
    "%": (0.01, "1"),
    "MiB": (2.0**20, "byte"),
    "W": (1.0, "W"),
    "MHz": (1e6, "Hz"),
    "C": (1.0, "degC"),
    "KB/s": (1e3, "byte/s"),
    "ms": (1e-3, "s"),
}
_OURS = {  # names of the live source, where it has the value
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
_TEXTS = frozenset(
    {"timestamp", "name", "gpu_name", "index", "uuid", "gpu_uuid", "pci.bus_id", "driver_version"}
)
_SIGNS = re.compile(
    r"utilization\.|memory\.(?:used|free|total)|power\.draw|clocks\.|temperature\.|pstate|fan\."
)
_CELL = re.compile(r"(-?[\d.]+)\s*([A-Za-z%/]*)")
_DIGITS = frozenset("0123456789.-")
_MOMENT = re.compile(r"(\d{4}/\d\d/\d\d \d\d:\d\d):([0-6]\d\.\d{1,6})")


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
    for some in blocks(text, found, _is_header, lambda header: WantedColumns(range(len(header.names)))):
        if isinstance(some, TableRow):
            reader.take(some)
        else:
            reader.take_block(some)


class _SmiReader:
    def __init__(self, found: Collector) -> None:
        self._found = found
        self._zero_s: float | None = None
        self._order: dict[str, int] = {}

    def take(self, row: TableRow) -> None:
        t_s = self._time(row.text("timestamp"))
        gpu = row.text("index") or self._number_of(row.text("uuid") or row.text("pci.bus_id") or "0")
        self._note(row.text)
        for name, unit, cell in zip(row.header.names, row.header.units, row.cells, strict=True):
            gauge = _gauge(name, unit, cell.strip())
            if gauge is not None:
                self._found.counters.append(gauge._replace(scope=f"gpu {gpu}", t_s=t_s))

    def take_block(self, block: TableBlock) -> None:
        """The same for each row, in columns where all of them say which GPU it is and when it was."""
        gpus, moments = self._gpus(block), block.distinct("timestamp")
        times = [self._time(text) for text in moments.texts] if moments is not None else []
        if gpus is None or None in times:
            for row in block.rows():
                self.take(row)
            return
        self._note(lambda name: block.text(name, 0))
        likes: list[Counter] = []
        kinds, values, printed = [], [], []
        for at, (name, unit) in enumerate(zip(block.header.names, block.header.units, strict=True)):
            cells = block.column(at)
            gauges = _gauges(name, unit, cells.texts)
            if gauges is None:
                continue
            ours = spread(gauges.which, cells.which)
            kinds.append((len(likes) + ours * len(gpus.texts) + gpus.which) * (ours >= 0) - (ours < 0))
            values.append(spread(gauges.values, cells.which))
            printed.append(spread(gauges.printed, cells.which))
            likes += [like._replace(scope=f"gpu {gpu}") for like in gauges.likes for gpu in gpus.texts]
        if not kinds:
            return
        which = in_turns(kinds)
        are_there = which >= 0
        numbers = {"value": in_turns(values)[are_there], "printed": in_turns(printed)[are_there]}
        if moments is not None:
            numbers["t_s"] = in_turns([spread(times, moments.which)] * len(kinds))[are_there]
        self._found.counters.extend(likes, which[are_there], numbers)

    def _gpus(self, block: TableBlock) -> Distinct | None:
        """The number of each row's GPU; None where one does not say it."""
        named = next(filter(None, map(block.distinct, ("index", "uuid", "pci.bus_id"))), None)
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
        moment = _moment_s(text)
        if moment is None:
            return None
        if self._zero_s is None:
            self._zero_s = moment
            self._found.started_ns = round(moment * 1e9)
        self._found.duration_s = max(self._found.duration_s or 0.0, moment - self._zero_s)
        return moment - self._zero_s

    def _number_of(self, gpu: str) -> str:
        """GPUs in the order of the file where their index was not asked for."""
        return str(self._order.setdefault(gpu, len(self._order)))


class _Gauges(NamedTuple):
    """What the different cells of a column say. which: the like of each, -1 where it measured nothing."""

    likes: list[Counter]
    which: list[int]
    values: list[float]
    printed: list[float]


def _gauges(name: str, unit: str, cells: Sequence[str]) -> _Gauges | None:
    """None where no cell is a measured number."""
    first = _gauge(name, unit, cells[0])
    numbers = _numbers(cells, unit) if first is not None else None
    if first is not None and numbers is not None:
        factor, _ = _unit(first.printed_unit)
        return _Gauges([first], [0] * len(cells), [one * factor for one in numbers], numbers)
    found = [_gauge(name, unit, cell) for cell in cells]
    likes = {one.printed_unit: one for one in found if one is not None}
    units = list(likes)
    which = [-1 if one is None else units.index(one.printed_unit) for one in found]
    values = [one.value or 0.0 if one is not None else 0.0 for one in found]
    printed = [one.printed or 0.0 if one is not None else 0.0 for one in found]
    return _Gauges(list(likes.values()), which, values, printed) if likes else None


def _numbers(cells: Sequence[str], unit: str) -> list[float] | None:
    """Of cells that all have the unit of their header; None where one has not. Power has thousands."""
    end = f" {unit}" if unit else ""
    texts = [cell.removesuffix(end) for cell in cells]
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    has_end = all(map(str.endswith, cells, repeat(end)))
    return numbers if has_end and _DIGITS.issuperset("".join(texts)) else None


@lru_cache(maxsize=1 << 14)
def _gauge(name: str, unit: str, cell: str) -> Counter | None:
    """What a cell says, of any GPU at any time; None where it is no measured number: [N/A], P0, a name."""
    match = _CELL.fullmatch(cell) if name not in _TEXTS else None
    printed = number(match[1]) if match else None
    if match is None or printed is None:
        return None
    shown = match[2] or unit or ("C" if name.startswith("temperature") else "")
    factor, base = _unit(shown)
    ours = _OURS.get(name, name)
    return Counter(ours, name, printed * factor, base, kind="gauge", printed=printed, printed_unit=shown)


def _unit(shown: str) -> tuple[float, str]:
    """Its factor and base unit."""
    return _UNITS.get(shown, (1.0, shown or "1"))


def _moment_s(text: str) -> float | None:
    """UNIX time. nvidia-smi prints local time without a zone: that of this machine."""
    match = _MOMENT.fullmatch(text)
    try:
        return _minute_s(match[1]) + float(match[2]) if match else None
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=1024)
def _minute_s(text: str) -> float:
    return datetime.strptime(text, "%Y/%m/%d %H:%M").timestamp()
