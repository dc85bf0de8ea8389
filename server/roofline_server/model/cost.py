"""What the profiler itself costs a training: its agents, wrappers and hooks, and the steps that it records
kernels of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ..correlate.sampling import RECORDED
from ..sentences import cost as texts
from .evidence import RankEvidence
from .times import durations

WARM_UP = 5  # first steps of a rank, which take longer anyway
LEAST = 3  # steps of a like with and without kernels that tell a difference
# Of the thread that prints a line of oneDNN's: 3 to 10 us (docs/decisions/0006-sampled-kernels.md).
LINE_S = 5e-6


class Reported(NamedTuple):
    """What agents and ranks report of themselves; None: not known.

    agents, wrappers: by node, cores that all of it took. cpus: of each node. hooks: by rank, seconds a step;
    kernels: kernels of one step in so many are recorded, the most usual number of the ranks, 1: of all.
    lines: of kernels that each rank prints in a second, of those that print them in all steps.
    """

    agents: Sequence[tuple[float | None, float | None, int]]  # agent, wrappers, CPUs of the node
    hooks: Sequence[float | None]
    kernels: int | None = None
    lines: Sequence[float] = ()


class _Excess(NamedTuple):
    """Of steps whose kernels were recorded, what they took more than the others of the same like."""

    seconds: float
    usual: float  # what the others would have taken for as many steps
    all_steps: float
    share: float  # of the steps


def cost(ranks: Sequence[RankEvidence], reported: Reported) -> dict[str, Value]:
    """Numbers by the names of docs/metrics.md, those that are not known absent.

    CPU time counts as if it were taken from the training on all CPUs of the node: an upper bound.
    """
    agent, agent_share = _mean_of_nodes([(cores, cpus) for cores, _, cpus in reported.agents])
    wrapper, wrapper_share = _mean_of_nodes([(cores, cpus) for _, cores, cpus in reported.agents])
    hooks = [seconds for seconds in reported.hooks if seconds is not None]
    hook = sum(hooks) / len(hooks) if hooks else None
    training = [r for r in ranks if len(r.steps.step) and not r.serving]
    step = float(np.mean(np.concatenate([durations(r.steps) for r in training]))) if training else None
    excesses = [excess for excess in map(_excess, training) if excess is not None]
    slower = sampled = lost = None
    if excesses:
        usual = sum(e.usual for e in excesses)
        slower = sum(e.seconds for e in excesses) / usual if usual > 0 else None
        lost = max(0.0, sum(e.seconds for e in excesses) / sum(e.all_steps for e in excesses))
        sampled = sum(e.share for e in excesses) / len(excesses)
    printed = max(reported.lines, default=None)
    if printed is not None:  # steps that were not read had the lines, too
        slower, lost = None, min(1.0, printed * LINE_S)
    shares = [agent_share, wrapper_share, hook / step if hook is not None and step else None, lost]
    known = [share for share in shares if share is not None]

    def of(number: float | None, unit: str, missing: str, scope: Scope = Scope.NODE) -> Value:
        return value(number, unit, Provenance.MEASURED, scope, missing=missing)

    total = value(
        sum(known) if known else None,
        "1",
        Provenance.ESTIMATED,
        Scope.NODE,
        reason=texts.UPPER_BOUND,
        missing=texts.NOTHING_KNOWN,
    )
    return {
        "cost.share": total,
        "cost.agent.cpu_utilization": of(agent, "1", texts.NO_AGENT_CPU),
        "cost.agent.share": of(agent_share, "1", texts.NO_AGENT_CPU),
        "cost.wrapper.cpu_utilization": of(wrapper, "1", texts.NO_WRAPPER),
        "cost.wrapper.share": of(wrapper_share, "1", texts.NO_WRAPPER),
        "cost.hooks.time_per_step": of(hook, "s", texts.NO_HOOKS, Scope.PROCESS),
        "cost.hooks.share": of(shares[2], "1", texts.NO_HOOKS, Scope.PROCESS),
        "cost.kernels.one_in": of(reported.kernels, "1", texts.KERNELS_OF_ALL, Scope.PROCESS),
        "cost.kernels.sampled_share": of(sampled, "1", texts.NO_DIFFERENCE, Scope.PROCESS),
        "cost.kernels.slower": of(slower, "1", texts.NO_DIFFERENCE, Scope.PROCESS),
        "cost.kernels.share": of(lost, "1", texts.NO_DIFFERENCE, Scope.PROCESS)
        if printed is None
        else value(lost, "1", Provenance.ESTIMATED, Scope.PROCESS, reason=texts.PRINTED),
        "cost.kernels.lines_per_second": of(printed, "1/s", texts.SWITCHED, Scope.PROCESS),
    }


def _mean_of_nodes(nodes: Sequence[tuple[float | None, int]]) -> tuple[float | None, float | None]:
    """Cores, and their share of all CPUs, the mean of the nodes of which they are known."""
    known = [(cores, cores / cpus) for cores, cpus in nodes if cores is not None and cpus > 0]
    if not known:
        return None, None
    return sum(cores for cores, _ in known) / len(known), sum(share for _, share in known) / len(known)


def _excess(rank: RankEvidence) -> _Excess | None:
    """None: its steps do not tell."""
    origin = rank.columns.get("kernels.origin")
    if origin is None or not len(origin):
        return None
    lasted = durations(rank.steps)
    recorded, later = origin == RECORDED, np.arange(len(lasted)) >= WARM_UP
    like = rank.steps.like if rank.steps.like is not None else np.zeros(len(lasted), np.int64)
    more = usual = 0.0
    for number in np.unique(like[recorded & later]).tolist():
        mine = (like == number) & later
        some, others = lasted[mine & recorded], lasted[mine & ~recorded]
        if len(some) >= LEAST and len(others) >= LEAST:
            each = float(np.median(others))
            more += len(some) * (float(np.median(some)) - each)
            usual += len(some) * each
    if not usual > 0:
        return None
    return _Excess(more, usual, float(lasted.sum()), float(recorded.mean()))


def sentence(values: dict[str, Value]) -> str:
    """One line; "": nothing is known."""

    def number(name: str) -> float | None:
        found = values.get(name)
        return found.value if found else None

    share = number("cost.share")
    if share is None:
        return ""
    parts = []
    if (agent := number("cost.agent.cpu_utilization")) is not None:
        parts.append(texts.agent(agent))
    if (wrapper := number("cost.wrapper.cpu_utilization")) is not None:
        parts.append(texts.wrapper(wrapper))
    if (hooks := number("cost.hooks.time_per_step")) is not None:
        parts.append(texts.hooks(hooks))
    one_in, slower = number("cost.kernels.one_in"), number("cost.kernels.slower")
    lines = number("cost.kernels.lines_per_second")
    if lines is not None:
        parts.append(texts.printed(lines, number("cost.kernels.share") or 0.0))
    elif one_in is not None:
        parts.append(texts.kernels(round(one_in), slower))
    return texts.in_all(share, parts)
