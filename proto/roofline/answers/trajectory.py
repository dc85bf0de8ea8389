"""Trajectories: each role over the jobs of an experiment."""

from __future__ import annotations

from typing import NamedTuple

from .about import About
from .roofline import Roof, RoofPoint
from .values import Value


class Stop(NamedTuple):
    """A role in the jobs with one value of the parameter."""

    at: str  # value of the parameter as it was reported
    jobs: list[str]  # several are pooled by the median
    point: RoofPoint  # FLOP/s and intensity per node
    throughput: Value  # of the whole job, examples/s or steps/s
    speedup: Value  # throughput over that of the first stop
    efficiency: Value  # speedup over growth of the parameter
    step_time: Value  # median, s


class Path(NamedTuple):
    """One role over the experiment, in order of the parameter."""

    role: str
    stops: list[Stop]
    words: str


class Trajectory(NamedTuple):
    about: About
    over: str  # the parameter
    paths: list[Path]
    roofs: list[Roof]  # of the first node of each machine model
    notes: list[str]
