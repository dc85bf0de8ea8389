"""What a training would do with something changed."""

from __future__ import annotations

from typing import NamedTuple

from .values import Value


class Predicted(NamedTuple):
    """A number as it was measured, and as it would be, with the range it lies in."""

    now: Value
    then: Value
    low: float | None  # in the unit of `then`; None: `then` is absent
    high: float | None


class WhatIf(NamedTuple):
    """The answer to one change of a job."""

    job: str
    change: str  # what is changed, in words
    mode: str  # synchronous, asynchronous; "": there are no steps
    sentence: str  # the answer in one line
    step: Predicted  # s, mean of the steady steps of a rank
    rate: Predicted  # examples/s of the job
    basis: list[str]  # the measurements that it is based on
    notes: list[str]  # what widens the range, and why it cannot tell
