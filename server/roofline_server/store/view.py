"""What the store hands out of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..clock import NodeClock
from ..correlate.parts import PartTotal
from ..records import EventKind, Incarnation, Machine, Metric, RankKey, Table, rows, take
from .catalog.catalog import Life


class JobView(NamedTuple):
    """Everything a report needs of one job. Times are the server's; `watched` is in node time."""

    job: str
    ranks: dict[int, RankKey]
    lives: dict[Incarnation, Life]
    steps: dict[str, Table]
    lifetimes: dict[str, Table]  # as `steps`, in windows of equal time, for ranks without any step
    events: Table
    watched: dict[int, Table]  # node -> BATCH and node-wide events, in node time
    clocks: dict[int, NodeClock]
    machines: dict[int, Machine]  # as they were when the job ran
    metrics: dict[str, list[Metric]]
    parts: Sequence[PartTotal] = ()  # what nodes, and parts of nodes and ranks, counted over the job
    recordings: frozenset[int] = frozenset()  # nodes that are recorded files
    facts: Mapping[int, Mapping[str, str]] = {}  # rank -> settings and sizes it said, by name
    settled: Mapping[int, float] = {}  # node -> how far wrong its times in stored step windows can be, ns
    tags: Mapping[str, str] = {}  # what the job is said to be
    machine_notes: Sequence[str] = ()  # where `machines` needs a word


def facts_of(events: Table) -> dict[int, dict[str, str]]:
    """What ranks said of themselves, rank -> name -> value; of a name said twice the newest value."""
    found: dict[int, dict[str, str]] = {}
    if not rows(events):
        return found
    said = take(events, events["kind"] == EventKind.FACT)
    for at in np.argsort(said["time_ns"], kind="stable"):
        name, equals, value = str(said["text"][at]).partition("=")
        if equals and name:
            found.setdefault(int(said["rank"][at]), {})[name] = value
    return found
