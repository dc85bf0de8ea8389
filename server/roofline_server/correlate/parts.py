"""What nodes and the parts of nodes and ranks (sockets, GPUs, interfaces, peers) counted over the job.

A row sums up the samples of one stretch of time; rows of later stretches add up with it. So a report reads a
row per part and sealing, not the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..records import NODE_RANK, Bools, Floats, Ints, Metric, MetricKind, Table, rows, take
from .counters import as_float, groups

KEYS = ("rank", "node", "start_ns", "instance")
# Gauges that are masks of bits, whose mean says nothing: metric -> name of a bit -> the bit. Those of NVML
# are its nvmlClocksEventReason... (nvml.h); hw_slowdown is set with hw_thermal and power_brake, too.
MASKS: Mapping[str, Mapping[str, int]] = {
    "throttle_reasons": {
        "application_clocks": 0x02,
        "power_cap": 0x04,
        "hw_slowdown": 0x08,
        "sw_thermal": 0x20,
        "hw_thermal": 0x40,
        "power_brake": 0x80,
    }
}


class PartTotal(NamedTuple):
    """One metric of one part over the job. rank NODE_RANK: a part of the node; instance "": all of it."""

    rank: int
    node: int
    instance: str
    metric: Metric
    seconds: float  # from the first to the last sample, without those in which it was not counted
    grown: float | None = None  # of a cumulative metric: by how much, None: fewer than two readings
    mean: float | None = None  # of a gauge, over its samples
    largest: float | None = None
    above: float | None = None  # of a gauge, the share of its samples that are above zero
    samples: int = 0  # of a gauge
    shares: Mapping[str, float] | None = None  # of a mask, by name of a bit: of its samples those that had it


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
    NAME.grown (the sum of its increases), and where it has gaps NAME.uncounted_ns and NAME.begins_uncounted;
    per gauge NAME.sum, NAME.count, NAME.max and NAME.above, and of a mask NAME.has.BIT.

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
    shares = {
        m.coverage_of: as_float(samples[m.name]) for m in metrics if m.coverage_of and m.name in samples
    }
    for metric in metrics:
        if metric.name in samples:
            values = as_float(samples[metric.name])
            if metric.kind == MetricKind.CUMULATIVE:
                gone = _uncounted(values, shares.get(metric.name), first)
                lasted = np.where(gone, np.diff(samples["time_ns"], prepend=samples["time_ns"][:1]), 0)
                uncounted = np.array([lasted[s.start + 1 : s.stop].sum() for s in slices], np.float64)
                if gone[first].any() or uncounted.any():
                    table[f"{metric.name}.uncounted_ns"] = uncounted
                    table[f"{metric.name}.begins_uncounted"] = gone[first].astype(np.float64)
            parts = [_summary(metric, values[s][~np.isnan(values[s])]) for s in slices]
            for name in parts[0]:
                table[f"{metric.name}.{name}"] = np.array([part[name] for part in parts], np.float64)
    return table


def _uncounted(values: Floats, shares: Floats | None, first: Ints) -> Bools:
    """Whether a counter was not counted since the sample before: its coverage is 0, or it fell. first: places
    of the first samples of parts, which fell from nothing."""
    gone = np.append(False, values[1:] < values[:-1])
    gone[first] = False
    return gone if shares is None else gone | (shares == 0)


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
        **(_of_mask(metric.name, values) if metric.name in MASKS else {}),
    }


def _of_mask(name: str, values: Floats) -> dict[str, float]:
    masks = values.astype(np.int64)
    return {f"has.{bit}": float(np.count_nonzero(masks & mask)) for bit, mask in MASKS[name].items()}


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
        base = base._replace(seconds=base.seconds - _uncounted_s(part, metric.name))
        return (
            base._replace(grown=float(part[f"{metric.name}.grown"][read].sum() + between)) if enough else base
        )
    if f"{metric.name}.count" in part:
        count = np.nansum(part[f"{metric.name}.count"])
        if not count:
            return None
        if metric.name in MASKS:
            return base._replace(samples=int(count), shares=_shares(part, metric.name))
        mean = float(np.nansum(part[f"{metric.name}.sum"]) / count)
        # Rows of an older server lack it.
        above = float(np.sum(part.get(f"{metric.name}.above", np.nan)) / count)
        largest = float(np.nanmax(part[f"{metric.name}.max"]))
        return base._replace(
            mean=mean, largest=largest, above=None if np.isnan(above) else above, samples=int(count)
        )
    return None


def _shares(part: Table, name: str) -> dict[str, float]:
    """Of a mask; nothing of rows of an older server."""
    found = {}
    for bit in MASKS[name]:
        had = part.get(f"{name}.has.{bit}", np.full(rows(part), np.nan))
        count = part[f"{name}.count"][~np.isnan(had)].sum()
        if count:
            found[bit] = float(np.nansum(had) / count)
    return found


def _uncounted_s(part: Table, name: str) -> float:
    """Within the stretches, and between them."""
    within = float(np.nansum(part.get(f"{name}.uncounted_ns", 0.0)))
    first, last = part[f"{name}.first"], part[f"{name}.last"]
    begins = part.get(f"{name}.begins_uncounted", np.zeros(len(first)))
    gone = (begins[1:] == 1) | (first[1:] < last[:-1])
    return (within + float((part["begin_ns"][1:] - part["end_ns"][:-1])[gone].sum())) / 1e9


def _sorted(table: Table, time: str) -> Table:
    keys = (table[time], table["start_ns"], table["instance"].astype(str), table["node"], table["rank"])
    return take(table, np.lexsort(keys))
