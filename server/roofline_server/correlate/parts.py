"""What nodes and the parts of nodes and ranks (sockets, GPUs, interfaces, peers) counted over the job.

A row sums up the samples of one stretch of time; rows of later stretches add up with it. So a report reads a
row per part and sealing, not the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..records import NODE_RANK, Floats, Metric, MetricKind, Table, rows, take
from .counters import as_float, groups

KEYS = ("rank", "node", "start_ns", "instance")


class PartTotal(NamedTuple):
    """One metric of one part over the job. rank NODE_RANK: a part of the node; instance "": all of it."""

    rank: int
    node: int
    instance: str
    metric: Metric
    seconds: float  # from the first to the last sample
    grown: float | None = None  # of a cumulative metric: by how much, None: fewer than two readings
    mean: float | None = None  # of a gauge, over its samples
    largest: float | None = None
    above: float | None = None  # of a gauge, the share of its samples that are above zero
    samples: int = 0  # of a gauge


def of_parts(samples: Table, whole_ranks: bool = False) -> Table:
    """The rows that speak for nodes or for parts, with `instance` in all of them.

    whole_ranks: those of ranks as a whole too, for what is reported nowhere else.
    """
    if not rows(samples):
        return {}
    some = (samples["rank"] == NODE_RANK) | whole_ranks
    if "instance" in samples:
        some = some | (samples["instance"] != "")
    found = take(samples, some)
    if rows(found) and "instance" not in found:
        found["instance"] = np.full(rows(found), "", object)
    return found


def summarise(samples: Table, metrics: Sequence[Metric]) -> Table:
    """One row per part: KEYS, begin_ns, end_ns, samples; per cumulative metric NAME.first, NAME.last and
    NAME.grown (the sum of its increases); per gauge NAME.sum, NAME.count, NAME.max and NAME.above.

    samples: as `of_parts` gives them, any order. NaN: no reading.
    """
    if not rows(samples):
        return {}
    samples = _sorted(samples, "time_ns")
    slices = groups(*(samples[key] for key in KEYS))
    first = np.array([s.start for s in slices])
    last = np.array([s.stop - 1 for s in slices])
    table: Table = {key: samples[key][first] for key in KEYS}
    table["begin_ns"], table["end_ns"] = samples["time_ns"][first], samples["time_ns"][last]
    table["samples"] = last - first + 1
    for metric in metrics:
        if metric.name in samples:
            values = as_float(samples[metric.name])
            parts = [_summary(metric, values[s][~np.isnan(values[s])]) for s in slices]
            for name in parts[0]:
                table[f"{metric.name}.{name}"] = np.array([part[name] for part in parts], np.float64)
    return table


def _summary(metric: Metric, values: Floats) -> dict[str, float]:
    some = len(values) > 0
    if metric.kind == MetricKind.CUMULATIVE:
        # A counter that fell started again with its agent; what it had counted by then stands.
        return {
            "first": float(values[0]) if some else np.nan,
            "last": float(values[-1]) if some else np.nan,
            "grown": float(np.maximum(np.diff(values), 0).sum()) if some else np.nan,
        }
    return {
        "sum": float(values.sum()),
        "count": float(len(values)),
        "max": float(values.max()) if some else np.nan,
        "above": float((values > 0).sum()),
    }


def totals(table: Table, metrics: Sequence[Metric]) -> list[PartTotal]:
    """What each part counted in all stretches together. table: rows of `summarise`, any order."""
    if not rows(table):
        return []
    table = _sorted(table, "begin_ns")
    found = []
    for group in groups(table["rank"], table["node"], table["instance"]):
        part = {name: column[group] for name, column in table.items()}
        for metric in metrics:
            total = _total(part, metric)
            if total is not None:
                found.append(total)
    return found


def _total(part: Table, metric: Metric) -> PartTotal | None:
    """One metric over the stretches of one part, in order; None when it was never read."""
    base = PartTotal(
        int(part["rank"][0]),
        int(part["node"][0]),
        str(part["instance"][0]),
        metric,
        float(part["end_ns"].max() - part["begin_ns"].min()) / 1e9,
    )
    if f"{metric.name}.grown" in part:
        read = ~np.isnan(part[f"{metric.name}.first"])
        if not read.any():
            return None
        first, last = part[f"{metric.name}.first"][read], part[f"{metric.name}.last"][read]
        between = np.maximum(first[1:] - last[:-1], 0).sum()
        enough = part["samples"][read].sum() > 1
        return (
            base._replace(grown=float(part[f"{metric.name}.grown"][read].sum() + between)) if enough else base
        )
    if f"{metric.name}.count" in part:
        count = np.nansum(part[f"{metric.name}.count"])
        if not count:
            return None
        mean = float(np.nansum(part[f"{metric.name}.sum"]) / count)
        # Rows of an older server lack it.
        above = float(np.sum(part.get(f"{metric.name}.above", np.nan)) / count)
        largest = float(np.nanmax(part[f"{metric.name}.max"]))
        return base._replace(
            mean=mean, largest=largest, above=None if np.isnan(above) else above, samples=int(count)
        )
    return None


def _sorted(table: Table, time: str) -> Table:
    keys = (table[time], table["start_ns"], table["instance"].astype(str), table["node"], table["rank"])
    return take(table, np.lexsort(keys))
