"""Working sets that lie well inside each level of memory, and those of a sweep over all of them.

Pure. A level is as large as its caches' share of the CPUs in use: a cache that four of them share counts a
quarter for each. Sizes are of one CPU's part, bytes; all arrays of a kernel together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline_agent.calibrate.calibration import SweepPoint
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Cache, Hardware
from roofline_agent.calibrate.runs import RunPlan

MIB = 1 << 20
_UNKNOWN_CACHE_WORKING_SET = 2048 * MIB
_LEAST_WORKING_SET = 128 * MIB
_TOO_SMALL = MIB  # of each CPU
_SMALLEST = 8 << 10
# A cyclic pass through several times the level within leaves nothing of it there; half of a level leaves room
# for what else it holds.
_WITHIN = 6.0
_LEAST_WITHIN = 2.0
_DIP = 0.6  # of both neighbours: no cache makes a curve fall and rise again


class CacheLevel(NamedTuple):
    """A cache level as the CPUs in use see it."""

    name: str  # "l1", "l2", "l3"
    share_bytes: int  # of each CPU, at least
    working_set: int  # bytes a CPU that lie well inside; 0: there is no such size
    reason: str = ""  # why not


class WorkingSet(NamedTuple):
    size: int  # bytes, over all threads
    description: str  # with a warning where caches may have helped
    reason: str = ""  # why it does not measure DRAM; "": it does


def cache_levels(caches: Sequence[Cache], cpus: Sequence[int]) -> tuple[CacheLevel, ...]:
    """The levels of these caches when these CPUs work at once, inner ones first."""
    levels: list[CacheLevel] = []
    used = frozenset(cpus)
    for number in sorted({cache.level for cache in caches}):
        of_level = [cache for cache in caches if cache.level == number and cache.cpus & used]
        share = min((cache.size // len(cache.cpus & used) for cache in of_level), default=0)
        if not share:
            continue
        name, inner = f"l{number}", levels[-1].share_bytes if levels else 0
        most = share // 2
        if most < _LEAST_WITHIN * inner:
            reason = f"its {size_text(share)} a CPU hardly exceed the {size_text(inner)} within"
            levels.append(CacheLevel(name, share, 0, reason))
        else:
            levels.append(CacheLevel(name, share, min(most, int(_WITHIN * inner)) if inner else most))
    return tuple(levels)


def beyond_caches(hardware: Hardware, plan: RunPlan, cpus: Sequence[int]) -> WorkingSet:
    """The plan's multiple of these CPUs' last caches, but never more than a quarter of the free memory.

    Raises CalibrationError where that is too little to measure anything.
    """
    used = tuple(cache for cache in hardware.caches if cache.cpus & frozenset(cpus))
    cache = hardware._replace(caches=used).last_level_cache_bytes
    wanted = _UNKNOWN_CACHE_WORKING_SET if cache is None else int(plan.caches * cache)
    limits = [hardware.available_bytes // 4] + ([plan.most_bytes] if plan.most_bytes else [])
    size = min(max(wanted, _LEAST_WORKING_SET), *limits)
    if size < _TOO_SMALL * len(cpus):
        raise CalibrationError(
            f"no bandwidth was measured: only {size_text(hardware.available_bytes)} of memory are free, by "
            "MemAvailable and the limits of this process's cgroups; calibrate with more"
        )
    text = f"working set {size_text(size)}"
    if cache is None:
        return WorkingSet(size, f"{text}, the system does not tell its caches, may contain cache hits")
    text += f", {size / cache:.1f} x the last-level caches of {size_text(cache)}"
    reason = ""
    if size <= cache and size == hardware.available_bytes // 4:
        reason = (
            f"the {size_text(size)} that may be used, a quarter of the free memory by MemAvailable and the "
            f"limits of this process's cgroups, fit into the last-level caches of {size_text(cache)}; "
            f"calibrate with over {size_text(4 * cache)}"
        )
    return WorkingSet(size, text if size >= wanted else f"{text}, may contain cache hits", reason)


def sweep_sizes(largest: int, per_octave: int) -> list[int]:
    """Bytes a CPU from 8 KiB to the largest, so many in each doubling."""
    sizes: list[int] = []
    step = 0
    while (size := int(_SMALLEST * 2 ** (step / per_octave))) < largest:
        sizes.append(size // 4096 * 4096)
        step += 1
    return [*dict.fromkeys(sizes), largest]


def dips(curve: Sequence[SweepPoint]) -> list[int]:
    """Places of points of one curve, from small to large, that both neighbours show to be disturbed."""
    triples = zip(curve, curve[1:], curve[2:], strict=False)
    return [
        place
        for place, (before, at, after) in enumerate(triples, start=1)
        if at.value < _DIP * min(before.value, after.value)
    ]


def of_dram(
    points: Sequence[SweepPoint], operation: str, level: CacheLevel, all_levels: Sequence[CacheLevel]
) -> float | None:
    """The rate at the end of the sweep, which the last level of cache must differ from; None for the others.

    None too where the sweep ends within the caches.
    """
    curve = [p for p in points if p.operation == operation and not p.streaming]
    if level != all_levels[-1] or not curve:
        return None
    return curve[-1].value if curve[-1].bytes >= 2 * level.share_bytes * curve[-1].threads else None


def seen_end(points: Sequence[SweepPoint], level: CacheLevel) -> int | None:
    """Bytes of the last cache that reading really finds there, all threads together, where that is under half
    of what the system states: as when a virtual machine shares it with others. None: as stated, or unclear.

    The end is the last size read faster than the geometric mean of that cache's and DRAM's rates.
    """
    # None wherever the sweep does not show both sides of the border: inside the cache and in DRAM.
    curve = [p for p in points if p.operation == "read"]
    if not curve or not level.working_set:
        return None
    stated, threads = level.share_bytes * curve[-1].threads, curve[-1].threads
    inside = [p.value for p in curve if p.bytes >= level.working_set * threads][:1]
    if not inside or curve[-1].bytes < 2 * stated or inside[0] < 1.5 * curve[-1].value:
        return None
    between = (inside[0] * curve[-1].value) ** 0.5
    end = max(p.bytes for p in curve if p.value > between)
    return end if end < stated / 2 else None


def size_text(count: int) -> str:
    return f"{count / MIB:.0f} MiB" if count >= 4 * MIB else f"{count / 1024:.0f} KiB"
