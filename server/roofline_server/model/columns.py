"""Arithmetic on columns of a rank, a number a step, where some numbers may not be known (NaN).

Where it says so, a column may also be that of several ranks, (ranks, steps). They are computed together as
long as they are alike in what decides how; if not, `same` and `alone` raise `Differ`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..records import Bools, Floats

SMOOTH_S = 1.0  # over which signals that are sampled a few times a second are compared with exact ones


class Differ(Exception):
    """Ranks that were looked at together have to be looked at one by one."""


def same(flags: Bools | np.bool_) -> bool:
    """Whether it is so, of a rank or of all of some ranks. Raises Differ."""
    of_each = np.atleast_1d(flags)
    true = np.count_nonzero(of_each)
    if true not in (0, len(of_each)):
        raise Differ
    return bool(true)


def alone(column: Floats) -> None:
    """What follows is for the column of one rank. Raises Differ where it is that of several."""
    if column.ndim > 1:
        raise Differ


def or_zero(values: Floats) -> Floats:
    """0 where it is not known (several times as fast as nan_to_num); not to be written to."""
    absent = np.isnan(values)
    return np.where(absent, 0.0, values) if np.count_nonzero(absent) else values


def mean_of(values: Floats | None) -> float:
    """Mean of the values that are known; 0 where none is."""
    return known_mean(values) or 0.0


def known_mean(values: Floats | None) -> float | None:
    """Mean of the values that are known; None where none is."""
    if values is None or not len(values):
        return None
    if values.strides == (0,):
        return None if np.isnan(values[0]) else float(values[0])
    mean = float(values.mean())
    if mean == mean:  # all are known
        return mean
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def less(whole: Floats | None, *parts: Floats | None) -> Floats:
    """What is left of a time without parts of it."""
    assert whole is not None
    left = whole.astype(np.float64, copy=False)
    for part in parts:
        if part is not None:
            left = left - or_zero(part)
    return np.maximum(left, 0.0)


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole; 0 where there is no whole to speak of."""
    found: Floats = np.divide(part, whole, out=np.zeros(whole.shape), where=whole > 1e-12)
    return found


def share_of(part: Floats, whole: Floats) -> Floats:
    """part / whole, from 0 to nearly 1."""
    return np.minimum(np.maximum(ratio(part, whole), 0.0), 0.999)


def smooth(values: Floats, steps: int) -> Floats:
    """Sums over so many steps about each; of a rank or of several."""
    count = values.shape[-1]
    whole = np.zeros((*values.shape[:-1], count + 1))
    np.cumsum(values, axis=-1, out=whole[..., 1:])
    middle = np.arange(count)
    first, last = np.maximum(0, middle - steps // 2), np.minimum(count, middle + steps // 2 + 1)
    found: Floats = whole.take(last, axis=-1) - whole.take(first, axis=-1)
    return found


def smoothed_steps(duration: Floats) -> int:
    """How many steps SMOOTH_S lasts; of a rank or of several."""
    count = duration.shape[-1]
    found = {
        int(np.clip(np.ceil(SMOOTH_S / usual) if usual > 0 else 1, 1, max(1, count)))
        for usual in (np.atleast_1d(np.median(duration, axis=-1)).tolist() if count else [0.0])
    }
    if len(found) > 1:
        raise Differ
    return found.pop()


def added(columns: Sequence[Floats], like: Floats) -> Floats:
    total: Floats = np.zeros_like(like)
    for column in columns:
        total = total + column
    return total


def spread_by(whole: Floats, part: Floats) -> Floats:
    """A part of a time that is known of all steps; of steps of which it is not, as much as of the others. Of
    a rank or of several."""
    absent = np.isnan(part)
    if np.count_nonzero(absent) in (0, part.size):
        return part
    alone(part)
    known = ~absent
    total = float(whole[known].sum())
    found: Floats = np.where(known, part, whole * (float(part[known].sum()) / total if total > 0 else 0.0))
    return found


def spread_by_time(seconds: Floats, duration: Floats) -> Floats:
    """What is known of the steps in which a sample was taken, for all steps. Long steps have a sample more
    often, so that it is their shares of a step, and not the seconds, whose mean is that of the time."""
    known = ~np.isnan(seconds)
    if known.all():
        return seconds
    share = float(ratio(seconds[known], duration[known]).mean())
    return duration * share
