"""The accounts of the ranks of a job that train, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Scope, Value
from roofline.answers.verdict import Gain

from ...model.account.account import Account, account_of_each, with_waits
from ...model.account.signals import RankSignals
from ...model.barrier import Grid, time_a_step_of
from ...model.causes.between_cost import BetweenCost
from ...model.causes.conclusion import (
    Conclusion,
    beside_idle_cpus,
    beside_unseen_ranks,
    conclude,
)
from ...model.causes.links import SlowLink
from ...model.evidence import RankEvidence
from ...model.times import beside, times
from ...sentences import reasons, waits
from ...store.view import JobView
from ..evidence import replays
from ..evidence.barriers import seldom_seen
from ..evidence.gathering import Gathered
from ..evidence.training import training_ranks
from ..ranks.unseen import unseen_ranks
from . import links
from .between_cost import between_cost_of
from .foreign import busy_node, idle_nodes, node_uses
from .signals import signals_of


class Accounts(NamedTuple):
    """Signals and accounts of the ranks that train, by number, and what follows from them."""

    signals: dict[int, RankSignals]
    accounts: dict[int, Account]
    foreign: dict[str, float]  # host -> CPUs that other processes keep busy
    conclusion: Conclusion
    slow_links: list[SlowLink]
    meet: bool  # the ranks wait for each other in each step
    concerned: list[int]  # ranks whose steps are the job's
    unseen: str = ""  # of synchronous ranks, why it is not known when they wait for each other
    between_cost: BetweenCost | None = None  # what ranks that meet do between their steps
    beside: Mapping[int, float] = {}  # of these ranks, seconds between two steps in a row, which are in none
    grid: Grid | None = None  # of the steps of those that are concerned, where they are seen to meet

    @property
    def step(self) -> float:
        """Mean, of the rank that trains whose steps are longest: that of ranks that meet; s."""
        training = [self.accounts[number] for number in self.concerned]
        means = [float(one.duration.mean()) for one in training if len(one.duration)]
        return max(means, default=0.0)

    @property
    def mean_step(self) -> float:
        """Over all steps of these ranks, s."""
        steps = [self.accounts[number].duration for number in self.concerned]
        return float(np.concatenate(steps).mean()) if any(map(len, steps)) else 0.0

    def of_all_steps(self, gain: Gain, fixed: Collection[str]) -> Gain:
        """A gain of the steps that are played again as one of all steps, means. fixed: as of `share_left`.
        Steps that are not played, as the first and those behind an evaluation, stay as they are: where these
        are long, it is a smaller share of a longer step."""
        if self.grid is None or self.conclusion.whole or self._all_steps(gain.step, fixed) <= gain.step:
            return gain
        times = (gain.without, gain.low, gain.high)
        return Gain(
            self.mean_step, *(self.mean_step * self.share_left(gain.step, one, fixed) for one in times)
        )

    def share_left(self, step: float, without: float, fixed: Collection[str]) -> float:
        """Of the time of all steps what is left if steps that are played again take `without` instead of
        `step`, s. fixed: ranks that this takes; steps in which they were absent stay as they are. (): all."""
        whole = self._all_steps(step, fixed)
        return 1 - (step - without) / whole if whole > 0 else 1.0

    def _all_steps(self, step: float, fixed: Collection[str]) -> float:
        """Seconds of all steps for each that is played again."""
        if self.meet:  # steps behind an evaluation of one rank are none of those that are played
            return max(step, self._time_a_step_of(fixed) or self.step)
        return step

    def _time_a_step_of(self, ranks: Collection[str]) -> float:
        if self.grid is None or self.grid.is_whole:
            return 0.0
        own = [self.accounts[number] for number in self.concerned]
        columns = [column for column, one in enumerate(own) if one.rank in ranks]
        return time_a_step_of(self.grid, [one.duration for one in own], columns)

    @property
    def share_beside(self) -> dict[int, float]:
        """Rank -> its share of its time."""
        means = {number: float(self.accounts[number].duration.mean()) for number in self.beside}
        return {n: own / (means[n] + own) if own else 0.0 for n, own in self.beside.items()}

    @property
    def most_beside(self) -> float:
        """Of the rank with most of it."""
        return max(self.beside.values(), default=0.0)

    @property
    def only(self) -> list[str]:
        """The rank of a job that has one: what is true of all is true of it."""
        return [self.accounts[n].rank for n in self.concerned] if len(self.concerned) == 1 else []


def accounts_of(view: JobView, gathered: Gathered) -> Accounts:
    """Accounts of the ranks that have steps of their own."""
    signals = signals_of(view, gathered)
    accounts = dict(zip(signals, account_of_each(list(signals.values())), strict=True))
    barriers = gathered.barriers
    together = [number for number in barriers.ranks if number in accounts] if barriers.kind else []
    grid = None
    if len(together) == len(barriers.ranks) > 1:
        grid = barriers.grid
        divided = with_waits([accounts[number] for number in together], grid)
        accounts |= dict(zip(together, divided, strict=True))
    # An evaluator, or a chief that only coordinates, is slow at nobody's cost.
    training = [number for number in training_ranks(gathered.evidence) if number in accounts]
    concerned = together if grid is not None else training
    uses = node_uses(view, gathered)
    foreign = {host: use.foreign for host, use in uses.items()}
    conclusion = conclude(
        [signals[n] for n in concerned],
        [accounts[n] for n in concerned],
        grid,
        foreign,
        busy_node(view, gathered, uses),
    )
    conclusion = beside_idle_cpus(conclusion, idle_nodes(view, uses), {signals[n].host for n in concerned})
    if grid is not None and {one.role for one in unseen_ranks(view)} & {signals[n].role for n in concerned}:
        conclusion = beside_unseen_ranks(conclusion)
    unseen = ""
    if gathered.mode == "synchronous" and len(barriers.ranks) > 1 and grid is None:
        unseen = barriers.why_not
        if conclusion.kind == "healthy":
            conclusion = conclusion._replace(kind="unknown")
    elif grid is not None and (few := seldom_seen(gathered.evidence, barriers)) is not None:
        unseen = waits.seldom_seen(*few)
    if any(replays.FACT in view.facts.get(number, {}) for number in concerned):
        conclusion = conclusion._replace(confidence="low", why=(*conclusion.why, "profiled"))
    slow = links.slow_links_of(view, gathered, {number: accounts[number] for number in concerned})
    meet = grid is not None or gathered.mode == "synchronous"
    cost = between_cost_of(view, gathered, concerned) if meet else None
    # What a coordinator does between the steps is in their accounts.
    alone = [n for n in concerned if signals[n].barrier != "join" and len(accounts[n].duration)]
    between = {number: beside(gathered.evidence[number].steps) for number in alone}
    return Accounts(
        signals=signals,
        accounts=accounts,
        foreign=foreign,
        conclusion=conclusion,
        slow_links=slow,
        meet=meet,
        concerned=concerned,
        unseen=unseen,
        between_cost=cost,
        beside=between,
        grid=grid,
    )


def rate_of(ranks: Sequence[RankEvidence]) -> Value:
    """examples/s of all of them."""
    if not ranks:
        return Value(None, "examples/s", reason=reasons.NO_STEPS_SEEN)
    return times(ranks, Scope.ROLE)["examples_per_second"]
