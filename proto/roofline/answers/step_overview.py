"""How long steps took and which ranks were late, by stretches of steps. Absent numbers are NaN."""

from __future__ import annotations

from typing import NamedTuple


class StepLine(NamedTuple):
    """Step times of a rank, or of all ranks of a role; s, one number a stretch."""

    name: str
    role: str
    ranks: int
    shortest: list[float]
    middle: list[float]  # mean over the steps of the stretch of the median rank's
    longest: list[float]


class LatenessRow(NamedTuple):
    """How much longer than the median rank ranks worked before they waited for others; s."""

    name: str  # "worker:0"; of several "worker:0 to worker:15"
    role: str
    first_rank: int  # place in the order of ranks
    last_rank: int  # inclusive
    mean: float  # over all these steps and ranks
    latest: str  # of several ranks the one with the largest mean
    late: list[float]  # a stretch each: of the step and rank furthest from 0


class RecentSteps(NamedTuple):
    """Steps of the ranks that train that began in ten seconds that ended so long before the newest step
    began."""

    ago: float  # s
    first_step: int
    last_step: int  # inclusive


class StepOverview(NamedTuple):
    job: str
    mode: str  # synchronous, asynchronous; "": there are no steps
    ranks: int  # that have steps of their own, all of the job
    firsts: list[int]  # the first step of each stretch
    lasts: list[int]  # the last one, inclusive
    left_out: list[bool]  # whether most steps of the stretch are no steady ones
    lines: list[StepLine]  # of ranks one by one where they are few, else of roles
    lateness: list[LatenessRow]  # of ranks one by one where they are few, else of groups of them
    recent: list[RecentSteps]
    running: bool  # a rank has not exited, and reported lately
    notes: list[str]  # what of the job was removed or cannot be read
    newest_ns: int  # when the newest step of the ranks that train ended, server's UNIX time; 0: there is none
