"""What one of the models predicts of a job with a change."""

from __future__ import annotations

from typing import NamedTuple

from ...model.what_if import Range


class Prediction(NamedTuple):
    """steps: seconds a step; None: `notes` begin with the reason. basis: what it is based on; notes: what to
    know; no_rate: why no examples/s follow from the steps; "": they do. whole: what steps take now, s, where
    these and that have what lies between two steps, too; None: they have not."""

    steps: Range | None
    basis: list[str]
    notes: list[str]
    no_rate: str = ""
    whole: float | None = None


def unknown(why: str) -> Prediction:
    return Prediction(None, [], [why])
