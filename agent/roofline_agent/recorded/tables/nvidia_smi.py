"""Reads `nvidia-smi --query-gpu=... --format=csv`, once or by -l: one row per GPU and moment, all gauges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from ..cells import Array, Distinct
from ..collector import Collector
from ..columns import WantedColumns, in_turns, spread
from ..recording import Counter
from ..text import Text
from .rows import Header, TableBlock, TableRow, headers_in, number, read_all

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
_CELL = re.compile(r"(\s*)(-?[\d.]+)\s*([A-Za-z%/]*)")
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
    read_all(reader, text, found, _is_header, lambda header: WantedColumns(range(len(header.names))))


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
        times = self._times(moments.texts) if moments is not None else ()
        if gpus is None or times is None:
            for row in block.rows():
                self.take(row)
            return
        self._note(lambda name: block.text(name, 0))
        likes: list[Counter] = []
        kinds, values, printed = [], [], []
        for gauges in filter(None, (_gauges(block, at) for at in range(len(block.header.names)))):
            ours = gauges.which
            kinds.append((len(likes) + ours * len(gpus.texts) + gpus.which) * (ours >= 0) - (ours < 0))
            values.append(gauges.values)
            printed.append(gauges.printed)
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
        times = self._times([text])
        return times[0] if times is not None else None

    def _times(self, texts: Sequence[str]) -> Sequence[float] | None:
        """None where one is no moment."""
        moments = [moment for text in texts if (moment := _moment_s(text)) is not None]
        if len(moments) < len(texts):
            return None
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
    """What the rows of a column say. which: the like of each, -1 where it is no measured number."""

    likes: list[Counter]
    which: Array
    values: Array
    printed: Array


def _gauges(block: TableBlock, at: int) -> _Gauges | None:
    """Of a column; None where no cell is a measured number."""
    name, unit, first = block.header.names[at], block.header.units[at], block.columns.text(at, 0)
    if name in _TEXTS:
        return None
    match, gauge = _CELL.fullmatch(first), _gauge(name, unit, first.strip())
    if match is not None and gauge is not None:
        numbers = block.columns.numbers_within(at, match[1], first[match.end(2) :])
        if numbers is not None:
            factor, _ = _unit(gauge.printed_unit)
            return _Gauges([gauge], numbers.astype(int) * 0, numbers * factor, numbers)
    cells = block.column(at)
    found = [_gauge(name, unit, cell) for cell in cells.texts]
    likes = {one.printed_unit: one for one in found if one is not None}
    units = list(likes)
    columns = (
        [-1 if one is None else units.index(one.printed_unit) for one in found],
        [one.value or 0.0 if one is not None else 0.0 for one in found],
        [one.printed or 0.0 if one is not None else 0.0 for one in found],
    )
    return _Gauges(list(likes.values()), *(spread(one, cells.which) for one in columns)) if likes else None


@lru_cache(maxsize=1 << 14)
def _gauge(name: str, unit: str, cell: str) -> Counter | None:
    """What a cell says, of any GPU at any time; None where it is no measured number: [N/A], P0, a name."""
    match = _CELL.fullmatch(cell) if name not in _TEXTS else None
    printed = number(match[2]) if match else None
    if match is None or printed is None:
        return None
    shown = match[3] or unit or ("C" if name.startswith("temperature") else "")
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
