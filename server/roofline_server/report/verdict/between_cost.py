"""What is known of what ranks do between their steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...correlate.steps import OWN
from ...model.causes.between_cost import BetweenCost, StepsAndBetween, between_cost
from ...model.evidence import NS
from ...records import Bools, Table, rows, take
from ...store.view import JobView
from ..evidence.between import by_kind
from ..evidence.gathering import Gathered
from ..evidence.tables import by_rank, where

NOT_THE_TRAININGS = "trace"  # kind of what the product itself does between steps


def between_cost_of(view: JobView, gathered: Gathered, numbers: Sequence[int]) -> BetweenCost | None:
    """Among these ranks, which wait for each other in each step: in the steps that were asked for, with those
    that are left out of the others' numbers."""
    if not rows(view.between):
        return None
    spans = by_rank({"between": view.between})
    own = by_rank({"steps": where(view.steps.get("steps", {}), "window", OWN)})
    asked = [gathered.evidence[number].steps.end_ns for number in numbers]
    if not asked or any(number not in own for number in numbers) or not all(map(len, asked)):
        return None
    first, last = min(int(some.min()) for some in asked), max(int(some.max()) for some in asked)
    known = []
    for number in numbers:
        steps = own[number]["steps"]
        steps = take(steps, (steps["end_ns"] >= first) & (steps["end_ns"] <= last))
        counted = np.isin(steps["end_ns"], gathered.evidence[number].steps.end_ns)
        known.append(_steps_and_between(steps, counted, spans.get(number, {}).get("between", {})))
    return between_cost(known)


def _steps_and_between(steps: Table, counted: Bools, spans: Table) -> StepsAndBetween:
    """What comes after the last step nobody waits for."""
    if rows(spans):
        spans = take(
            spans, (spans["time_ns"] >= steps["begin_ns"].min()) & (spans["end_ns"] <= steps["end_ns"].max())
        )
    apart = steps["apart"] > 0 if "apart" in steps else np.zeros(rows(steps), np.bool_)
    stretches = {kind: some for kind, some in by_kind(spans).items() if kind != NOT_THE_TRAININGS}
    return StepsAndBetween(
        steps["step"], (steps["end_ns"] - steps["begin_ns"]) / NS, apart, stretches, counted
    )
