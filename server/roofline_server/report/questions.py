"""What is asked: which job, which of its steps, which of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..records import Ints


class Steps(NamedTuple):
    """Which steps a question is about; None: no bound. Without any bound the question is about the steady
    steps: `left_out` are then, of each rank, the numbers of its other steps (see evidence/steady.py)."""

    first: int | None = None
    last: int | None = None
    left_out: Mapping[int, Ints] | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether steps before or after some are left out; numbers of steps begin at 0."""
        return bool(self.first) or self.last is not None


ALL_STEPS = Steps(0)
STEADY_STEPS = Steps()


class Subject(NamedTuple):
    """Of which job, steps and ranks a model shall be. ranks: "worker:0"; none: all."""

    job: str
    steps: Steps = STEADY_STEPS
    ranks: tuple[str, ...] = ()
