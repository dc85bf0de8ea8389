"""One run of a training, with or without what is planted; and the training's own clock of it."""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import uplink
from .jobs import Job, Kept, training
from .outside import Burner, Outside, crowd, outside
from .plans import HEALTHY, TORCH, Plan
from .watch import Watch

WARM_STEPS, WARM_SHARE = 24, 0.2  # left out of the training's own means
# That cross the slow end of a link in a step: of `mlp` the gradients, of `wide` what two workers pull.
UPLINK_BYTES = {"mlp": 4 * (512 * 768 + 768 * 768 + 768 * 10), "wide": 2 * 4 * (1024 * 1536 + 512 * 10)}
SHARE_OF_WORK = 0.75  # of a step, about, that grows with the batch


class Setting(NamedTuple):
    """What all runs of a session share."""

    pythons: dict[str, str]  # torch, tensorflow -> interpreter
    seconds: float  # of a training
    raw: Path  # where raw data is kept


class Clock(NamedTuple):
    """The training's own clock of its steady steps. begin_ns, end_ns: of the stretch they are in."""

    steps: dict[str, int]
    mean_s: dict[str, float]
    median_s: dict[str, float]
    begin_ns: int
    end_ns: int

    @property
    def step_s(self) -> float:
        """Of the job: as long as its ranks step, each at its own pace where they are independent."""
        return statistics.harmonic_mean(self.mean_s.values())

    def step_with(self, rank: str, less_s: float) -> float:
        """The same if the steps of one rank were so much shorter, and all others as they are."""
        return statistics.harmonic_mean(
            [mean - less_s if one == rank else mean for one, mean in self.mean_s.items()]
        )


class Observed(NamedTuple):
    """A run: what the training kept, what was planted from outside, what the ranks used."""

    kept: Kept
    clock: Clock
    planted: Outside
    watch: Watch


def clock_of(ends_ns: dict[str, list[int]]) -> Clock:
    first = {rank: max(WARM_STEPS, round(WARM_SHARE * len(ends))) for rank, ends in ends_ns.items()}
    steady = {rank: ends[first[rank] :] for rank, ends in ends_ns.items()}
    durations = {rank: [b - a for a, b in itertools.pairwise(ends)] for rank, ends in steady.items()}
    return Clock(
        {rank: len(times) for rank, times in durations.items()},
        {rank: statistics.fmean(times) / 1e9 for rank, times in durations.items()},
        {rank: statistics.median(times) / 1e9 for rank, times in durations.items()},
        min(ends[0] for ends in steady.values()),
        max(ends[-1] for ends in steady.values()),
    )


def observe(
    plan: Plan,
    setting: Setting,
    folder: Path,
    reference: dict[str, Any],
    wrap: list[Any],
    environ: dict[str, str],
) -> Observed:
    """Run it once. reference: how it ran without what is planted; empty: nothing is planted."""
    watch, words = Watch(), words_for(plan, setting.seconds, reference)
    planted = (
        outside(plan.cause, plan.severity, core_of(plan), reference["cores"], plan.seed)
        if reference
        else Outside()
    )
    python = setting.pythons["torch" if plan.framework in TORCH else "tensorflow"]
    with (
        link(plan, reference),
        training(plan, python, folder, wrap, environ, words) as job,
        disturbed(plan, job, planted, watch),
    ):
        kept = job.wait(setting.seconds)
    return Observed(kept, clock_of(kept.ends_ns), planted, watch)


@contextlib.contextmanager
def disturbed(plan: Plan, job: Job, planted: Outside, watch: Watch) -> Iterator[None]:
    """The block runs next to what disturbs the training, from when all its ranks have started."""
    pids = job.pids()
    others: list[Burner] = crowd(plan.seed) if plan.load == "crowded" else []
    try:
        for one in others:
            one.begin(0)
        planted.begin(pids.get(plan.rank, 0))
        watch.begin(pids)
        yield
    finally:
        watch.end()
        for one in (planted, *others):
            one.end()


def words_for(plan: Plan, seconds: float, reference: dict[str, Any]) -> list[str]:
    words = [f"--model={plan.model}", f"--seconds={seconds}", f"--seed={plan.seed}"]
    words += ["--pinned"] if is_pinned(plan) else []
    if not reference or plan.cause == HEALTHY:
        return words
    amount = plan.severity * reference["step_s"]
    more = plan.severity / SHARE_OF_WORK
    return [*words, f"--cause={plan.cause}", f"--amount={amount}", f"--more={more}", f"--on={plan.rank[-1]}"]


def is_pinned(plan: Plan) -> bool:
    return plan.cause in ("hog", "memory") or (plan.cause == HEALTHY and plan.seed % 2 == 1)


def core_of(plan: Plan) -> int:
    """Where a pinned rank is."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[int(plan.rank[-1]) % len(cores)] if plan.rank else cores[0]


@contextlib.contextmanager
def link(plan: Plan, reference: dict[str, Any]) -> Iterator[None]:
    if plan.cause != "uplink":
        yield
        return
    rate = UPLINK_BYTES[plan.model] / (plan.severity * reference["step_s"]) if reference else 0
    slow = 0 if plan.servers else int(plan.rank[-1])
    with uplink.linked(slow, rate):
        yield
