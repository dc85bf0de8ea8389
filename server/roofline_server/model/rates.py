"""Pooled numbers of several ranks: sums, means, rates, what a counter did per window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..records import Ints
from .evidence import NS, CounterEvidence, KernelEvidence, RankEvidence
from .values import Provenance


def pool(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def total_of(numbers: Ints) -> float:
    # The sum of a long job's FLOPs leaves int64; of single steps nothing is rounded.
    return float(numbers.sum(dtype=np.float64))


def median(numbers: Ints) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def mean(numbers: Ints, unit: float) -> float | None:
    return float(numbers.mean()) / unit if len(numbers) else None


def ratio(above: float, below: float) -> float | None:
    return float(above) / float(below) if below else None


def rate(counted: Sequence[KernelEvidence], field: str) -> float | None:
    """Sum over ranks of FLOPs in completely watched steps over the time of those steps."""
    rates = [
        ratio(total_of(getattr(k, field)[k.complete]), total_of(k.duration_ns[k.complete]) / NS)
        for k in counted
    ]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def over_counted(known: Iterable[KernelEvidence]) -> Provenance:
    """What FLOPs over counted bytes are: an estimate where the FLOPs are those of shapes."""
    return Provenance.MEASURED if all(k.on_gpu for k in known) else Provenance.ESTIMATED


def counter_rate(counters: Sequence[CounterEvidence], scale: float) -> float | None:
    """Sum over ranks of total / time."""
    rates = [c.total / scale / c.seconds for c in counters if c.seconds]
    return sum(rates) if rates else None


def per_window(
    counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence], scale: float
) -> float | None:
    windows = sum(c.windows for c in counters)
    if not windows:
        return None
    if any(r.serving for r in ranks):
        # The workers' windows overlap: what a server did in all of them is its total, shared out evenly.
        return sum(c.total / c.windows for c in counters if c.windows) / len(counters) / scale
    return sum(c.per_window * c.windows for c in counters if c.windows) / windows / scale


def counted_of(counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence]) -> float | None:
    """Of steps, times the share of their time that the least covered counter counted; None: nobody said."""
    shares = [c.coverage for c in counters if c.coverage is not None]
    seen = coverage_of(counters, ranks)
    return None if not shares else (1.0 if seen is None else seen) * min(shares)


def coverage_of(counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence]) -> float | None:
    steps = sum(len(r.steps.step) for r in ranks)
    return min(1.0, sum(c.windows for c in counters) / steps) if steps else None
