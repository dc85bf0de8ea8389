"""Pooled numbers of several ranks: sums, means, rates, what a counter did per window.

Rates of ranks add up over the time that they have in common: each counts for the share of it in which it was
in steps. So they match examples/s, which are over the same time; for ranks that all worked at once this is
the plain sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from roofline.answers.values import Provenance

from ...records import Ints
from ...sentences.origins import APART
from ..evidence import NS, CounterEvidence, KernelEvidence, RankEvidence
from ..times import union_seconds

Counter = Callable[[RankEvidence], CounterEvidence | None]

MOST = 0.9  # of the common time: who was in steps for less of it was not there all along


def pool(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def median(numbers: Ints) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def mean(numbers: Ints, unit: float) -> float | None:
    return float(numbers.mean()) / unit if len(numbers) else None


def ratio(above: float, below: float) -> float | None:
    return float(above) / float(below) if below else None


def presence(ranks: Sequence[RankEvidence]) -> list[float]:
    """Of the time in which any of these was in steps, the share in which each was. 1 where a rank has no
    steps: only its whole run is known."""
    if len(ranks) < 2:
        return [1.0] * len(ranks)
    stretches = [r.steps.runs for r in ranks]
    every = union_seconds(stretches)
    return [union_seconds([mine]) / every if len(mine) and every else 1.0 for mine in stretches]


def apart(ranks: Sequence[RankEvidence]) -> str:
    """What holds for a rate of ranks that worked at different times; "": they did not."""
    return APART if min(presence(ranks), default=1.0) < MOST else ""


def rate(ranks: Sequence[RankEvidence], field: str) -> float | None:
    """Sum over ranks, by `presence`, of what was done in completely watched steps over their time."""
    rates: list[float | None] = []
    for rank in ranks:
        k = rank.kernels
        if k is None:
            rates.append(None)
            continue
        rates.append(ratio(k.total(field), k.total("duration_ns") / NS))
    return _together(ranks, rates)


def _together(ranks: Sequence[RankEvidence], rates: Sequence[float | None]) -> float | None:
    known = [(rank, rate) for rank, rate in zip(ranks, rates, strict=True) if rate is not None]
    shares = presence([rank for rank, _ in known])
    added = sum(share * rate for share, (_, rate) in zip(shares, known, strict=True))
    return added if known else None


def over_counted(known: Iterable[KernelEvidence]) -> Provenance:
    """What FLOPs over counted bytes are: an estimate where the FLOPs are those of shapes."""
    return Provenance.MEASURED if all(k.counted for k in known) else Provenance.ESTIMATED


def counter_rate(ranks: Sequence[RankEvidence], counter: Counter, scale: float) -> float | None:
    """Sum over ranks of total / time, by `presence`."""
    rates: list[float | None] = []
    for rank in ranks:
        counted = counter(rank)
        rates.append(counted.total / scale / counted.seconds if counted and counted.seconds else None)
    return _together(ranks, rates)


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
    """Of steps, times the share of their time that the least covered counter counted; None: not known."""
    shares = [c.coverage for c in counters if c.coverage is not None]
    if not shares:
        return None
    seen = coverage_of(counters, ranks)
    return min(shares) if seen is None else seen * min(shares)


def coverage_of(counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence]) -> float | None:
    steps = sum(len(r.steps.step) for r in ranks)
    return min(1.0, sum(c.windows for c in counters) / steps) if steps else None
