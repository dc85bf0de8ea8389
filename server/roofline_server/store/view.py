"""What the store hands out of one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..clock import NodeClock
from ..correlate.parts import PartTotal
from ..records import Incarnation, Machine, Metric, RankKey, Table
from .catalog import Life


class JobView(NamedTuple):
    """Everything a report needs of one job. Times are the server's; `watched` is in node time."""

    job: str
    ranks: dict[int, RankKey]
    lives: dict[Incarnation, Life]
    steps: dict[str, Table]
    lifetimes: dict[str, Table]  # as `steps`, one row per life, for ranks without any step
    events: Table
    watched: dict[int, Table]  # node -> BATCH and node-wide events, in node time
    clocks: dict[int, NodeClock]
    machines: dict[int, Machine]
    metrics: dict[str, list[Metric]]
    parts: Sequence[PartTotal] = ()  # what nodes, and parts of nodes and ranks, counted over the job
    recordings: frozenset[int] = frozenset()  # nodes that are recorded files
