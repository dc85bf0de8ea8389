"""Reads what `dcgmi dmon` prints: a header of short field names, a row of units, a row per GPU and reading.

Short names: dcgm_fields.cpp of DCGM 4.6. The tool prints no times: readings have those that something else
has put before each line (`| ts`), else none, and are kept in the order of the file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from datetime import datetime

from ..collector import Collector
from ..recording import Counter
from .fields import DcgmField, field
from .values import blank

_STAMP = r"\s*(?:\[?(?P<stamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\]?,?\s+)?"
_HEADER = re.compile(_STAMP + r"(?P<mark>#)\s?Entity\s+(?P<names>\S.*)")
_ROW = re.compile(
    _STAMP + r"(?P<kind>GPU-CI|GPU-I|v?GPU|CPU|Switch|\w+ \d+ LINK)\s+(?P<id>\d+)\s+(?P<values>\S.*)"
)
SIGN = re.compile(r"^.{0,40}#\s?Entity\s+[A-Z][A-Z0-9]{3,5}\b", re.MULTILINE)
MAX_LINE = 20_000  # characters
_NAMES = {
    "GRACT": "PROF_GR_ENGINE_ACTIVE",
    "SMACT": "PROF_SM_ACTIVE",
    "SMOCC": "PROF_SM_OCCUPANCY",
    "TENSO": "PROF_PIPE_TENSOR_ACTIVE",
    "TIMMA": "PROF_PIPE_TENSOR_IMMA_ACTIVE",
    "THMMA": "PROF_PIPE_TENSOR_HMMA_ACTIVE",
    "TDFMA": "PROF_PIPE_TENSOR_DFMA_ACTIVE",
    "DRAMA": "PROF_DRAM_ACTIVE",
    "FP64A": "PROF_PIPE_FP64_ACTIVE",
    "FP32A": "PROF_PIPE_FP32_ACTIVE",
    "FP16A": "PROF_PIPE_FP16_ACTIVE",
    "INTAC": "PROF_PIPE_INT_ACTIVE",
    "PCITX": "PROF_PCIE_TX_BYTES",
    "PCIRX": "PROF_PCIE_RX_BYTES",
    "NVLTX": "PROF_NVLINK_TX_BYTES",
    "NVLRX": "PROF_NVLINK_RX_BYTES",
    "GPUTL": "DEV_GPU_UTIL",
    "MCUTL": "DEV_MEM_COPY_UTIL",
    "ECUTL": "DEV_ENC_UTIL",
    "DCUTL": "DEV_DEC_UTIL",
    "POWER": "DEV_POWER_USAGE",
    "POWINST": "DEV_POWER_USAGE_INSTANT",
    "TOTEC": "DEV_TOTAL_ENERGY_CONSUMPTION",
    "SMCLK": "DEV_SM_CLOCK",
    "MMCLK": "DEV_MEM_CLOCK",
    "FBTTL": "DEV_FB_TOTAL",
    "FBFRE": "DEV_FB_FREE",
    "FBUSD": "DEV_FB_USED",
    "TMPTR": "DEV_GPU_TEMP",
    "MMTMP": "DEV_MEMORY_TEMP",
}


def read_lines(lines: Iterable[tuple[str, int]], found: Collector) -> None:
    """lines: with their numbers. Adds a counter for each value; "N/A" is a counter without one."""
    found.tool = "dcgmi dmon"
    table = _DmonTable(found)
    for line, number in lines:
        table.add(line[:MAX_LINE], number)
    table.warn()


class _DmonTable:
    def __init__(self, found: Collector) -> None:
        self._found = found
        self._names: list[str] = []
        self._begins: list[int] = []  # of the columns, from the header's mark on
        self._gpu = ""  # of the last row; MIG parts stand below theirs
        self._parts: dict[str, str] = {}  # to their scopes
        self._zero: datetime | None = None
        self._seen: set[str] = set()  # entities that had a row without a time
        self._has_repeated = False
        self._profiled = self._active = False

    def add(self, line: str, number: int) -> None:
        header = _HEADER.fullmatch(line.rstrip())
        if header:
            self._names = header["names"].split()
            at = header.start("names") - header.start("mark")
            self._begins = [at + name.start() for name in re.finditer(r"\S+", header["names"])]
            return
        row = _ROW.fullmatch(line.rstrip())
        if not row or not self._names:
            return
        values = self._values(line, row)
        if values is None:
            self._found.warn("row with another number of values than its header; it is left out", number)
            return
        scope = self._scope(row["kind"], row["id"])
        t_s = self._time(row["stamp"], scope)
        for name, printed in zip(self._names, values, strict=True):
            self._value(field(_NAMES.get(name, name)), name, printed, scope, t_s, number)

    def _values(self, line: str, row: re.Match[str]) -> list[str] | None:
        """None where they are not as many as the header's names. Names of GPUs have blanks: then a value
        reaches from where its column's name begins to the next."""
        values = row["values"].split()
        if len(values) == len(self._names):
            return values
        begins = [row.start("kind") + begin for begin in self._begins]
        if not all(re.fullmatch(r"\s\S", line[begin - 1 : begin + 1]) for begin in begins):
            return None
        return [line[begin:end].strip() for begin, end in zip(begins, [*begins[1:], None], strict=True)]

    def _value(
        self, known: DcgmField, name: str, printed: str, scope: str, t_s: float | None, number: int
    ) -> None:
        shown: float | None = None
        with contextlib.suppress(ValueError):
            shown = float(printed) if "_" not in printed and not blank(printed) else None
        if shown is not None and not abs(shown) < 1e300:
            shown = None
        value = None if shown is None else shown * known.scale
        self._found.counters.append(
            Counter(
                known.metric, name, value, known.unit, scope, None, t_s, known.kind, shown, known.printed_unit
            )
        )
        if value is None:
            self._found.warn(f"{name}: {printed[:40]} is no value", number)
        elif known.fraction and not 0 <= value <= 1.001:
            self._found.warn(f"{known.metric}: a share of {value:g} is not between 0 and 1", number)
        if value is not None and _NAMES.get(name, "").startswith("PROF_"):
            self._profiled = True
            self._active |= value != 0

    def _scope(self, kind: str, number: str) -> str:
        if kind == "GPU":
            self._gpu = f"gpu {number}"
            return self._gpu
        if kind in ("GPU-I", "GPU-CI"):
            part = f"{'instance' if kind == 'GPU-I' else 'compute instance'} {number}"
            # A reading may begin with parts of a GPU that has no row, below the last GPU of the one before.
            return self._parts.setdefault(part, f"{self._gpu} {part}".strip())
        return f"{kind.lower()} {number}"

    def _time(self, stamp: str | None, scope: str) -> float | None:
        if stamp is None:
            self._has_repeated = self._has_repeated or scope in self._seen
            self._seen.add(scope)
            return None
        try:
            at = datetime.fromisoformat(stamp)
        except ValueError:
            return None
        if self._zero is None:
            self._zero = at
            with contextlib.suppress(ValueError, OverflowError, OSError):
                # A stamp has no zone: it is taken for this machine's.
                self._found.started_ns = round(at.timestamp() * 1e6) * 1000
        return (at - self._zero).total_seconds()

    def warn(self) -> None:
        if self._has_repeated:
            self._found.warn("dcgmi dmon prints no times: its readings are kept in their order")
        if self._profiled and not self._active:
            self._found.warn("every profiling field is 0: on a GPU that was busy they were not measured")
