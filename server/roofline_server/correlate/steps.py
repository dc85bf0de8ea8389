"""Step deltas of a job: one row per rank, step window and counter set.

A rank with marks of its own has its own windows. A parameter server or a chief without any serves the
workers: it gets one row per worker's window, and the counters are in the row as read at both borders. From
these, asynchronous training takes each row alone; synchronous training takes step k as the union of the
workers' windows, which for a cumulative counter is its largest reading less its smallest (`union`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..records import (
    ABSENT,
    NODE_RANK,
    Bools,
    EventKind,
    Ints,
    Metric,
    RankKey,
    Table,
    concatenate,
    rows,
    take,
)
from . import counters, kernels, spans
from . import windows as step_windows
from .homes import Homes, nodes_of

# Values of the column `window`; else it is the rank whose window a row has.
OWN = -1  # a step of the rank's own
TIME_WINDOW = -2  # no step at all: a stretch of the rank's lifetime
WINDOWS, WINDOW_SAMPLES = 200, 5  # of a rank without steps: windows at most, samples in each at least
SERVING_ROLES = ("ps", "chief")
EVALUATOR = "evaluator"  # the role of ranks that serve nobody and whose steps nobody serves
# Which process a sample is of, and when it was taken; `instance`: of which part of it, if it is of one.
SAMPLE_KEYS = ("rank", "node", "start_ns", "time_ns", "instance")
ReadSamples = Callable[[Sequence[str]], Table]
# What nodes count that ranks have a share in; the rest of what nodes count is not cut at steps.
NODE_SETS = ("node", "perf_system", "likwid", "resctrl", "rapl")


class JobTables(NamedTuple):
    """Raw data of one job, all times on the server's clock."""

    ranks: Mapping[int, RankKey]
    marks: Table
    samples: Mapping[str, Table]
    calls: Table
    events: Table
    homes: Homes = {}  # noqa: RUF012 - never written to
    spans: Table = {}  # noqa: RUF012 - never written to
    stepped: frozenset[int] = frozenset()  # ranks that have marked steps of their own before these marks


def correlate(
    job: JobTables,
    metrics: Mapping[str, Sequence[Metric]],
    wanted: Callable[[Table], Bools] | None = None,
) -> dict[str, Table]:
    """Tables `steps` (the windows), `steps_kernels`, `steps_spans`, for each counter set with rows of ranks
    `steps_SET`, and for NODE_SETS `steps_node_SET`: what the rank's whole node counted during its window.

    wanted: which of the windows, adopted ones included; default all.
    """
    windows = own_and_adopted(job)
    if rows(windows) and wanted is not None:
        windows = take(windows, wanted(windows))
    if not rows(windows):
        return {}
    found = {"steps": windows}
    keys = {name: windows[name] for name in ("rank", "window", "step", "begin_ns", "end_ns")}
    nodes = nodes_of(windows, job.homes)
    for name, samples in job.samples.items():
        if name in metrics:
            found |= counted(keys, name, samples, nodes, metrics[name])
    found["steps_kernels"] = kernels.total(keys, _calls(job.calls), coverage(job.events))
    phases = concatenate([job.spans, spans.of_marks(job.marks)])
    found["steps_spans"] = spans.total(take(keys, keys["window"] == OWN), phases)
    return {name: table for name, table in found.items() if rows(table)}


def own_and_adopted(job: JobTables) -> Table:
    """The windows of all ranks."""
    return adopt(step_windows.build(job.marks), job.ranks, job.stepped)


def counted(
    windows: Table, name: str, samples: Table, nodes: Ints, metrics: Sequence[Metric]
) -> dict[str, Table]:
    """`steps_SET` and `steps_node_SET`, as in `correlate`, of one counter set in these windows. nodes: see
    `nodes_of`.

    The rows of `steps_SET` do not depend on which of the metrics are given.
    """
    found: dict[str, Table] = {}
    if rows(mine := _of_ranks(samples)):
        found[f"steps_{name}"] = counters.cut(windows, mine, list(metrics))
    if name in NODE_SETS and rows(theirs := of_nodes(samples)):
        found[f"steps_node_{name}"] = counters.cut_node(windows, nodes, theirs, metrics)
    return found


