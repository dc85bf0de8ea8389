"""Complexity and time of kernels or steps in one plane (Wang et al. 2020)."""

from __future__ import annotations

from typing import NamedTuple

from ..model.records import TimeRoofline
from ..store.store import Store
from .records import Subject


class Asked(NamedTuple):
    """One job (subject.job), or several: all of an experiment or those named, joined over a parameter."""

    subject: Subject
    experiment: str
    jobs: tuple[str, ...]
    over: str
    points: str  # kernel, step


def time_roofline(store: Store, asked: Asked) -> TimeRoofline:
    """The answer to GetTimeRoofline. Raises UnknownJob, UnknownRank, BadRequest."""
    raise NotImplementedError
