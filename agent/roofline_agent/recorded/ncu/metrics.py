"""The metrics of Nsight Compute under one name and in base units, whichever page they were printed on.

Time: gpu__time_duration, else elapsed cycles over cycles per second (NERSC's hierarchical roofline). Bytes of
a level: its byte counter, else reads plus writes, else sectors of 32 bytes, else the rate times the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from .launches import MetricCell, MetricTable
from .linear import FormKey, LinearReading
from .values import number, quick_number, unit

SECTOR_BYTES = 32.0  # L1 and L2 sectors and DRAM sectors of every GPU that Nsight Compute knows

_RAW = re.compile(r"[a-z0-9]+__[A-Za-z0-9_]+(?:\.[a-z0-9_]+)*")
# Labels of the details page, with the base unit that distinguishes two metrics of one label.
_LABELS = {
    ("duration", "s"): "gpu__time_duration.sum",
    ("elapsed cycles", "cycle"): "gpc__cycles_elapsed.max",
    ("sm frequency", "Hz"): "sm__cycles_elapsed.avg.per_second",
    ("memory throughput", "byte/s"): "dram__bytes.sum.per_second",
    ("dram bandwidth", "byte/s"): "dram__bytes.sum.per_second",
}
_PER_CYCLE = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_LABELS |= {
    (f"theoretical predicated-on {op} thread instructions executed", "inst/cycle"): (
        f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained"
    )
    for op in ("ffma", "dfma", "hfma")
}
_LABELS |= {
    ("theoretical dram bytes accessible", "byte/cycle"): "dram__bytes.sum.peak_sustained",
    ("dram frequency", "Hz"): "dram__cycles_elapsed.avg.per_second",
}
_LABELS |= {
    (f"predicated-on {op} thread instructions executed per cycle", "inst/cycle"): _PER_CYCLE.format(op)
    for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma")
}
# FLOPs of a packed FP32 instruction, which does two operations (Blackwell of data centres): the plain ones
# are counted without them.
PACKED_FP32 = {"fadd2": 2.0, "fmul2": 2.0, "ffma2": 4.0}
DEVICE_NAME = "device__attribute_display_name"
CC_MAJOR, CC_MINOR = (f"device__attribute_compute_capability_{part}" for part in ("major", "minor"))
_ATTRIBUTES = frozenset({DEVICE_NAME, CC_MAJOR, CC_MINOR})
_NEEDED = re.compile(
    r"gpu__time_duration|__cycles_elapsed\.|(?:dram_|lts__t|l1tex__t)_(?:bytes|sectors)(?:_op)?(?:_read|_write)?\.sum"
    r"|sass_thread_inst_executed_ops?_[dfh]|inst_executed_pipe_tensor(?:_op_[hid]mma)?\.sum|ops_path_tensor.*\.sum"
)
_TOTALS = ("", ".per_cycle_elapsed", ".per_second")  # how a count may be printed: itself, or a rate
_LONGEST = 300  # characters of a name: longer ones are no metrics, and would fill the caches
_CLUTTER = ("device__", "launch__", "profiler__", "c2clink__", "nvlink__", "numa__", "pmsampling:")


class MetricValue(NamedTuple):
    """One metric of one launch; value None: the tool could not measure it, or it is no number."""

    value: float | None
    unit: str  # a base unit, "" where the page names none
    event: str  # as printed
    text: str
    printed: float | None
    printed_unit: str


class Elapsed(NamedTuple):
    """How long one launch took, for pages that print counts per second or per cycle."""

    time_s: float | None
    cycles: float | None


class LaunchMetrics:
    """The metrics of a launch under their raw names, converted when they are asked for; knows which were."""

    def __init__(self, metrics: Mapping[str, list[MetricCell]], decimal_comma: bool = False) -> None:
        self._decimal_comma = decimal_comma
        self._cells: dict[str, list[tuple[str, MetricCell]]] = {}
        self._used: set[str] = set()
        for event, cells in metrics.items():
            for cell in cells:
                name = canonical(event[:_LONGEST], (cell.unit or "")[:_LONGEST])
                self._cells.setdefault(name, []).append((event, cell))

    @property
    def names(self) -> list[str]:
        return list(self._cells)

    def get(self, name: str) -> MetricValue | None:
        """The first of that name that has a value, else the first of that name."""
        cells = self._cells.get(name)
        if not cells:
            return None
        first: MetricValue | None = None
        for event, cell in cells:
            text, mark, _ = cell.value.partition("%")
            printed_unit = "%" if mark and not cell.unit else cell.unit or ""
            printed = number(text, self._decimal_comma)
            base = unit(printed_unit[:_LONGEST])
            value = None if printed is None else printed * base.factor
            base_unit = "" if cell.unit is None else base.base
            found = MetricValue(value, base_unit, event, cell.value, printed, printed_unit)
            if value is not None:
                return found
            first = first or found
        return first

    def take(self, name: str, base: str = "") -> float | None:
        """Its value; None where there is none or where it is in another unit than `base` ("": any)."""
        if name not in self._cells:  # most are asked for in vain
            return None
        found = self.get(name)
        if found is None or found.value is None or (base and found.unit != base):
            return None
        self._used.add(name)
        return found.value

    def count(self, name: str) -> float | None:
        """A count of the SM's instructions, which has the same value as sm__ and as smsp__: taken once."""
        both = ("sm__" + name, "smsp__" + name)
        value = self.take(both[0])
        if value is None:
            value = self.take(both[1])
        if value is not None:
            self._used.update(both)
        return value

    def total(self, name: str, elapsed: Elapsed) -> float | None:
        """A count as `count` has it, else its rate times what has elapsed."""
        value = self.count(name)
        for ending, by in zip(_TOTALS[1:], (elapsed.cycles, elapsed.time_s), strict=True):
            if value is None and by is not None and (rate := self.count(name + ending)) is not None:
                value = rate * by
        return value

    def mark(self, names: Iterable[str]) -> None:
        """Count these as taken: they hold the same as one that was."""
        self._used.update(names)

    def left(self) -> Iterator[tuple[str, MetricValue]]:
        """All others."""
        for name in self._cells:
            if name not in self._used and (value := self.get(name)) is not None:
                yield name, value


