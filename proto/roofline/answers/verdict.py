"""The verdict of a job: what holds it back, what that costs, and what fixing it would give."""

from __future__ import annotations

from typing import NamedTuple

from .values import Value


class Gain(NamedTuple):
    """What fixing one thing would give, by the replay of the job; all s a step."""

    step: float  # mean of the steps as they were
    without: float  # mean of the steps with it fixed
    low: float  # the interval of `without`, from the best case: of this run's mean (95 %) and of how much
    high: float  # runs differ (5 % of a step), to the worst; never above `step`


class Finding(NamedTuple):
    """One thing that costs the job time."""

    kind: str  # input, more_work, slower, contention, stopped, server_overloaded, ...: docs/models.md
    rank: str  # "ps:1"; "": it is about all ranks
    host: str
    sentence: str  # "ps:1 stalls the workers"
    cost: Value  # s a step
    share: Value  # the same as a share of the mean step
    gain: Gain | None  # None: the replay cannot tell
    rate: Value  # examples/s with it fixed
    confidence: str  # high, low
    why: str  # why the confidence is low; "": it is not
    evidence: list[str]
    tries: list[str]  # what to try: commands, settings


class AccountPart(NamedTuple):
    """A part of the steps of a rank; the parts of a rank do not overlap and add up to its step."""

    part: str  # input, compute, host, contention, wait_ranks, ...; "input|host": it cannot be told which
    time: Value  # mean, s a step
    share: Value  # of the step


class RankAccount(NamedTuple):
    """Where the steady steps of a rank go, and how the rank ended."""

    rank: str
    role: str
    host: str
    steps: int  # that the account is of
    step: Value  # mean, s
    parts: list[AccountPart]  # in the order of docs/models.md; empty: the rank has no steps of its own
    roof: Value  # of compute, the time that the roof would need; s a step
    cores: Value  # that it kept busy
    received: Value  # byte/s
    sent: Value  # byte/s
    exit: str  # "0", "3", "SIGKILL", "running"; "": not known


class LeftOut(NamedTuple):
    """Steps that are no steady ones: warm-up, evaluation, ..."""

    reason: str  # warm-up, evaluation, checkpoint, compilation, traced
    steps: int
    cost: Value  # s, of all of them together, of the rank that it cost most


class Verdict(NamedTuple):
    """The first screen of a report. Rates and steps are those of the steady steps."""

    state: str  # "finished (exit 0)", "running", "failed: worker:1 exited with 3 after step 20"
    headline: str  # the bottleneck, "healthy: bound by ...", "no single cause ..."
    kind: str  # bottleneck, healthy, unclear, unknown
    bottleneck: Finding | None
    also: list[Finding]  # what costs less, or cannot be added to it
    examples_per_second: Value
    step_median: Value
    step_mean: Value
    step_p95: Value
    left_out: list[LeftOut]
    accounts: list[RankAccount]  # training ranks worst first, then servers and others
    roofline: list[str]  # a sentence a role: its place under the roof
    quality: list[str]  # what makes numbers poor: one short sentence each
    # From the first step to the last, with what is left out and what lies between steps; None: not known of
    # all steps.
    examples_per_second_of_run: Value | None = None
