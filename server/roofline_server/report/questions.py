"""What is asked: which job, which of its steps, which of its ranks."""

from __future__ import annotations

from typing import NamedTuple


class Steps(NamedTuple):
    """Which steps a question is about; None: no bound."""

    first: int | None = None
    last: int | None = None


ALL_STEPS = Steps()


class Subject(NamedTuple):
    """Of which job, steps and ranks a model shall be. ranks: "worker:0"; none: all."""

    job: str
    steps: Steps = ALL_STEPS
    ranks: tuple[str, ...] = ()
