"""A view: what the store hands out of one job for one question."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from roofline.facts import LEFT

from ..clock import NodeClock
from ..correlate.parts import PartTotal
from ..correlate.steps import OWN
from ..records import (
    RECORDED,
    EventKind,
    Incarnation,
    Lifetime,
    Machine,
    Metric,
    RankKey,
    Removed,
    Table,
    concatenate,
    rows,
    take,
)
from .catalog.machine_versions import MachineNote

P = ParamSpec("P")
R = TypeVar("R")


class _Fields(NamedTuple):
    job: str  # as it is asked for: the first of several runs is "42/1"
    ranks: dict[int, RankKey]
    process_lifetimes: dict[Incarnation, Lifetime]
    steps: dict[str, Table]
    time_windows: dict[str, Table]  # as `steps`, in windows of equal time, for ranks without any step
    events: Table
    watched: dict[int, Table]  # node -> BATCH and node-wide events, at least of the time of the job
    clocks: dict[int, NodeClock]
    machines: dict[int, Machine]  # as they were when the job ran
    metrics: dict[str, list[Metric]]
    parts: Sequence[PartTotal] = ()  # what nodes, and parts of nodes and ranks, counted over the job
    recordings: frozenset[int] = frozenset()  # nodes that are recorded files
    facts: Mapping[int, Mapping[str, str]] = {}  # rank -> settings and sizes it reported, by name
    settled: Mapping[int, float] = {}  # node -> how far wrong its times in stored step windows can be, ns
    tags: Mapping[str, str] = {}
    between: Table = {}  # noqa: RUF012 - never written to; spans of ranks that are no part of any step
    machine_notes: Sequence[MachineNote] = ()  # what the user must know about `machines`
    removed: Removed | None = None  # what retention removed
    starters: Sequence[Lifetime] = ()  # of processes that only started those that are ranks
    damaged: Mapping[str, int] = {}  # files of the job that cannot be read, and the rows that were in them


class JobView(_Fields):
    """Everything a report needs of one job. Times are the server's; those of `process_lifetimes` and
    `watched` are node times."""

    @cached_property
    def answers(self) -> dict[Hashable, Any]:
        """See `once`."""
        return {}


def once(function: Callable[Concatenate[JobView, P], R]) -> Callable[Concatenate[JobView, P], R]:
    """A function of a view, computed once for each view and arguments: what is asked for every rank again,
    and looks through all ranks or nodes, would else cost their square. Its results are not to be written to.
    """

    @wraps(function)
    def asked(view: JobView, /, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (function, args, *kwargs.items())
        if key not in view.answers:
            view.answers[key] = function(view, *args, **kwargs)
        found: R = view.answers[key]
        return found

    return asked


def as_they_turned_out(view: JobView) -> JobView:
    """The view without processes that were taken for a rank until they reported which one they are, or until
    they started ranks. A rank that none is in the end is left out with them, unless it has steps."""
    left = _that_left(view.events)
    if not left:
        return view
    processes = {
        who: life
        for who, life in view.process_lifetimes.items()
        if (who.rank, who.node, who.start_ns) not in left
    }
    starters = [life for who, life in view.process_lifetimes.items() if who not in processes]
    steps = view.steps.get("steps", {})
    stepping = set(steps["rank"].tolist()) if rows(steps) else set()
    gone = {rank for rank, _, _ in left} - {who.rank for who in processes} - stepping

    def kept(table: Table) -> Table:
        return take(table, ~np.isin(table["rank"], list(gone))) if rows(table) else table

    return view._replace(
        ranks={number: key for number, key in view.ranks.items() if number not in gone},
        process_lifetimes=processes,
        starters=starters,
        steps={name: kept(table) for name, table in view.steps.items()},
        time_windows={name: kept(table) for name, table in view.time_windows.items()},
        events=kept(view.events),
        parts=[part for part in view.parts if part.rank not in gone],
        facts={number: facts for number, facts in view.facts.items() if number not in gone},
    )


def with_breaks(view: JobView) -> JobView:
    """The view in which each step is marked as apart from the one before that follows on something which is
    part of no step, or on a restart of its rank: the numbers of steps need not tell."""
    steps = view.steps.get("steps", {})
    if not rows(steps) or "apart" not in steps:
        return view
    breaks = concatenate([_ends_between(view), _restarts(view)])
    if not rows(breaks):
        return view
    own = np.flatnonzero(steps["window"] == OWN)
    own = own[np.lexsort((steps["begin_ns"][own], steps["rank"][own]))]
    rank, begin = steps["rank"][own], steps["begin_ns"][own]
    apart = steps["apart"].copy()
    for number in np.unique(breaks["rank"]).tolist():
        first, last = np.searchsorted(rank, [number, number + 1]).tolist()
        behind = first + np.searchsorted(begin[first:last], breaks["end_ns"][breaks["rank"] == number])
        apart[own[behind[behind < last]]] = 1
    if np.array_equal(apart, steps["apart"]):
        return view
    return view._replace(steps={**view.steps, "steps": {**steps, "apart": apart}})


def _ends_between(view: JobView) -> Table:
    """Rank and end of what was part of no step."""
    spans = view.between
    return {name: spans[name] for name in ("rank", "end_ns")} if rows(spans) else {}


def _restarts(view: JobView) -> Table:
    """Rank and start of each process that was not the first of its rank, on the server's clock."""
    processes: dict[int, list[Incarnation]] = {}
    for who in view.process_lifetimes:
        if who.framework != RECORDED:
            processes.setdefault(who.rank, []).append(who)

    def start(who: Incarnation) -> int:
        return int(view.clocks[who.node].to_server(np.array([who.start_ns], np.int64))[0])

    # Nearly every rank has one process, whose start nobody needs.
    again = [
        (rank, at) for rank, each in processes.items() if len(each) > 1 for at in sorted(map(start, each))[1:]
    ]
    if not again:
        return {}
    rank, end_ns = np.array(again, np.int64).T
    return {"rank": rank, "end_ns": end_ns}


