"""Counters cut at window borders.

A cumulative counter is read at a border by linear interpolation between the samples around it; a border that
lies outside the samples has no value (NaN). A gauge is the largest value seen during the window.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..records import ABSENT, Floats, Ints, Metric, MetricKind, Table, rows, take


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


def largest(times: Ints, values: Floats, begin: Ints, end: Ints) -> Floats:
    """Largest value in each window [begin, end], the last sample before it included; NaN without any."""
    first = np.maximum(np.searchsorted(times, begin, side="right") - 1, 0)
    behind = np.searchsorted(times, end, side="right")
    padded = np.append(np.where(np.isnan(values), -np.inf, values), -np.inf)
    pairs = np.column_stack((first, np.maximum(behind, first + 1))).ravel()
    found: Floats = np.maximum.reduceat(padded, np.minimum(pairs, len(values)))[::2]
    return np.where(np.isneginf(found) | (behind == 0), np.nan, found)


def cut(windows: Table, samples: Table, metrics: list[Metric]) -> Table:
    """Counters of one counter set at the borders of windows; one row per window that any sample touches.

    windows: rank, window, step, begin_ns, end_ns. samples: rank, start_ns, time_ns, a column per metric.
    The result repeats the windows' columns and adds start_ns (which incarnation), samples (how many lie
    inside), and per cumulative metric `NAME.begin` and `NAME.end`, per gauge `NAME`.
    """
    parts: list[Table] = []
    order = np.lexsort((samples["time_ns"], samples["start_ns"], samples["rank"]))
    samples = take(samples, order)
    for group in _groups(samples["rank"], samples["start_ns"]):
        one = {name: column[group] for name, column in samples.items()}
        mine = _touched(take(windows, windows["rank"] == one["rank"][0]), one["time_ns"])
        if rows(mine):
            parts.append(_cut_one(mine, one, metrics))
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _groups(*keys: Ints) -> list[slice]:
    """Slices of equal keys in sorted columns."""
    if not len(keys[0]):
        return []
    changes = np.zeros(len(keys[0]) - 1, bool)
    for key in keys:
        changes |= key[1:] != key[:-1]
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(keys[0])]
    return [slice(a, b) for a, b in pairwise(edges)]


def _touched(windows: Table, times: Ints) -> Table:
    # A window belongs to the incarnation whose samples it overlaps.
    return take(windows, (windows["end_ns"] >= times[0]) & (windows["begin_ns"] <= times[-1]))


def _cut_one(windows: Table, samples: Table, metrics: list[Metric]) -> Table:
    times = samples["time_ns"].astype(np.int64)
    begin, end = windows["begin_ns"].astype(np.int64), windows["end_ns"].astype(np.int64)
    inside = np.searchsorted(times, end, side="right") - np.searchsorted(times, begin, side="left")
    result: Table = dict(windows)
    result["start_ns"] = np.full(len(begin), samples["start_ns"][0], np.int64)
    result["samples"] = inside.astype(np.int64)
    for metric in metrics:
        if metric.name not in samples:
            continue
        values = as_float(samples[metric.name])
        if metric.kind == MetricKind.CUMULATIVE:
            result[f"{metric.name}.begin"] = at_borders(times, values, begin)
            result[f"{metric.name}.end"] = at_borders(times, values, end)
        else:
            result[metric.name] = largest(times, values, begin, end)
    return result
