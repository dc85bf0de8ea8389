"""Reads `nvidia-smi --query-gpu=... --format=csv`, once or by -l: one row per GPU and moment, all gauges."""

from __future__ import annotations

import re
from datetime import datetime

from ..collector import Collector
from ..recording import Counter
from ..text import Text
from .rows import Header, TableRow, headers_in, number, rows

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
_MOMENT = "%Y/%m/%d %H:%M:%S.%f"


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
    for row in rows(text, found, _is_header):
        reader.take(row)


class _SmiReader:
    def __init__(self, found: Collector) -> None:
        self._found = found
        self._zero_s: float | None = None
        self._order: dict[str, int] = {}

    def take(self, row: TableRow) -> None:
        t_s = self._time(row)
        gpu = row.text("index") or self._number_of(row.text("uuid") or row.text("pci.bus_id") or "0")
        if name := row.text("name") or row.text("gpu_name"):
            self._found.facts.setdefault("device", name)
        if version := row.text("driver_version"):
            self._found.facts.setdefault("driver", version)
        for name, unit, cell in zip(row.header.names, row.header.units, row.cells, strict=True):
            if name in _TEXTS:
                continue
            match = _CELL.fullmatch(cell.strip())
            printed = number(match[1]) if match else None
            if printed is None:  # [N/A], [Not Supported], P0: no measured number
                continue
            shown = (match[2] if match else "") or unit or ("C" if name.startswith("temperature") else "")
            factor, base = _UNITS.get(shown, (1.0, shown or "1"))
            self._found.counters.append(
                Counter(
                    _OURS.get(name, name),
                    name,
                    printed * factor,
                    base,
                    f"gpu {gpu}",
                    None,
                    t_s,
                    "gauge",
                    printed,
                    shown,
                )
            )

    def _time(self, row: TableRow) -> float | None:
        """Seconds since the first row. nvidia-smi prints local time without a zone: that of this machine."""
        try:
            moment = datetime.strptime(row.text("timestamp"), _MOMENT).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
        if self._zero_s is None:
            self._zero_s = moment
            self._found.started_ns = round(moment * 1e9)
        self._found.duration_s = max(self._found.duration_s or 0.0, moment - self._zero_s)
        return moment - self._zero_s

    def _number_of(self, gpu: str) -> str:
        """GPUs in the order of the file where their index was not asked for."""
        return str(self._order.setdefault(gpu, len(self._order)))
