"""Ranks that evaluate or save between their steps while all others wait for them in their next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ..records import Bools, Floats, Ints

MOST_OF = 0.5  # who does as much of it as the busiest rank is one of them
FEW = 3  # stretches: of fewer nobody knows how often there will be more


class RankSteps(NamedTuple):
    """All steps of a rank, and what lay between them: kind -> seconds of each stretch."""

    step: Ints
    duration: Floats  # s
    apart: Bools  # where something lay between it and the step before
    stretches: Mapping[str, Floats]


class Alone(NamedTuple):
    """What some ranks do between their steps and the others do not."""

    places: list[int]  # of the ranks that do it
    kind: str  # of most of it: evaluation, checkpoint, other
    stretches: int  # of that kind, of one of the ranks
    mean: float  # s, of these
    cost: float  # s a step, over all steps, that the others wait for it
    error: float  # of `cost`, s: by how much stretches differ
    waits: Ints  # numbers of the steps in which they wait


def alone(ranks: Sequence[RankSteps]) -> Alone | None:
    """Of ranks that wait for each other in each step. None where all do the same, or nobody waits.

    The others' steps tell what it costs them: whoever goes on beside it loses nothing.
    """
    totals = np.array([sum(float(some.sum()) for some in one.stretches.values()) for one in ranks])
    if not len(totals) or not totals.max() > 0:
        return None
    doing = totals > MOST_OF * totals.max()
    if doing.all():
        return None
    places = np.flatnonzero(doing).tolist()
    waits = np.unique(np.concatenate([ranks[place].step[ranks[place].apart] for place in places]))
    held = np.median([_beyond_usual(one, waits) for one, own in zip(ranks, doing, strict=True) if not own])
    lost = min(float(held), float(totals.max() - np.median(totals[~doing])))
    most = ranks[places[int(totals[doing].argmax())]]
    steps = int(most.step.max() - most.step.min()) + 1
    if not lost > 0:
        return None
    kind = max(most.stretches, key=lambda kind: float(most.stretches[kind].sum()))
    lengths = most.stretches[kind]
    varies = float(lengths.std(ddof=1)) * sqrt(len(lengths)) if len(lengths) > 1 else lost
    return Alone(places, kind, len(lengths), float(lengths.mean()), lost / steps, varies / steps, waits)


def _beyond_usual(one: RankSteps, some: Ints) -> float:
    """Seconds that these of its steps took longer than most, all together."""
    which = np.isin(one.step, some)
    if not which.any() or which.all():
        return 0.0
    return float((one.duration[which] - np.median(one.duration[~which])).clip(min=0).sum())
