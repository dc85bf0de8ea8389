"""Durations in bins a 32nd of an octave wide: quantiles are within 1.6 % of the true ones, and exact where
all durations are equal."""

from __future__ import annotations

import numpy as np

from ..records import Floats, Ints, Table, rows

MIDDLE_BITS = 5  # of a duration's mantissa that tell its bin: 32 bins an octave
BINS = 64 << MIDDLE_BITS
NS = 1e9
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def bin_of(duration_ns: Ints) -> Ints:
    """The exponent of a duration and the first bits of its mantissa, as one number."""
    bits = np.maximum(duration_ns, 1).astype(np.float64).view(np.int64) >> (52 - MIDDLE_BITS)
    found: Ints = np.minimum(bits - (1023 << MIDDLE_BITS), BINS - 1)
    return found


def _edge(number: Ints | Floats) -> Floats:
    """Where a bin begins, ns."""
    whole, part = np.divmod(np.asarray(number, np.float64), 1 << MIDDLE_BITS)
    edge: Floats = np.exp2(whole) * (1 + part / (1 << MIDDLE_BITS))
    return edge


def quantiles(bins: Table, sums: Table) -> list[list[float]]:
    """QUANTILES of each group, s: straight lines within a bin. bins: calls by key, group x BINS + bin; sums:
    of each group (key) its calls, and the shortest and longest, ns."""
    first = np.searchsorted(bins["key"], sums["key"] * BINS)
    last = np.append(first[1:], rows(bins)) - 1
    behind = np.cumsum(bins["calls"])
    before = behind[first] - bins["calls"][first]
    wanted = before[:, None] + np.outer(sums["calls"], QUANTILES)
    at = np.clip(np.searchsorted(behind, wanted), first[:, None], last[:, None])
    part = (wanted - (behind - bins["calls"])[at]) / bins["calls"][at]
    number = bins["key"][at] % BINS
    low, high = _edge(number), _edge(number + 1)
    found = np.clip(low + part * (high - low), sums["shortest"][:, None], sums["longest"][:, None]) / NS
    plain: list[list[float]] = found.tolist()
    return plain
