"""Roles over the jobs of an experiment (Ibrahim, Williams, Oliker 2018; Javed, Ibrahim, Lu 2019)."""

from __future__ import annotations

from typing import NamedTuple

from ..model.records import Trajectory
from ..store.store import Store
from .records import ALL_STEPS, Steps


class Asked(NamedTuple):
    """All jobs of an experiment, or those named; over: a tag, or a quantity every job has."""

    experiment: str
    jobs: tuple[str, ...]
    over: str
    roles: tuple[str, ...] = ()
    steps: Steps = ALL_STEPS


def trajectory(store: Store, asked: Asked) -> Trajectory:
    """The answer to GetTrajectory. Raises UnknownJob, BadRequest."""
    raise NotImplementedError
