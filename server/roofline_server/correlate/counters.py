"""Counters cut at window borders.

A cumulative counter is read at a border by linear interpolation between the samples around it; a border that
lies outside the samples has no value (NaN), nor has a window in which the counter started again (its agent
was started again), or in some of which nothing counted: a coverage speaks for the time since the sample
before, and 0 is a gap. A gauge is the largest value seen during the window, a coverage the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records import ABSENT, Bools, Floats, Ints, Metric, MetricKind, Table, rows, take


def as_float(column: Ints | Floats) -> Floats:
    """A metric column as float64, absent values as NaN."""
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    return np.where(column == ABSENT, np.nan, column.astype(np.float64))


def at_borders(times: Ints, values: Floats, borders: Ints) -> Floats:
    """values interpolated at borders, shape of borders; NaN outside [times[0], times[-1]].

    times: int64 ns, ascending, at least one; values: same length, NaN where absent (skipped).
    """
    known = ~np.isnan(values)
    times, values = times[known], values[known]
    if not len(times):
        return np.full(len(borders), np.nan)
    # float64 cannot hold UNIX ns exactly; ns since the first sample it can.
    inside = (borders >= times[0]) & (borders <= times[-1])
    read = np.interp((borders - times[0]).astype(np.float64), (times - times[0]).astype(np.float64), values)
    return np.where(inside, read, np.nan)


def restarted(times: Ints, values: Floats, begin: Ints, end: Ints) -> Bools:
    """Whether the counter fell between two samples of which one lies in the window, or the window between
    them: it started again there, and what it counted in between is not known."""
    known = ~np.isnan(values)
    times, values = times[known], values[known]
    falls = np.flatnonzero(np.diff(values) < 0)
    if not len(falls):
        return np.zeros(len(begin), bool)
    # Of the falls that end after a window's begin the first begins first.
    first = np.searchsorted(times[falls + 1], begin, side="right")
    found: Bools = np.append(times[falls], np.iinfo(np.int64).max)[first] < end
    return found


def largest(times: Ints, values: Floats, begin: Ints, end: Ints) -> Floats:
    """Largest value in each window [begin, end], the last sample before it included; NaN without any."""
    first = np.maximum(np.searchsorted(times, begin, side="right") - 1, 0)
    behind = np.searchsorted(times, end, side="right")
    padded = np.append(np.where(np.isnan(values), -np.inf, values), -np.inf)
    pairs = np.column_stack((first, np.maximum(behind, first + 1))).ravel()
    found: Floats = np.maximum.reduceat(padded, np.minimum(pairs, len(values)))[::2]
    return np.where(np.isneginf(found) | (behind == 0), np.nan, found)


def uncounted(shares: Floats, first: Ints, last: Ints) -> Bools:
    """Whether some of a window lies in a gap: between a sample of coverage 0 and the one before it. first,
    last: see `intervals`."""
    if not (shares == 0).any():
        return np.zeros(len(first), bool)
    before = np.concatenate(([0], np.cumsum(shares == 0)))
    found: Bools = before[last + 1] > before[first]
    return found


def least_share(shares: Floats, first: Ints, last: Ints) -> Floats:
    """Smallest coverage of the time of each window; NaN where it is not known."""
    padded = np.append(np.where(np.isnan(shares), np.inf, shares), np.inf)
    found: Floats = np.minimum.reduceat(padded, np.column_stack((first, last + 1)).ravel())[::2]
    return np.where(np.isinf(found), np.nan, found)


def intervals(times: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """First and last sample of those that end an interval which overlaps a window [begin, end]."""
    most = len(times) - 1
    first = np.minimum(np.searchsorted(times, begin, side="right"), most)
    return first, np.maximum(first, np.minimum(np.searchsorted(times, end), most))


def cut(windows: Table, samples: Table, metrics: list[Metric]) -> Table:
    """Counters of one counter set at the borders of windows; one row per window that any sample touches.

    windows: rank, window, step, begin_ns, end_ns. samples: rank, start_ns, time_ns, a column per metric.
    The result repeats the windows' columns and adds start_ns (which incarnation), samples (how many lie
    inside), and per cumulative metric `NAME.begin` and `NAME.end`, per gauge `NAME`.
    """
    parts: list[Table] = []
    order = np.lexsort((samples["time_ns"], samples["start_ns"], samples["rank"]))
    samples = take(samples, order)
    by_rank = np.argsort(windows["rank"], kind="stable")
    ranks = windows["rank"][by_rank]
    for group in groups(samples["rank"], samples["start_ns"]):
        one = {name: column[group] for name, column in samples.items()}
        times = one["time_ns"]
        first, last = np.searchsorted(ranks, one["rank"][0]), np.searchsorted(ranks, one["rank"][0], "right")
        its_own = by_rank[first:last]
        # A window belongs to the incarnation whose samples it overlaps.
        overlaps = (windows["end_ns"][its_own] >= times[0]) & (windows["begin_ns"][its_own] <= times[-1])
        if overlaps.any():
            parts.append(_cut_one(take(windows, its_own[overlaps]), one, metrics))
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut_node(windows: Table, nodes: Ints, samples: Table, metrics: Sequence[Metric]) -> Table:
    """Cumulative counters that speak for nodes at the borders of the windows of the ranks that live there.

    nodes: of each window. samples: node, instance, time_ns, a column per metric; the parts of a node (its
    sockets, its interfaces) are added up, and where one of them has no reading there is no sum. The result is
    like that of `cut`, of gauges with coverages alone: the smallest of all parts.
    """
    counted = [m for m in metrics if m.kind == MetricKind.CUMULATIVE and m.name in samples]
    shares = [m for m in metrics if m.coverage_of and m.name in samples]
    found: list[Table] = []
    for node in np.unique(samples["node"]):
        mine = take(windows, nodes == node)
        if rows(mine) and counted:
            found.append(_cut_parts(mine, take(samples, samples["node"] == node), [*counted, *shares]))
    if not found:
        return {}
    table = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    seen = np.any([~np.isnan(table[f"{m.name}.end"]) for m in counted], axis=0)
    if seen.any():
        # Windows between those with readings have a row too: it shows that nothing is known of them.
        begin, end = table["begin_ns"], table["end_ns"]
        seen |= (begin >= begin[seen].min()) & (end <= end[seen].max())
    return take(table, seen)


def _cut_parts(windows: Table, samples: Table, metrics: list[Metric]) -> Table:
    order = np.lexsort((samples["time_ns"], samples["instance"].astype(str)))
    samples = take(samples, order)
    parts = [
        _cut_one(windows, {name: column[group] for name, column in samples.items()}, metrics)
        for group in groups(samples["instance"])
    ]
    total = dict(parts[0])
    for part in parts[1:]:
        total["samples"] = np.minimum(total["samples"], part["samples"])
        for metric in metrics:
            if metric.coverage_of:
                total[metric.name] = np.fmin(total[metric.name], part[metric.name])
                continue
            for border in (f"{metric.name}.begin", f"{metric.name}.end"):
                total[border] = total[border] + part[border]
    return total


def groups(*keys: NDArray[Any]) -> list[slice]:
    """Slices of equal keys in sorted columns."""
    if not len(keys[0]):
        return []
    changes = np.zeros(len(keys[0]) - 1, bool)
    for key in keys:
        changes |= key[1:] != key[:-1]
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(keys[0])]
    return [slice(a, b) for a, b in pairwise(edges)]


def _cut_one(windows: Table, samples: Table, metrics: list[Metric]) -> Table:
    times = samples["time_ns"].astype(np.int64)
    begin, end = windows["begin_ns"].astype(np.int64), windows["end_ns"].astype(np.int64)
    inside = np.searchsorted(times, end, side="right") - np.searchsorted(times, begin, side="left")
    result: Table = dict(windows)
    result["start_ns"] = np.full(len(begin), samples["start_ns"][0], np.int64)
    result["samples"] = inside.astype(np.int64)
    shares = {
        m.coverage_of: as_float(samples[m.name]) for m in metrics if m.coverage_of and m.name in samples
    }
    first, last = intervals(times, begin, end) if shares else (begin, end)
    gaps = {name: uncounted(share, first, last) for name, share in shares.items()}
    for metric in metrics:
        if metric.name not in samples:
            continue
        if metric.kind == MetricKind.CUMULATIVE:
            values = as_float(samples[metric.name])
            broken = restarted(times, values, begin, end)
            if metric.name in gaps:
                broken |= gaps[metric.name]
            result[f"{metric.name}.begin"] = np.where(broken, np.nan, at_borders(times, values, begin))
            result[f"{metric.name}.end"] = np.where(broken, np.nan, at_borders(times, values, end))
        elif metric.coverage_of:
            share = least_share(shares[metric.coverage_of], first, last)
            result[metric.name] = np.where(gaps[metric.coverage_of], np.nan, share)
        else:
            result[metric.name] = largest(times, as_float(samples[metric.name]), begin, end)
    return result