def by_time(
    samples: Mapping[str, ReadSamples],
    metrics: Mapping[str, Sequence[Metric]],
    calls: Table,
    events: Table,
    wanted: Callable[[str, Sequence[Metric], int], Iterable[Sequence[Metric]]],
) -> dict[str, Table]:
    """For ranks without steps: `steps`, `steps_SET` and `steps_kernels` with windows of equal time.

    `window` is TIME_WINDOW and `step` the number of the window; the first and last of a lifetime are
    shorter. Of kernels the windows are those of the time that they were recorded in. The length is a round
    number of seconds, so that a window holds some samples and a lifetime has not too many.

    samples: counter set -> what reads some columns of it, on the server's clock, as often as is needed.
    wanted: which metrics of a counter set are to be cut, as many at a time as should be read at once; given
    the set, its metrics and how many samples it has.
    """
    known: dict[str, Table] = {}
    counts: dict[str, int] = {}
    typical = 0  # samples of the counter set that has the most in a typical lifetime
    for name, read in samples.items():
        keys = _of_ranks(read(SAMPLE_KEYS)) if name in metrics else {}
        if rows(keys):
            known[name], counts[name] = _lifetimes(keys), rows(keys)
            each, count = np.unique(keys["rank"], return_counts=True)
            of_life = count[np.searchsorted(each, known[name]["rank"])]
            typical = max(typical, int(np.median(of_life)))
    cover = coverage(events)
    lifetimes = concatenate([*known.values(), _covered_lifetimes(cover)])
    if not rows(lifetimes):
        return {}
    length = window_length_ns(int((lifetimes["end_ns"] - lifetimes["begin_ns"]).max()), typical)
    found: dict[str, Table] = {}
    for name, mine in known.items():
        windows = stretches(mine, length)
        for some in wanted(name, metrics[name], counts[name]):
            read_now = _of_ranks(samples[name]([*SAMPLE_KEYS, *(metric.name for metric in some)]))
            found.setdefault(f"steps_{name}", {}).update(counters.cut(windows, read_now, list(some)))
    found["steps_kernels"] = kernels.total(stretches(_covered_lifetimes(cover), length), _calls(calls), cover)
    longest = stretches(_widest(lifetimes), length)
    nothing = np.full(rows(longest), ABSENT, np.int64)
    found["steps"] = {**longest, "examples": nothing, "asynchronous": np.zeros(rows(longest), np.int64)}
    return {name: table for name, table in found.items() if rows(table)}


