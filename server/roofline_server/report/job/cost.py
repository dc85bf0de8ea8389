"""Gathers what the profiler itself cost a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter

from roofline.answers.report import ProfilerCost

from ...model import cost as model
from ...model.evidence import NS, RankEvidence
from ...records import Incarnation, Lifetime
from ...sentences import cost as texts
from ...store.view import JobView
from ..evidence.sampled import are_sampled, one_in
from ..ranks.members import name_of, nodes_of

AGENT, AGENT_CPU = "agent", "agent_cpu_ns"
# Facts: mean ns a step; CPU ns so far; lines of kernels so far that were printed in all steps.
HOOKS, WRAPPER, LINES = "cost.hooks_ns", "cost.wrapper_cpu_ns", "cost.kernel_lines"
MUCH = 0.01  # of its time that a rank takes to print them: then a note says how to do without


def cost_of(view: JobView, evidence: Mapping[int, RankEvidence]) -> ProfilerCost:
    agents: dict[int, float] = {}
    for part in view.parts:
        is_cpu = (part.metric.counter_set, part.metric.name) == (AGENT, AGENT_CPU)
        if is_cpu and part.grown is not None and part.seconds > 0:
            agents[part.node] = part.grown / NS / part.seconds
    wrappers: dict[int, float] = {}
    for who, life in _newest(view).items():
        spent, lasted = _number(view, who.rank, WRAPPER), (life.last_ns - life.first_ns) / NS
        if spent is not None and lasted > 0:
            wrappers[who.node] = wrappers.get(who.node, 0.0) + spent / NS / lasted
    nodes = sorted(nodes_of(view) - view.recordings)
    hooks = [_number(view, number, HOOKS) for number in evidence]
    sampled = Counter(one_in(view, number) for number in are_sampled(view))
    values = model.cost(
        list(evidence.values()),
        model.Reported(
            [(agents.get(node), wrappers.get(node), view.machines[node].cpus) for node in nodes],
            [None if ns is None else ns / NS for ns in hooks],
            sampled.most_common(1)[0][0] if sampled else None,
            list(_lines(view, evidence).values()),
        ),
    )
    return ProfilerCost(model.sentence(values), values)


def printing_notes(view: JobView, evidence: Mapping[int, RankEvidence]) -> list[str]:
    """Which ranks print so many lines of kernels that it takes much of their time."""
    lines = {number: rate for number, rate in _lines(view, evidence).items() if rate * model.LINE_S > MUCH}
    if not lines:
        return []
    most = max(lines.values())
    return [texts.printing([name_of(view, number) for number in lines], most, most * model.LINE_S)]


def _lines(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[int, float]:
    """Rank -> lines of kernels that it prints in a second, in all of its steps."""
    found = {}
    for who, life in _newest(view).items():
        lines, lasted = _number(view, who.rank, LINES), (life.last_ns - life.first_ns) / NS
        if who.rank in evidence and lines and lasted > 0:
            found[who.rank] = lines / lasted
    return found


def _newest(view: JobView) -> dict[Incarnation, Lifetime]:
    """The last process of each rank: of one that was started again facts are those of its last wrapper."""
    newest = {who.rank: who for who in sorted(view.process_lifetimes, key=attrgetter("start_ns"))}
    return {who: view.process_lifetimes[who] for who in newest.values()}


def _number(view: JobView, rank: int, fact: str) -> float | None:
    """A fact that is a number; None: there is none, or it is no number."""
    text = view.facts.get(rank, {}).get(fact, "")
    return float(text) if text.isdecimal() and len(text) < 19 else None
