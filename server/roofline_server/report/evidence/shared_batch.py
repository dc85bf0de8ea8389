"""Ranks of which each counts the examples of the batch that they share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...store.view import JobView


class SharedBatch(NamedTuple):
    """How many ranks work on one batch by tensor parallelism, and how many by pipelines; 1: by none."""

    by_tensors: int
    by_stages: int

    @property
    def ranks(self) -> int:
        return self.by_tensors * self.by_stages


def shared_batch(view: JobView, training: Iterable[int]) -> SharedBatch:
    """The most that any of these ranks reports."""
    facts = [view.facts.get(number, {}) for number in training]
    return SharedBatch(
        *(
            max((int(one.get(name, "1")) for one in facts if one.get(name, "1").isdecimal()), default=1)
            for name in ("setting.tensor_parallel", "setting.pipeline_parallel")
        )
    )
