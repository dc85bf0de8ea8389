"""What the metrics and events of likwid-perfctr mean: our names, and units from their brackets as base units.

Source: LIKWID's performance groups (groups/ARCH/*.txt): prefixes are powers of ten, volumes too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..numbers import finite
from ..perf.events import flop_bits, flop_meaning

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_BASES = {
    "byte": "byte", "bytes": "byte", "b": "byte", "flop": "FLOP", "flops": "FLOP", "uops": "1", "hz": "Hz",
    "j": "J", "w": "W", "s": "s",
}  # fmt: skip
_UNIT = re.compile(r"([kKMGTmun]?)(Bytes?|B|FLOPS?|Flops?|UOPS|Hz|J|W|s)(/s)?")
_BRACKETS = re.compile(r"(.*\S)\s*\[([^\]]+)\]")
_TRAILING = re.compile(r"(.*\S) ([kMGT](?:FLOPS?|Flops|UOPS|Bytes?)/s)(?: \(.*\))?")
_PRECISIONS = {"dp": "f64", "sp": "f32", "hp": "f16"}
_METRICS = {
    "memory read data volume": "dram_read_bytes", "memory write data volume": "dram_write_bytes",
    "memory data volume": "dram_bytes", "memory read bandwidth": "dram_read_bytes_per_s",
    "memory write bandwidth": "dram_write_bytes_per_s", "memory bandwidth": "dram_bytes_per_s",
    "l2 data volume": "l2_bytes", "l3 data volume": "l3_bytes", "l2 bandwidth": "l2_bytes_per_s",
    "l3 bandwidth": "l3_bytes_per_s", "energy": "energy_package_joules", "energy dram": "energy_dram_joules",
    "memory load data volume": "dram_read_bytes", "memory evict data volume": "dram_write_bytes",
    "memory load bandwidth": "dram_read_bytes_per_s", "memory evict bandwidth": "dram_write_bytes_per_s",
    "memory writeback data volume": "dram_write_bytes",
    "memory writeback bandwidth": "dram_write_bytes_per_s",
    "energy pp0": "energy_cores_joules", "energy core": "energy_cores_joules",
}  # fmt: skip
_UNIT_OF_METRIC = {"_bytes": "byte", "_per_s": "byte/s", "joules": "J"}
CAS = re.compile(r"CAS_COUNT_(RD|WR)|DRAM_CHANNEL_\d+")


# Of one instruction of one thread, as ncu's sm__sass_thread_inst_executed_op_*_pred_on.sum.
_GPU_FLOPS = re.compile(r"SM(?:SP)?_SASS_THREAD_INST_EXECUTED_OP_([DFH])(ADD|MUL|FMA)_PRED_ON_SUM")
_GPU_PRECISIONS = {"D": "f64", "F": "f32", "H": "f16"}
_GPU_KINDS = {"ADD": ("add", 1.0), "MUL": ("multiply", 1.0), "FMA": ("fma", 2.0)}


class LikwidMetric(NamedTuple):
    """value = printed number x factor, in `unit`."""

    metric: str
    factor: float
    unit: str
    printed_unit: str = ""


def metric(name: str) -> LikwidMetric:
    """The metric of a row in a table, or of a column of the timeline: "Clock [MHz]", older "DP MFLOP/s"."""
    match = _BRACKETS.fullmatch(name) or _TRAILING.fullmatch(name)
    bare, printed = (match[1], match[2]) if match else (name, "")
    factor, unit = _base_unit(printed)
    lower = " ".join(bare.lower().split())
    flops = re.fullmatch(r"(?:(avx512|avx|sse|packed|scalar) )?(dp|sp|hp)(?: stat)?", lower)
    if flops and unit == "FLOP/s":
        part = f".{flops[1]}" if flops[1] else ""
        return LikwidMetric(f"flops_per_s.{_PRECISIONS[flops[2]]}{part}", factor, unit, printed)
    ours = _METRICS.get(lower, "")
    for end, base in _UNIT_OF_METRIC.items():
        if ours.endswith(end) and base == unit:
            return LikwidMetric(ours, factor, unit, printed)
    return LikwidMetric(bare, factor, unit, printed)


def _base_unit(printed: str) -> tuple[float, str]:
    """The factor to a base unit, and that unit: "MBytes/s" -> 1e6, "byte/s"."""
    if printed == "%":
        return 0.01, "1"
    match = _UNIT.fullmatch(printed)
    if match is None:
        return 1.0, printed or "1"
    factor, unit = _PREFIX[match[1]], _BASES[match[2].lower()]
    if match[3]:
        unit = "1/s" if unit == "1" else f"{unit}/s"
    return factor, unit


def event(name: str) -> LikwidMetric:
    """The metric of a row in a table of raw counts. Those of energy are in joules, as LIKWID has scaled
    them."""
    found = flop_meaning(flop_bits(name)) if flop_bits(name) else None
    if found is not None:
        return LikwidMetric(found.metric, found.factor, "FLOP")
    gpu = _GPU_FLOPS.fullmatch(name)
    if gpu:
        kind, factor = _GPU_KINDS[gpu[2]]
        return LikwidMetric(f"flops.{_GPU_PRECISIONS[gpu[1]]}.{kind}", factor, "FLOP")
    if re.fullmatch(r"PWR_\w+_ENERGY|RAPL_\w+_ENERGY", name):
        return LikwidMetric(name, 1.0, "J")
    return LikwidMetric(name, 1.0, "1")


def kind(unit: str) -> str:
    """What one reading of a timeline is: an amount of its interval, or a level at its time."""
    return "delta" if unit in ("byte", "J", "s", "FLOP") else "gauge"


def numbers(cells: Sequence[str]) -> Sequence[float | None]:
    """Each as `finite` has it; a row of a timeline has thousands, seldom one that is none."""
    try:
        found = list(map(float, cells))
    except ValueError:
        return [finite(cell) for cell in cells]
    plain = math.isfinite(sum(found)) and not any("_" in cell for cell in cells)
    return found if plain else [finite(cell) for cell in cells]
