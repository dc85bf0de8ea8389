"""What nodes, and parts of nodes and ranks, counted while the job ran."""

from __future__ import annotations

from roofline.answers.report import PartReport
from roofline.answers.values import Value, value

from ...records import NODE_RANK
from ...sentences.reasons import READ_ONCE
from ...store.view import JobView
from ..ranks.members import name_of

# Unit of a cumulative metric -> unit of its rate and its scale: time per time is a share, of CPU time cores.
RATES = {"J": ("W", 1.0), "ns": ("1", 1e-9), "s": ("1", 1.0)}


def part_reports(view: JobView) -> list[PartReport]:
    """One per host, rank, part and source, in this order; a metric nobody read is not in it."""
    found: dict[tuple[str, str, str, str], dict[str, Value]] = {}
    for total in view.parts:
        rank = view.ranks.get(total.rank)
        if rank is None and total.rank != NODE_RANK:
            continue
        name = "" if rank is None else name_of(view, total.rank)
        metric = total.metric
        provenance, scope = metric.provenance, metric.scope
        key = (view.machines[total.node].host, name, total.instance, metric.counter_set)
        values = found.setdefault(key, {})
        if total.shares is not None:
            for bit, share in total.shares.items():
                values[f"{metric.name}.{bit}.mean"] = value(share, "1", provenance, scope)
            continue
        if total.mean is not None:
            values[f"{metric.name}.mean"] = value(total.mean, metric.unit, provenance, scope)
            values[f"{metric.name}.max"] = value(total.largest, metric.unit, provenance, scope)
            continue
        values[metric.name] = value(total.grown, metric.unit, provenance, scope, missing=READ_ONCE)
        unit, scale = RATES.get(metric.unit, (f"{metric.unit}/s", 1.0))
        rate = None
        if total.grown is not None and total.seconds:
            rate = total.grown / total.seconds * scale
        values[f"{metric.name}.per_second"] = value(rate, unit, provenance, scope, missing=READ_ONCE)
    return [PartReport(*key, values) for key, values in sorted(found.items())]
