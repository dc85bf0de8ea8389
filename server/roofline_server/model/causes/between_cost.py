"""What ranks that wait for each other do between their steps, evaluations and checkpoints, and what it
costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ...records import Bools, Floats, Ints

MOST_OF = 0.5  # who does as much of it as the busiest rank is one of those that do it
OF_ALL = 0.2  # of the time: what all ranks do is named from here on
NEARLY_ALL = 0.8  # of the time between steps: so much of one kind names the whole
NOTABLE = 0.1  # of it: kinds with less are not listed


class StepsAndBetween(NamedTuple):
    """All steps of a rank, and what lay between them: kind -> seconds of each stretch."""

    step: Ints
    duration: Floats  # s
    apart: Bools  # where something lay between it and the step before
    stretches: Mapping[str, Floats]
    counted: Bools  # steps that other numbers are of, too

    @property
    def between(self) -> float:
        """Seconds of all stretches."""
        return sum(float(some.sum()) for some in self.stretches.values())


class Kind(NamedTuple):
    """Stretches of one kind between the steps of one rank."""

    name: str  # evaluation, checkpoint, without_gradients, other
    stretches: int
    mean: float  # s, of these


class BetweenCost(NamedTuple):
    """What some ranks do between their steps, or all of them."""

    places: list[int]  # of the ranks that do it while the others wait; []: all do
    kind: str  # of nearly all of it; other where no kind is that
    kinds: list[Kind]  # that take notable time of the rank that does most; longest in all first
    cost: float  # s a step, over all steps
    error: float  # of `cost`, s: by how much stretches differ
    inside: float  # how much of what it costs lies in the steps that are counted, as a share


def between_cost(ranks: Sequence[StepsAndBetween]) -> BetweenCost | None:
    """None where nobody loses time by it, or all of them little."""
    totals = np.array([one.between for one in ranks])
    if not len(totals) or not totals.max() > 0:
        return None
    doing = totals > MOST_OF * totals.max()
    most = ranks[int(totals.argmax())]
    if doing.all():
        lost = float(totals.max())
        spent = lost + float(most.duration.sum())
        return _cost([], most, lost, 0.0) if lost >= OF_ALL * spent else None
    places = np.flatnonzero(doing).tolist()
    waits = np.unique(np.concatenate([ranks[place].step[ranks[place].apart] for place in places]))
    # The others' steps tell what it costs them: whoever goes on meanwhile loses nothing.
    others = [one for one, own in zip(ranks, doing, strict=True) if not own]
    longer = [_beyond_usual(one, waits) for one in others]
    held = float(np.median([one.sum() for one in longer]))
    lost = min(held, float(totals.max() - np.median(totals[~doing])))
    if not lost > 0:
        return None
    inside = np.median([each[one.counted].sum() for one, each in zip(others, longer, strict=True)])
    return _cost(places, most, lost, min(1.0, float(inside) / held))


def _cost(places: list[int], most: StepsAndBetween, lost: float, inside: float) -> BetweenCost:
    """most: the rank that does most of it; lost: seconds in the whole run; inside: as of `BetweenCost`."""
    steps, longest_first = len(most.step), sorted(most.stretches.items(), key=lambda item: -item[1].sum())
    kind, lengths = longest_first[0]
    varies = float(lengths.std(ddof=1)) * sqrt(len(lengths)) if len(lengths) > 1 else lost
    kinds = [
        Kind(name, len(some), float(some.mean()))
        for name, some in longest_first
        if some.sum() >= NOTABLE * most.between
    ]
    named = kind if lengths.sum() >= NEARLY_ALL * most.between else "other"
    return BetweenCost(places, named, kinds, lost / steps, varies / steps, inside)


def _beyond_usual(one: StepsAndBetween, some: Ints) -> Floats:
    """Seconds by which each of its steps that are among these took longer than most of the others; of these
    0."""
    which = np.isin(one.step, some)
    if not which.any() or which.all():
        return np.zeros(len(which))
    return np.where(which, (one.duration - np.median(one.duration[~which])).clip(min=0), 0.0)
