"""What is printed under every picture: of which jobs, on which machines, when, how well aligned."""

from __future__ import annotations

from typing import NamedTuple

from .values import Value


class MachineAbout(NamedTuple):
    """A node in a caption."""

    host: str
    cpu_model: str
    cpus: int  # logical CPUs
    calibrated_ns: int  # 0: never


class About(NamedTuple):
    jobs: list[str]
    experiment: str  # "": none was asked for
    begin_ns: int
    end_ns: int
    machines: list[MachineAbout]
    alignment: Value  # bound on the clock error of the worst node, s
    step_time: Value  # shortest median step of a rank, s
    tags: dict[str, str]  # of several jobs those they share