class CompiledMetrics:
    """How a table of metrics is read: worked out once for its names and units."""

    def __init__(self, table: MetricTable, decimal_comma: bool) -> None:
        names = [canonical(n[:_LONGEST], u[:_LONGEST]) for n, u in zip(table.names, table.units, strict=True)]
        self.decimal_comma = decimal_comma
        self.table = table
        self.at = {name: i for i, name in enumerate(names)}
        self.is_plain = len(self.at) == len(names)  # no metric occurs in it twice
        self.needed = tuple(i for i, name in enumerate(names) if is_read(name))
        self.units = [unit(one[:_LONGEST]) for one in table.units]
        self.counts: dict[str, str] = {}  # metric of an SM -> the name that is here, "" none
        self.totals: dict[str, bool] = {}  # whether the table has a total in any form
        self.seen: dict[FormKey, int] = {}  # launches
        self.linear: dict[FormKey, LinearReading | None] = {}
        self.forms: dict[LinearReading, LinearReading] = {}  # one of those that are equal


class CompiledLaunch(LaunchMetrics):
    """The metrics of a launch whose table was compiled."""

    def __init__(self, compiled: CompiledMetrics, cells: tuple[str, ...]) -> None:
        self.compiled = self._compiled = compiled
        self.cells = self._texts = cells
        self._numbers: list[float | None] | None = None
        self._used: set[str] = set()

    @property
    def names(self) -> list[str]:
        return list(self._compiled.at)

    def get(self, name: str) -> MetricValue | None:
        at = self._compiled.at.get(name)
        if at is None:
            return None
        text, mark, _ = self._texts[at].partition("%")
        table, base = self._compiled.table, self._compiled.units[at]
        printed_unit = "%" if mark and not table.units[at] else table.units[at]
        if mark and not table.units[at]:
            base = unit("%")
        printed = number(text, self._compiled.decimal_comma)
        value = None if printed is None else printed * base.factor
        return MetricValue(value, base.base, table.names[at], self._texts[at], printed, printed_unit)

    def take(self, name: str, base: str = "") -> float | None:
        compiled = self._compiled
        at = compiled.at.get(name)
        if at is None or (base and compiled.units[at].base != base):
            return None
        printed = quick_number(self._texts[at], compiled.decimal_comma)
        if printed is None:
            return None
        self._used.add(name)
        return printed * compiled.units[at].factor

    def count(self, name: str) -> float | None:
        here = self._compiled.counts.get(name)
        if here is None:
            both = ("sm__" + name, "smsp__" + name)
            known = [one for one in both if one in self._compiled.at]
            if len(known) == 2:  # the first that has a value: not known before
                return super().count(name)
            here = self._compiled.counts[name] = known[0] if known else ""
        return self.take(here) if here else None

    def total(self, name: str, elapsed: Elapsed) -> float | None:
        known = self._compiled.totals.get(name)
        if known is None:
            here = self._compiled.at
            forms = (part + name + end for part in ("sm__", "smsp__") for end in _TOTALS)
            known = self._compiled.totals[name] = any(one in here for one in forms)
        return super().total(name, elapsed) if known else None

    def left(self) -> Iterator[tuple[str, MetricValue]]:
        for name in self._compiled.at:
            if name not in self._used and (value := self.get(name)) is not None:
                yield name, value


