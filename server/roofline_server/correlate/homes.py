"""On which node each rank was when: an elastic launcher may start it again on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..records import Ints, Table, rows


class Home(NamedTuple):
    """A node that a rank was on, and since when, server time."""

    since_ns: int
    node: int


Homes = Mapping[int, Sequence[Home]]  # by rank, the earliest first


def nodes_of(windows: Table, homes: Homes) -> Ints:
    """The node that the rank of each window was on; -1: not known.

    windows: rank, end_ns; with sender and node, a rank that reported the window itself was on that node.
    """
    nodes = np.full(rows(windows), -1, np.int64)
    if not rows(windows):
        return nodes
    ranks, which = np.unique(windows["rank"], return_inverse=True)
    which = which.reshape(-1)
    known = [homes.get(rank) or (Home(0, -1),) for rank in ranks.tolist()]
    nodes = np.array([one[0].node for one in known], np.int64)[which]
    for at, one in enumerate(known):
        if len(one) > 1:
            mine = np.flatnonzero(which == at)
            ends = windows["end_ns"][mine]
            latest = np.searchsorted([home.since_ns for home in one], ends, side="right") - 1
            nodes[mine] = np.array([home.node for home in one], np.int64)[np.maximum(latest, 0)]
    if "sender" in windows and "node" in windows:
        itself = windows["sender"] == windows["rank"]
        nodes = np.where(itself, windows["node"], nodes)
    return nodes
