"""Kernel calls summed per step window, and whether the sum is complete."""

from __future__ import annotations

import numpy as np

from ..records import ABSENT, PRECISIONS, Bools, Ints, Table, concatenate, rows, take
from .in_a_row import InARow, in_rows

HOLE_NS = 1_000_000  # holes in what is covered that are no longer come from reading the clock twice
LEVELS = ("l1", "l2")
ALWAYS = ("f32", "f64")  # precisions whose FLOPs have a column in every row


def merge(begin: Ints, end: Ints, slack_ns: int = 0) -> tuple[Ints, Ints]:
    """Union of intervals: sorted, disjoint (begin, end); holes up to slack_ns are closed."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    new = np.append(True, begin[1:] > reach[:-1] + slack_ns)
    last = np.append(np.flatnonzero(new)[1:] - 1, len(begin) - 1)
    return begin[new], reach[last]


def covered(begin: Ints, end: Ints, cover_begin: Ints, cover_end: Ints) -> Bools:
    """Which windows [begin, end] lie within one of the sorted, disjoint covered intervals."""
    if not len(cover_begin):
        return np.zeros(len(begin), np.bool_)
    at = np.searchsorted(cover_begin, begin, side="right") - 1
    return (at >= 0) & (end <= cover_end[np.maximum(at, 0)])


def total(windows: Table, calls: Table, coverage: Table) -> Table:
    """One row per window of a rank that has coverage or calls.

    windows: rank, window, step, begin_ns, end_ns. calls: rank, time_ns (start), duration_ns, flops, bytes,
    precision (code); dram, l1, l2 (bytes) where a profiler counted them, on_gpu (1 or 0), and counted
    (1 or 0), whether a call's FLOPs were counted, where it is not as on_gpu.
    coverage: rank, begin_ns, end_ns. A call belongs to the window that holds its middle. Sums are exact
    int64; calls whose FLOPs or bytes are not known are counted in `unmodelled`, not as zero. A sum
    of FLOPs or bytes is over the `flop_calls`, `byte_calls`, `dram_calls`, `l1_calls`, ... that have them.
    l1, l2, and FLOPs of a precision (`flops_bf16`) are absent where no call of the rank has any.
    `counted_calls` are those with counted FLOPs, absent where they are the `gpu_calls`.
    `unsized_flops` are those of calls without bytes, `idle_bytes` those of calls without FLOPs: absent alike.
    `first_ns` is when the first of a window's calls began, `last_ns` when the last had ended; ABSENT if none.
    """
    ranks = np.concatenate([coverage["rank"], calls["rank"]]).astype(np.int64)
    if not len(ranks) or not rows(windows):
        return {}
    ends = calls["time_ns"] + calls["duration_ns"]
    of_windows = (windows["begin_ns"], windows["end_ns"])
    times = (*of_windows, calls["time_ns"], ends, coverage["begin_ns"], coverage["end_ns"])
    parts = []
    for together in in_rows(ranks, *times, gap_ns=HOLE_NS):
        mine = together.taken(windows)
        if rows(mine):
            parts.append(_total_of(mine, together.taken(calls), together.taken(coverage), together))
    return concatenate(parts)


def _total_of(windows: Table, calls: Table, coverage: Table, together: InARow) -> Table:
    own = windows["rank"]
    shift = together.shift(own)
    begin, end = (windows[name].astype(np.int64) + shift for name in ("begin_ns", "end_ns"))
    middle = calls["time_ns"] + calls["duration_ns"] // 2 + together.shift(calls["rank"])
    order = np.argsort(middle, kind="stable")
    calls, middle = take(calls, order), middle[order]
    first, behind = np.searchsorted(middle, begin), np.searchsorted(middle, end)
    known, rare = _numbers(calls)
    result: Table = dict(windows)
    for name, column in known.items():
        running = np.concatenate(([0], np.cumsum(column, dtype=np.int64)))
        result[name] = running[behind] - running[first]
        if name in rare:
            there = together.having(calls["rank"][rare[name]], own)
            result[name] = np.where(there, result[name], ABSENT)
    result["calls"] = (behind - first).astype(np.int64)
    ends = calls["time_ns"] + calls["duration_ns"]
    result["first_ns"] = _extreme(np.minimum, calls["time_ns"], first, behind)
    result["last_ns"] = _extreme(np.maximum, ends, first, behind)
    later = together.shift(coverage["rank"])
    since, until = (coverage[name].astype(np.int64) + later for name in ("begin_ns", "end_ns"))
    complete = covered(begin, end, *merge(since, until, HOLE_NS))
    result["complete"] = (complete & ~_in_hole(begin, end, *merge(since, until))).astype(np.int64)
    return result


def counted_calls(sums: Table) -> Ints:
    """Of each window how many calls have counted FLOPs: those of a GPU where the sums say nothing else."""
    on_gpu = sums.get("gpu_calls", np.zeros(rows(sums), np.int64))
    counted = sums.get("counted_calls", on_gpu)
    return np.where(counted == ABSENT, on_gpu, counted)


def _numbers(calls: Table) -> tuple[dict[str, Ints], dict[str, Bools]]:
    """What is summed, a number a call; and of what is absent where a rank has none of it, which calls are."""
    no_flops, no_bytes = calls["flops"] == ABSENT, calls["bytes"] == ABSENT
    dram = calls.get("dram", np.full(len(no_flops), ABSENT, np.int64))
    on_gpu = calls.get("on_gpu", np.zeros(len(no_flops), np.int64))
    known = {
        "flops": np.where(no_flops, 0, calls["flops"]),
        "bytes": np.where(no_bytes, 0, calls["bytes"]),
        "dram": np.where(dram == ABSENT, 0, dram),
        "flop_calls": (~no_flops).astype(np.int64),
        "byte_calls": (~no_bytes).astype(np.int64),
        "dram_calls": (dram != ABSENT).astype(np.int64),
        "gpu_calls": np.where(on_gpu == ABSENT, 0, on_gpu),
        "kernel_ns": calls["duration_ns"],
        "unmodelled": (no_flops | (no_bytes & (dram == ABSENT))).astype(np.int64),
    }
    rare: dict[str, Bools] = {}
    unsized, idle = no_bytes & ~no_flops, (no_flops | (calls["flops"] == 0)) & ~no_bytes
    if unsized.any():
        known["unsized_flops"], rare["unsized_flops"] = np.where(unsized, calls["flops"], 0), unsized
    if idle.any():
        known["idle_bytes"], rare["idle_bytes"] = np.where(idle, calls["bytes"], 0), idle
    if "counted" in calls:
        on_gpu = known["gpu_calls"] > 0
        counted = ~no_flops & np.where(calls["counted"] == ABSENT, on_gpu, calls["counted"] > 0)
        known["counted_calls"], rare["counted_calls"] = counted.astype(np.int64), counted != on_gpu
    for name in LEVELS:
        if name in calls:
            counted = calls[name] != ABSENT
            known[name] = np.where(counted, calls[name], 0)
            known[f"{name}_calls"] = counted.astype(np.int64)
    for code in np.unique(calls["precision"]).tolist():
        name, mine = f"flops_{PRECISIONS[code]}", calls["precision"] == code
        known[name] = np.where(mine & ~no_flops, calls["flops"], 0)
        if PRECISIONS[code] not in ALWAYS:
            rare[name] = mine
    for name in ALWAYS:
        known.setdefault(f"flops_{name}", np.zeros(len(no_flops), np.int64))
    known.pop("flops_", None)
    return known, rare


def _in_hole(begin: Ints, end: Ints, cover_begin: Ints, cover_end: Ints) -> Bools:
    """Which windows have their middle between two of the sorted, disjoint covered intervals: where steps are
    shorter than HOLE_NS, a step that was left out is no more than a small hole."""
    if not len(cover_begin):
        return np.zeros(len(begin), np.bool_)
    middle = begin + (end - begin) // 2
    at = np.searchsorted(cover_begin, middle, side="right") - 1
    return (at >= 0) & (middle > cover_end[np.maximum(at, 0)]) & (end > begin)


def _extreme(of: np.ufunc, values: Ints, first: Ints, behind: Ints) -> Ints:
    """Smallest or largest of values[first:behind], for each pair; ABSENT where there are none."""
    padded = np.append(values, 0).astype(np.int64)
    found = of.reduceat(padded, np.column_stack((first, behind)).ravel())[::2]
    return np.where(behind > first, found, ABSENT)
