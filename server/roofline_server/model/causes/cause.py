"""One thing that costs a job time, and what makes it sure enough to be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...records import Floats
from ..account.account import Account
from ..account.signals import RankSignals
from ..columns import mean_of
from ..intervals import Interval, beside_change, correlation_time
from .kinds import COUNTED, GROUPS_OF_ROUNDS, MORE_WORK, OF_CONTENTION, work_of_each

LEAST_GAIN = 0.02  # of a step: what is sure to be less is not worth a name
LEAST_SLOWER = 0.08  # the same of a rank that is slower and nothing tells why: CPUs of one machine differ
LEAST_OF_OWN = 0.08  # of the step of a rank that steps on its own: one of many costs the job hardly anything
CHANCE = 0.01  # that anything is named of a job that is healthy
OF_KNOWN = 0.05  # that a gain is not real, of ranks that were found by what was counted and not by times
LEAST_CHANCE = 1e-9  # below it quantiles are not exact, nor are bootstraps
QUARTERS = 3  # of four quarters of the run in which a cause must be seen
LEAST_STRETCHES = 8  # that are independent of each other, or as many as a run of so few steps can have

# Parts that a job could do without on every rank -> the share of a step from which on that is a bottleneck.
EVERYWHERE = {
    "contention": 0.15,  # some of it is on every node where ranks are as many as CPUs
    "throttled": 0.1,
    "stopped": 0.1,
    "paging": 0.1,
    "disk": 0.1,
    "gc": 0.1,
    "input": 0.25,
}
# The same where all compute on GPUs: what the host does while they are idle.
GPU_IDLE, LEAST_IDLE = "gpu_idle", 0.3
BESIDE_IDLE_GPU = ("host", "host|blocked", "input|host", "input|host|blocked")
# The same of ranks that sleep, where nothing else that they may wait for is left unseen.
ASLEEP, LEAST_ASLEEP = ("blocked", "input|blocked"), 0.25
# Of the time that the main thread is off its CPU: threads that are active for longer may be what it awaits.
OTHERS_REST = 1 / 3
# The same of threads that run: those of communication wait long for a CPU on a busy node, and run little.
OTHERS_RUN = 0.05


class Cause(NamedTuple):
    """One thing that costs time. All seconds are of a step of the job."""

    kind: str  # more_work, slower, host, gc, contention, contention_own, throttled, stopped, input, disk, ...
    part: str  # of the account, or the group of parts that was fixed
    ranks: tuple[str, ...]  # (): all
    host: str  # the node that all of them are on; "": several, or all ranks
    gain: Interval  # by which steps are shorter with it fixed
    step: float  # mean step with nothing fixed
    more: Mapping[str, float]  # part -> how much more of it they have than the others; of all: how much
    work: float | None = None  # work of a step against the others', 1: as much; None: not known
    lasting: bool = True  # seen in most of the run
    amid: float = 0.0  # not in `more`: what they were kept off during communication, which holds up all

    @property
    def share(self) -> float:
        return self.gain.mean / self.step if self.step > 0 else 0.0

    @property
    def is_minor(self) -> bool:
        """Whether it costs its rank much, but the job hardly anything."""
        return self.share < LEAST_GAIN


def parts_of_all(signals: Sequence[RankSignals]) -> dict[str, tuple[tuple[str, ...], float]]:
    """Kind -> parts that a job could do without on every rank, and the share of a step from which on they are
    a bottleneck."""
    found: dict[str, tuple[tuple[str, ...], float]] = {
        part: (OF_CONTENTION if part == "contention" else (part,), least)
        for part, least in EVERYWHERE.items()
    }
    if all(one.on_gpu and one.kernels is not None for one in signals):
        found[GPU_IDLE] = BESIDE_IDLE_GPU, LEAST_IDLE
    if all(_sees_its_waits(one, len(signals)) for one in signals):
        found |= {part: ((part,), LEAST_ASLEEP) for part in ASLEEP}
    return found


def may_wait_unseen(signals: Sequence[RankSignals]) -> bool:
    """Whether ranks that sleep may wait for each other, and for nothing else."""
    elsewhere = any(one.on_gpu or one.waits_for_servers for one in signals)
    unseen = len(signals) > 1 and any(one.held is None for one in signals)
    return unseen and not elsewhere and all(map(_others_rest, signals))


def may_be_idle(signals: Sequence[RankSignals]) -> bool:
    """Whether much of the steps is time in which all GPUs of a rank are idle, unless they work in turns."""
    return any(
        one.kernels_most is not None
        and mean_of(one.kernels_most) - mean_of(one.kernels) >= LEAST_IDLE * float(one.duration.mean())
        for one in signals
    )


def _sees_its_waits(one: RankSignals, ranks: int) -> bool:
    """Whether waits for a GPU, for servers, for other ranks and for its own threads are known from sleep."""
    elsewhere = one.on_gpu or one.waits_for_servers or (ranks > 1 and one.held is None)
    return not elsewhere and _others_rest(one)


def _others_rest(one: RankSignals) -> bool:
    """Whether its other threads hardly run, nor wait for a CPU, while the main one is off its own: XLA and
    TensorFlow compute in them, and who waits for that does not sleep."""
    if one.run is None or one.delay is None or one.threads_run is None or one.threads_delay is None:
        return False
    own = mean_of(one.run) + mean_of(one.delay)
    run = mean_of(one.threads_run) - mean_of(one.run)
    others = mean_of(one.threads_run) + mean_of(one.threads_delay) - own
    held = mean_of(one.held)
    off = float(one.duration.mean()) - own - held
    # While it is held they communicate; where it is held for long, who tells what else they did then?
    amid = min(held, off / 2)
    return others - amid <= OTHERS_REST * off or run <= OTHERS_RUN * off


def seconds_of(one: Account, parts: Sequence[str]) -> Floats:
    """Seconds of each step in all these parts."""
    total = np.zeros_like(one.duration)
    for part in parts:
        if part in one.parts:
            total = total + one.parts[part]
    return total


def chance_of(group: str, signals: Sequence[RankSignals], ranks: Sequence[int], looked_at: int) -> float:
    """The chance that a gain is not real, in one of so many places that are looked at. Ranks that each have
    more work, or that were counted to be stopped or throttled, were not found by looking at their times:
    those are one place."""
    if group in COUNTED or (group == "cpu" and _have_more_work(signals, ranks)):
        return OF_KNOWN
    return max(LEAST_CHANCE, CHANCE / min(looked_at, 10**9))


def _have_more_work(signals: Sequence[RankSignals], ranks: Sequence[int]) -> bool:
    return bool((work_of_each(signals)[list(ranks)] > 1 + MORE_WORK).all())


def is_worth_a_name(kind: str, share: float, contention: float) -> bool:
    """Turbo clocks, sibling threads and hypervisors make one CPU slower than another by some percent; so do
    caches that others have emptied. share: of the step of the ranks; contention: share of it that ranks lack
    CPUs."""
    crowded = contention >= EVERYWHERE["contention"]
    return share >= LEAST_SLOWER or kind not in (("slower", "host") if crowded else ("slower",))


def holds_up(gain: Interval, least: float, step: float) -> bool:
    """Whether what all ranks have is as much of a step as it must be to hold a job up, and real."""
    return gain.mean > least * step and gain.surely > LEAST_GAIN * step


def lasts(gain: Floats, step: float) -> bool:
    """Whether a gain is there in most of the run, or from its middle on, and not only in a stretch of it, or
    in few."""
    least = max(LEAST_GAIN * step, float(gain.mean())) / 2
    short = np.array_split(gain, LEAST_STRETCHES)
    if sum(float(one.mean()) > least for one in short if len(one)) >= LEAST_STRETCHES - 1:
        return True  # nearly always, however it drifts
    if 2 * correlation_time(beside_change(gain)) > max(np.sqrt(len(gain)), len(gain) / LEAST_STRETCHES):
        return False
    quarters = [float(quarter.mean()) > least for quarter in np.array_split(gain, 4)]
    return sum(quarters) >= QUARTERS or all(quarters[2:])


def without_parts_of_sets(causes: Sequence[Cause]) -> list[Cause]:
    """Each rank once for each part: alone, or among others where fixing all of them gives clearly more."""
    kept: list[Cause] = []
    for one in sorted(causes, key=lambda cause: (-cause.gain.mean, len(cause.ranks))):
        if not any(_overlap(one.part, other.part) and set(one.ranks) & set(other.ranks) for other in kept):
            kept.append(one)
    return kept


def _overlap(one: str, other: str) -> bool:
    """Whether two groups have a part in common."""
    return not set(GROUPS_OF_ROUNDS[one]).isdisjoint(GROUPS_OF_ROUNDS[other])