def by_latest_ranks(view: JobView) -> JobView:
    """The view of a list, which has no events to say who left: of a process that was several ranks the last
    counts. A rank that no process is then is left out with them."""
    latest: dict[tuple[int, int, int], tuple[int, int]] = {}
    for who, life in view.process_lifetimes.items():
        seen = (life.first_ns, life.last_ns)
        latest[_process(who)] = max(seen, latest.get(_process(who), seen))
    former = {
        who
        for who, life in view.process_lifetimes.items()
        if who.pid and who.framework != RECORDED and (life.first_ns, life.last_ns) < latest[_process(who)]
    }
    if not former:
        return view
    processes = {who: life for who, life in view.process_lifetimes.items() if who not in former}
    gone = {who.rank for who in former} - {who.rank for who in processes}
    ranks = {number: key for number, key in view.ranks.items() if number not in gone}
    return view._replace(ranks=ranks, process_lifetimes=processes)


def _process(who: Incarnation) -> tuple[int, int, int]:
    return who.node, who.pid, who.start_ns


def _that_left(events: Table) -> set[tuple[int, int, int]]:
    """(rank, node, start) of the processes that are not that rank. One that is found again later is."""
    if not rows(events):
        return set()
    some = take(events, np.isin(events["kind"], (EventKind.FACT, EventKind.RANK_STARTED)))
    some = take(some, np.lexsort((some["kind"], some["time_ns"])))
    columns = (some[name].tolist() for name in ("rank", "node", "start_ns", "kind", "text"))
    left: set[tuple[int, int, int]] = set()
    for *who, kind, text in zip(*columns, strict=True):
        if kind == EventKind.RANK_STARTED:
            left.discard(tuple(who))
        elif str(text).startswith(f"{LEFT}="):
            left.add(tuple(who))
    return left


def extents_of(lifetimes: Mapping[Incarnation, Lifetime]) -> dict[int, tuple[int, int]]:
    """Node -> its time of the first and the last that was received of these processes there."""
    found: dict[int, tuple[int, int]] = {}
    for who, life in lifetimes.items():
        first_ns, last_ns = found.get(who.node, (life.first_ns, life.last_ns))
        found[who.node] = min(first_ns, life.first_ns), max(last_ns, life.last_ns)
    return found


def facts_of(events: Table) -> dict[int, dict[str, str]]:
    """What ranks reported of themselves, rank -> name -> value; of several values the newest."""
    found: dict[int, dict[str, str]] = {}
    if not rows(events):
        return found
    facts = take(events, events["kind"] == EventKind.FACT)
    for at in np.argsort(facts["time_ns"], kind="stable"):
        name, equals, value = str(facts["text"][at]).partition("=")
        if equals and name:
            found.setdefault(int(facts["rank"][at]), {})[name] = value
    return found