def window_length_ns(lifetime_ns: int, samples: int) -> int:
    """A length of 1, 2 or 5 times a power of ten seconds for which a lifetime of so many samples has at most
    WINDOWS windows, each of WINDOW_SAMPLES samples or more."""
    wanted = lifetime_ns / max(1, min(WINDOWS, samples // WINDOW_SAMPLES)) / 1e9
    lengths = (step * 10**power for power in range(9) for step in (1, 2, 5))
    return next((length for length in lengths if length >= wanted), 10**9) * 10**9


def stretches(lifetimes: Table, length_ns: int) -> Table:
    """Each lifetime cut at the multiples of a length; the numbers count from the job's first lifetime."""
    if not rows(lifetimes):
        return {}
    begin, end = lifetimes["begin_ns"].astype(np.int64), lifetimes["end_ns"].astype(np.int64)
    first, last = begin // length_ns, np.maximum(end - 1, begin) // length_ns
    count = last - first + 1
    which = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which]
    return {
        "rank": lifetimes["rank"][which].astype(np.int64),
        "window": np.full(len(which), TIME_WINDOW, np.int64),
        "step": (number - first.min()).astype(np.int64),
        "begin_ns": np.maximum(number * length_ns, begin[which]),
        "end_ns": np.minimum((number + 1) * length_ns, end[which]),
    }


def _widest(lifetimes: Table) -> Table:
    """One lifetime per rank, from its first moment to its last."""
    each, which = np.unique(lifetimes["rank"], return_inverse=True)
    begin, _ = _extremes(lifetimes["begin_ns"], which.reshape(-1), len(each))
    _, end = _extremes(lifetimes["end_ns"], which.reshape(-1), len(each))
    return {"rank": each, "begin_ns": begin, "end_ns": end}


def _of_ranks(samples: Table) -> Table:
    """Rows that speak for whole ranks."""
    if not rows(samples):
        return {}
    whole = samples["rank"] != NODE_RANK
    if "instance" in samples:
        whole = whole & (samples["instance"] == "")
    return samples if whole.all() else take(samples, whole)


def of_nodes(samples: Table) -> Table:
    """Rows that speak for nodes and their parts; `instance` is there, "" for the node as a whole."""
    some = take(samples, samples["rank"] == NODE_RANK) if rows(samples) else {}
    if rows(some) and "instance" not in some:
        some["instance"] = np.full(rows(some), "", object)
    return some


def _covered_lifetimes(cover: Table) -> Table:
    """Per rank the stretch from the first covered moment to the last."""
    return _widest(cover) if rows(cover) else {}


def _lifetimes(samples: Table) -> Table:
    """rank, begin_ns, end_ns of each process, from its first sample to its last."""
    rank, start_ns = samples["rank"].astype(np.int64), samples["start_ns"].astype(np.int64)
    ranks = np.flatnonzero(np.bincount(rank - rank.min())) + rank.min()
    where = np.searchsorted(ranks, rank)
    earliest, latest = _extremes(start_ns, where, len(ranks))
    if (earliest != latest).any():  # a rank was several processes; to sort all rows takes ten times as long
        each, where = np.unique(np.column_stack((rank, start_ns)), axis=0, return_inverse=True)
        ranks, where = each[:, 0], where.reshape(-1)
    first, last = _extremes(samples["time_ns"], where, len(ranks))
    return {"rank": ranks, "begin_ns": first, "end_ns": last}


def _extremes(values: Ints, where: Ints, count: int) -> tuple[Ints, Ints]:
    """The smallest and the largest of each of `count` groups; where: of each value its group."""
    least = np.full(count, np.iinfo(np.int64).max)
    most = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(least, where, values)
    np.maximum.at(most, where, values)
    return least, most


def adopt(own: Table, ranks: Mapping[int, RankKey], stepped: frozenset[int] = frozenset()) -> Table:
    """Own windows, and for every serving rank that never had any a copy of all the others': of evaluators'
    only where nobody else steps."""
    if not rows(own):
        return {}
    found: list[Table] = [{**own, "window": np.full(rows(own), OWN, np.int64)}]
    marked = stepped | set(np.unique(own["rank"]).tolist())
    others = [rank for rank in marked if ranks[rank].role not in SERVING_ROLES]
    workers = [rank for rank in others if ranks[rank].role != EVALUATOR] or others
    theirs = take(own, np.isin(own["rank"], workers))
    for rank, key in ranks.items():
        if key.role in SERVING_ROLES and rank not in marked and rows(theirs):
            adopted = np.full(rows(theirs), rank, np.int64)
            found.append({**theirs, "rank": adopted, "window": theirs["rank"].astype(np.int64)})
    return concatenate(found)


def coverage(events: Table) -> Table:
    """rank, begin_ns, end_ns of the stretches in which every kernel of a rank was recorded."""
    some = take(events, events["kind"] == EventKind.KERNELS_COVERED) if rows(events) else events
    empty: Ints = np.zeros(0, np.int64)
    return {
        "rank": some.get("rank", empty),
        "begin_ns": some.get("time_ns", empty),
        "end_ns": some.get("end_ns", empty),
    }


def _calls(calls: Table) -> Table:
    if rows(calls):
        return calls
    return {
        name: np.zeros(0, np.int64)
        for name in ("rank", "time_ns", "duration_ns", "flops", "bytes", "precision")
    }


def union(table: Table) -> Table:
    """Rows of serving ranks as synchronous steps: one per rank and step, the union of the workers' windows.

    A step done again (after a restart, in a new epoch) is a step of its own. Readings at the borders become
    those of the union; gauges the largest, coverages the smallest; examples the sum; a count of samples is
    that of the widest window and so a lower bound. `window` is the worker's whose window ends last, when the
    union does.
    """
    attempt = step_windows.attempts(table, "window", "rank", "step")
    order = np.lexsort((table["end_ns"], attempt, table["step"], table["rank"]))
    table, attempt = take(table, order), attempt[order]
    each = counters.groups(table["rank"], table["step"], attempt)
    at = np.array([group.start for group in each], np.int64)
    found = {name: _reduce(name, column, at) for name, column in table.items()}
    found["window"] = table["window"][[group.stop - 1 for group in each]]
    return found


def _reduce(
    name: str, column: np.ndarray[tuple[int], np.dtype[np.generic]], at: Ints
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    if name == "examples":
        known = np.where(column == ABSENT, 0, column)
        return np.where(np.minimum.reduceat(column, at) == ABSENT, ABSENT, np.add.reduceat(known, at))
    if name == "begin_ns" or name.endswith((".begin", ".coverage")):
        return np.minimum.reduceat(column, at)  # NaN, if there is one: an unknown border stays unknown
    return np.maximum.reduceat(column, at)