@lru_cache(maxsize=8192)
def canonical(printed: str, printed_unit: str = "") -> str:
    """The raw name of a metric: of a label ("Duration", "Duration gpu__time_duration.sum") or of itself."""
    raw = _RAW.search(printed)
    if raw:
        return raw[0]
    label = printed.strip()
    return _LABELS.get((label.lower(), unit(printed_unit).base), label)


def is_read(name: str) -> bool:
    """Whether time, bytes or FLOPs may come out of a metric."""
    return bool(_NEEDED.search(name[:_LONGEST]))


def is_needed(name: str) -> bool:
    """Whether a launch or its GPU cannot be described without it."""
    return is_read(name) or name in _ATTRIBUTES


def is_wanted(name: str) -> bool:
    """Whether a column of a wide page is worth its conversion: not the hundreds that describe the device."""
    raw = _RAW.search(name[:_LONGEST])
    return bool(raw) and (name in _ATTRIBUTES or not name.startswith(_CLUTTER))


def time_s(found: LaunchMetrics) -> tuple[float | None, str]:
    """Seconds of the launch, and a note where they are not gpu__time_duration."""
    for name in ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max"):
        if (value := found.take(name, "s")) is not None and value > 0:
            found.mark(f"gpu__time_duration.{kind}" for kind in ("sum", "avg", "min", "max"))
            return value, ""
    for cycles in ("sm", "smsp", "gpc"):
        for kind in ("avg", "max"):
            if elapsed := cycles_over_rate(found, f"{cycles}__cycles_elapsed.{kind}", cycles):
                return elapsed, "" if kind == "avg" else "time from elapsed cycles: some per cent too long"
    return None, ""


def cycles_over_rate(found: LaunchMetrics, name: str, part: str) -> float | None:
    cycles = found.take(name)
    rates = (found.take(f"{one}__cycles_elapsed.avg.per_second", "Hz") for one in (part, "sm", "smsp", "gpc"))
    rate = next((one for one in rates if one), None)
    return cycles / rate if cycles and rate else None


def moved(found: LaunchMetrics, time: float | None) -> tuple[dict[str, float], list[str]]:
    """Bytes by memory level, and notes on how they were had."""
    levels: dict[str, float] = {}
    notes: list[str] = []
    for level, prefix in (("dram", "dram__"), ("l2", "lts__t_"), ("l1", "l1tex__t_")):
        direct = _counted_bytes(found, prefix)
        if direct is None and time is not None and (rate := _bytes_per_s(found, prefix)) is not None:
            direct = rate * time
            notes.append(f"{level} bytes: rate x time")
        if direct is not None:
            levels[level] = direct
    return levels, notes


def _counted_bytes(found: LaunchMetrics, prefix: str) -> float | None:
    for plain, read, write, unit_name, size in (
        ("bytes.sum", "bytes_read.sum", "bytes_write.sum", "byte", 1.0),
        ("bytes.sum", "bytes_op_read.sum", "bytes_op_write.sum", "byte", 1.0),
        ("sectors.sum", "sectors_read.sum", "sectors_write.sum", "", SECTOR_BYTES),
        ("sectors.sum", "sectors_op_read.sum", "sectors_op_write.sum", "", SECTOR_BYTES),
    ):
        total = found.take(prefix + plain, unit_name)
        both = [found.take(prefix + one, unit_name) for one in (read, write)]
        if total is None and both[0] is not None and both[1] is not None:
            total = both[0] + both[1]
        if total is not None:
            return total * size
    return None


def _bytes_per_s(found: LaunchMetrics, prefix: str) -> float | None:
    total = found.take(prefix + "bytes.sum.per_second", "byte/s")
    for way in ("", "_op"):
        both = [found.take(f"{prefix}bytes{way}_{one}.sum.per_second", "byte/s") for one in ("read", "write")]
        if total is None and both[0] is not None and both[1] is not None:
            total = both[0] + both[1]
    return total
