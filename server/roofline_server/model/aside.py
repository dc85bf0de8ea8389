"""What ranks that wait for each other do between their steps, evaluations and checkpoints, and what it
costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ..records import Bools, Floats, Ints

MOST_OF = 0.5  # who does as much of it as the busiest rank is one of those that do it
OF_ALL = 0.2  # of the time: what all ranks do is named from here on


class RankBreaks(NamedTuple):
    """All steps of a rank, and what lay between them: kind -> seconds of each stretch."""

    step: Ints
    duration: Floats  # s
    apart: Bools  # where something lay between it and the step before
    stretches: Mapping[str, Floats]

    @property
    def aside(self) -> float:
        """Seconds of all stretches."""
        return sum(float(some.sum()) for some in self.stretches.values())


class Aside(NamedTuple):
    """What some ranks do between their steps, or all of them."""

    places: list[int]  # of the ranks that do it while the others wait; []: all do
    kind: str  # of most of it: evaluation, checkpoint, other
    stretches: int  # of that kind, of one of the ranks
    mean: float  # s, of these
    cost: float  # s a step, over all steps
    error: float  # of `cost`, s: by how much stretches differ
    waits: Mapping[int, float]  # step in which the others wait -> s, by how much theirs are longer, median

    def share_in(self, steps: Ints) -> float:
        """How much of what it costs lies in these steps."""
        whole = sum(self.waits.values())
        inside = sum(self.waits.get(step, 0.0) for step in set(steps.tolist()))
        return inside / whole if whole > 0 else 0.0


def aside(ranks: Sequence[RankBreaks]) -> Aside | None:
    """None where nobody loses time by it, or all of them little."""
    totals = np.array([one.aside for one in ranks])
    if not len(totals) or not totals.max() > 0:
        return None
    doing = totals > MOST_OF * totals.max()
    most = ranks[int(totals.argmax())]
    if doing.all():
        lost = float(totals.max())
        spent = lost + float(most.duration.sum())
        return _aside([], most, lost, {}) if lost >= OF_ALL * spent else None
    places = np.flatnonzero(doing).tolist()
    waits = np.unique(np.concatenate([ranks[place].step[ranks[place].apart] for place in places]))
    # The others' steps tell what it costs them: whoever goes on meanwhile loses nothing.
    others = [one for one, own in zip(ranks, doing, strict=True) if not own]
    held = np.median([_beyond_usual(one, waits).sum() for one in others])
    lost = min(float(held), float(totals.max() - np.median(totals[~doing])))
    if not lost > 0:
        return None
    each = np.median([_at(one, waits) for one in others], axis=0)
    return _aside(places, most, lost, dict(zip(waits.tolist(), each.tolist(), strict=True)))


def _aside(places: list[int], most: RankBreaks, lost: float, waits: Mapping[int, float]) -> Aside:
    """most: the rank that does most of it; lost: seconds in the whole run."""
    steps = int(most.step.max() - most.step.min()) + 1
    kind = max(most.stretches, key=lambda kind: float(most.stretches[kind].sum()))
    lengths = most.stretches[kind]
    varies = float(lengths.std(ddof=1)) * sqrt(len(lengths)) if len(lengths) > 1 else lost
    return Aside(places, kind, len(lengths), float(lengths.mean()), lost / steps, varies / steps, waits)


def _beyond_usual(one: RankBreaks, some: Ints) -> Floats:
    """Seconds by which each of its steps that are among these took longer than most of the others."""
    which = np.isin(one.step, some)
    if not which.any() or which.all():
        return np.zeros(int(which.sum()))
    longer: Floats = (one.duration[which] - np.median(one.duration[~which])).clip(min=0)
    return longer


def _at(one: RankBreaks, some: Ints) -> Floats:
    """The same in the order of `some`, whose numbers rise; of steps that it does not have, 0."""
    found = np.zeros(len(some))
    mine = one.step[np.isin(one.step, some)]
    found[np.searchsorted(some, mine)] = _beyond_usual(one, some)
    return found
