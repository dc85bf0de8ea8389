"""Stragglers: who waits, and for whom."""

from __future__ import annotations

from typing import NamedTuple

from .values import Value


class Cause(NamedTuple):
    """A rank that holds the others up, or itself."""

    rank: str
    host: str
    kind: str  # input, compute, cpu, delay, server_overloaded, server_skewed, server_slow, stopped
    cost: Value  # s a step: of the others where they wait for it, else its own
    share: Value  # the same as a share of the step
    steps: int  # in which it was last
    of_steps: int  # that were looked at; 0: it is not about being last
    evidence: list[str]


class RankWaits(NamedTuple):
    """Where the time of a rank's steps goes: input, compute, communicate, wait, other; mean a step."""

    rank: str
    role: str
    host: str
    values: dict[str, Value]


class Imbalance(NamedTuple):
    """How unevenly ranks arrived in a stretch of steps, both ends inclusive."""

    first_step: int
    last_step: int
    begin_ns: int
    end_ns: int
    wait: Value  # mean of all ranks, s a step
    last: str  # the rank that came last most often
    share: Value  # of these steps in which it did


class ServerLoad(NamedTuple):
    """What one parameter server did for the workers."""

    rank: str
    host: str
    values: dict[str, Value]


class Stragglers(NamedTuple):
    job: str
    mode: str  # synchronous, asynchronous; "": there are no steps
    verdict: str  # one sentence
    barrier: str  # how it was seen that ranks wait for each other; "": it was not
    causes: list[Cause]  # worst first
    ranks: list[RankWaits]
    imbalance: list[Imbalance]
    servers: list[ServerLoad]
    notes: list[str]
