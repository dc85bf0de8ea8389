"""Sums up what nvprof prints of each kernel: FLOPs, DRAM and L2 bytes, time; means times the invocations.

flop_count_{sp,dp,hp} are FLOPs (an FMA counts as two); a DRAM or L2 transaction is 32 bytes (nvprof's metrics
reference). Global-memory transactions have no fixed size and stay counters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from ..collector import Collector
from ..ncu.flops import NOT_COUNTED, is_of_tensor_cores
from ..ncu.values import Unit, number, unit
from ..recording import Counter, Launch

TRANSACTION_BYTES = 32.0
MAX_KERNELS = 100_000
MAX_COUNTERS = 20_000

_CELL = re.compile(r"(?P<number>[-+]?[\d.,]+(?:[eE][-+]?\d+)?)\s*(?P<unit>%|[A-Za-z]+(?:/s)?)?")
_PRECISIONS = {"sp": "f32", "dp": "f64", "hp": "f16"}
_KINDS = {"add": 1.0, "mul": 1.0, "fma": 2.0}
_LEVELS = {
    "dram": (
        ("dram_read_bytes", "dram_write_bytes", 1.0),
        ("dram_read_transactions", "dram_write_transactions", 32.0),
    ),
    "l2": (("l2_read_transactions", "l2_write_transactions", TRANSACTION_BYTES),),
}
_USED = frozenset(
    {name for ways in _LEVELS.values() for read, write, _ in ways for name in (read, write)}
    | {f"flop_count_{p}{kind}" for p in _PRECISIONS for kind in ("", "_add", "_mul", "_fma")}
)


class MeanMetric(NamedTuple):
    """A metric as a table prints it: its mean over the invocations."""

    metric: str
    cell: str
    printed_unit: str = ""  # of the column, where the table has a row of units


class _Means:
    """Of one kernel on one GPU."""

    def __init__(self) -> None:
        self.count = 0
        self.values: dict[str, float] = {}


class _Kernel:
    def __init__(self) -> None:
        self.calls = 0  # of the tables of times, which may be of several runs
        self.time_s: float | None = None
        self.devices: dict[str, _Means] = {}


class Kernels:
    """All kernels of the file, given to the collector at its end."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._kernels: dict[str, _Kernel] = {}
        self._device = ""

    def mean(self, kernel: str, device: str, invocations: int, mean: MeanMetric) -> None:
        """One row of a table of metrics or events."""
        value, base, shown, printed_unit = convert(mean.cell, mean.printed_unit)
        known = self._kernel(kernel)
        means = None if known is None else known.devices.setdefault(device, _Means())
        if means is not None:
            means.count = max(means.count, invocations)
        if value is None:
            if "OVERFLOW" in mean.cell:
                self._found.warn(f"{mean.metric} overflowed; it is left out")
            return
        if means is not None and mean.metric in _USED:
            means.values.setdefault(mean.metric, value)
        elif len(self._found.counters) < MAX_COUNTERS:
            gpu = re.search(r"\((\d+)\)\s*$", device)
            self._found.counters.append(
                Counter(
                    mean.metric,
                    mean.metric,
                    value,
                    base,
                    f"gpu {gpu[1] if gpu else 0}",
                    kind="gauge",
                    printed=shown,
                    printed_unit=printed_unit,
                )
            )

    def time(self, kernel: str, calls: int, time_s: float) -> None:
        """One row of a table of times: the sum over its calls."""
        known = self._kernel(kernel)
        if known is not None:
            known.time_s = (known.time_s or 0.0) + time_s
            known.calls += calls

    def activity(self, section: str, name: str, calls: int, time_s: float) -> None:
        """One row of a table of times: a kernel, or an API call, a copy, a fill, which are phases."""
        if section.startswith(("API", "OpenACC")) or name.startswith("[CUDA mem"):
            self._found.phase(name, time_s, calls)
        else:
            self.time(name, calls, time_s)

    def unified_memory(self, name: str, count: str, size: str, time: str) -> None:
        """One row of the table of what the driver moved by itself; in CSV its time has no unit."""
        times = number(count)
        moved, base, shown, printed_unit = convert(size)
        time_s, time_base, *_ = convert(time)
        if base != "byte" or "fault" in name:  # the size of faults is their number again
            moved = None
        if not name or times is None or not 0 < times < 1e15:
            return
        if time_s is not None and time_base == "s":
            self._found.phase(f"[Unified Memory] {name}", time_s, int(times), moved)
        elif moved is not None:
            event = f"[Unified Memory] {name}"
            self._found.counters.append(
                Counter(event, event, moved, base, printed=shown, printed_unit=printed_unit)
            )

    def device(self, printed: str) -> None:
        """A GPU's name goes to the facts; of several, all of them."""
        if printed == self._device:
            return
        self._device = printed
        name = re.sub(r"\s{0,9}\(\d+\)\s{0,9}$", "", printed)
        known = str(self._found.facts.get("device", ""))
        if name and name not in known.split(", ") and len(known) < 200:
            self._found.facts["device"] = f"{known}, {name}" if known else name

    def _kernel(self, name: str) -> _Kernel | None:
        if name not in self._kernels and len(self._kernels) >= MAX_KERNELS:
            self._found.warn(f"more than {MAX_KERNELS} different kernels; the rest are left out")
            return None
        return self._kernels.setdefault(name, _Kernel())

    def end(self) -> None:
        for name, kernel in self._kernels.items():
            launch = _all_launches(name, kernel)
            if launch is None:
                continue
            self._found.launch(launch)
            if launch.note:
                self._found.warn(launch.note)


