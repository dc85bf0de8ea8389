"""What is asked: which job, which of its steps, which of its ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from ..records import Table
from ..store.view import JobView, once

P = ParamSpec("P")
R = TypeVar("R")


class Steps(NamedTuple):
    """Which steps a question is about; None: no bound. since_ns: those that ended later, server time, however
    they are numbered. Without any bound the question is about the steady
    steps: `left_out` are then the windows of the other ones, rank, step, end_ns (see evidence/steady.py)."""

    first: int | None = None
    last: int | None = None
    left_out: Table | None = None
    since_ns: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether steps before or after some are left out; numbers of steps begin at 0."""
        return bool(self.first) or self.last is not None or self.since_ns is not None


ALL_STEPS = Steps(0)
STEADY_STEPS = Steps()


def once_of_steady(
    function: Callable[Concatenate[JobView, Steps, P], R],
) -> Callable[Concatenate[JobView, Steps, P], R]:
    """An answer about a view and steps, computed once for each view where it is about the steady steps. There
    are too many others to keep what was answered about them."""
    kept = once(function)

    @wraps(function)
    def asked(view: JobView, steps: Steps, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return (kept if steps == STEADY_STEPS else function)(view, steps, *args, **kwargs)

    return asked


class Subject(NamedTuple):
    """Which job, steps and ranks a model should be of. ranks: "worker:0"; none: all."""

    job: str
    steps: Steps = STEADY_STEPS
    ranks: tuple[str, ...] = ()