def _all_launches(name: str, kernel: _Kernel) -> Launch | None:
    """The sums over all executions of a kernel; metrics of a run of their own count as means."""
    counted = sum(means.count for means in kernel.devices.values())
    times = kernel.calls or counted
    if not times:
        return None
    share = times / counted if counted else 0.0
    flops: float | None = 0.0 if counted else None
    moved: dict[str, list[float]] = {}
    most = ""
    for means in kernel.devices.values():
        each, precision = flops_of(means.values)
        flops = None if flops is None or each is None else flops + each * means.count * share
        most = most or precision
        for level, value in bytes_of(means.values).items():
            moved.setdefault(level, []).append(value * means.count * share)
    # A level that is not known on every GPU is not known.
    levels = {level: sum(parts) for level, parts in moved.items() if len(parts) == len(kernel.devices)}
    # nvprof has no count of what tensor cores do: flop_count_hp is without it.
    note = NOT_COUNTED if flops is not None and is_of_tensor_cores(name) else ""
    return Launch(name, kernel.time_s, flops, levels, precision=most, library="cuda", note=note, count=times)


def convert(cell: str, column_unit: str = "") -> tuple[float | None, str, float | None, str]:
    """Value in base units, base unit, number as printed and its unit: of "64.607GB/s", "92.62%", "3611"."""
    match = _CELL.fullmatch(cell.strip()[:100])
    shown = number(match["number"]) if match else None
    printed_unit = (match["unit"] if match else "") or column_unit.strip()[:100]
    base = binary_unit(printed_unit)
    return (None if shown is None else shown * base.factor), base.base, shown, printed_unit


@lru_cache(maxsize=1024)
def binary_unit(printed: str) -> Unit:
    """nvprof's KB, MB and GB are powers of 1024: its traces print 1028 bytes as 1.003906 KB."""
    return unit(re.sub(r"^([KMGT])B", r"\1iB", printed.strip()))


def flops_of(means: Mapping[str, float]) -> tuple[float | None, str]:
    """FLOPs of one invocation and the precision of most; None where nobody counted what it does."""
    known: dict[str, float] = {}
    for short, precision in _PRECISIONS.items():
        whole = means.get(f"flop_count_{short}")
        parts = {kind: means[name] for kind in _KINDS if (name := f"flop_count_{short}_{kind}") in means}
        if whole is not None:
            known[precision] = whole
        elif len(parts) == len(_KINDS):
            known[precision] = sum(value * _KINDS[kind] for kind, value in parts.items())
    total = sum(known.values())
    if not known or (total == 0 and "f32" not in known):
        return None, ""
    return total, max(known, key=lambda p: known[p]) if total else ""


def bytes_of(means: Mapping[str, float]) -> dict[str, float]:
    """Bytes of one invocation by memory level; a level of which one direction is unknown is not there."""
    found: dict[str, float] = {}
    for level, ways in _LEVELS.items():
        for read, write, size in ways:
            if level not in found and read in means and write in means:
                found[level] = (means[read] + means[write]) * size
    return found
