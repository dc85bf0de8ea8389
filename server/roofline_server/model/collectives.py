"""Bytes that collectives move between nodes, by what their kind does and who takes part.

Of N ranks, r of them on each node, a ring moves at each rank (N-1)/N of the whole tensor in an allgather or
a reducescatter and twice that in an allreduce, which is both (Patarasuk, Yuan 2009). It passes each link
once: only one of the ranks of a node sends to another node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..records import ABSENT, Ints
from ..sentences import network as texts
from .evidence import RankEvidence

RINGS = {"allreduce": 2.0, "allgather": 1.0, "reducescatter": 1.0}
CHAINS = ("broadcast", "reduce")  # these pass the whole tensor on: once off each node
PIECES = ("alltoall", "gather", "scatter")  # these move the pieces of other ranks: (N-r)/N leave the node
SENT, RECEIVED = "send", "recv"  # from one rank to another
FAMILIES = ("asked", "engine")
NO_COLLECTIVES = (
    "engine.busy",
    "engine.exposed",
    "engine.negotiate",
    "engine.queue",
    "engine.memcpy",
    "engine.cycle",
)
_GROUP = re.compile(r"(\d+)(?:-(\d+))?")


class CollectiveGroup(NamedTuple):
    """Ranks that a collective is of. size 0: not known."""

    size: int
    mates: int  # of these on one node


class Moved(NamedTuple):
    """Mean bytes that the collectives of a step move at one rank, in the busier direction. how: as what."""

    bytes: float
    how: str


def moved_by(
    ranks: Sequence[RankEvidence], world: int = 0, mates: int = 1, apart: bool = False
) -> Moved | None:
    """What the collectives of a step send off the node at one rank, or bring to it, over the steps of which
    they were reported: the mean of the busier direction. None: of none, or nothing leaves the node.

    world: ranks that take part, of these `mates` on a node, unless a collective's name holds its group
    ("allreduce.16-2": of 16 ranks, 2 of them on this node); 0: not known, then the payload. apart: as if each
    rank were on a node of its own.
    """
    everyone = CollectiveGroup(world if world > 1 else 0, max(1, mates))
    for family in FAMILIES:
        columns = []  # of each rank: kind of a collective, with its group -> bytes and number in each step
        for rank in ranks:
            mine = {}
            for column, numbers in rank.columns.items():
                name = column.removesuffix(".bytes")
                if name != column and name.startswith(f"{family}.") and name not in NO_COLLECTIVES:
                    counts = rank.columns.get(f"{name}.count", np.zeros(len(numbers), np.int64))
                    mine[name.removeprefix(f"{family}.")] = numbers, counts
            columns.append(mine)
        busier = 0.0
        for other_way in (RECEIVED, SENT):
            each = [_mean_bytes(mine, everyone, apart, other_way) for mine in columns]
            known = [found for found in each if found is not None]
            if known:
                busier = max(busier, float(np.mean(known)))
        if busier > 0:
            return Moved(busier, _in_words(sorted({kind for mine in columns for kind in mine}), everyone))
    return None


def _mean_bytes(
    columns: dict[str, tuple[Ints, Ints]], everyone: CollectiveGroup, apart: bool, other_way: str
) -> float | None:
    """Of the steps of a rank in one direction. other_way: the kind that goes in the other."""
    if not columns:
        return None
    reported = np.any([sizes != ABSENT for sizes, _ in columns.values()], axis=0)
    moved = np.zeros(len(reported))
    for kind, (sizes, counts) in columns.items():
        if kind.partition(".")[0] != other_way:
            moved += leaving(kind, everyone, apart) * np.where(sizes == ABSENT, 0.0, sizes)
            reported &= (sizes != ABSENT) | (counts <= 0)  # else some of its bytes are not known
    # A step without collectives (gradients are accumulated) communicates nothing: a zero among the others.
    return float(moved[reported].mean()) if reported.any() else None


def leaving(name: str, everyone: CollectiveGroup, apart: bool = False) -> float:
    """Bytes that a collective sends off a node, over those of the whole tensor, a rank of the node. name: its
    kind, with its group where that is not everyone. apart: as if each rank were on a node of its own."""
    kind, _, group_name = name.partition(".")
    group = _group(group_name) or everyone
    size, mates = group.size, 1 if apart else min(group.mates, group.size)
    if not size or kind in (SENT, RECEIVED):
        return 1.0
    if mates == size:
        return 0.0
    if kind in RINGS:
        return RINGS[kind] * (size - 1) / size / mates
    if kind in PIECES:
        return (size - mates) / size
    return 1.0 / mates if kind in CHAINS else 1.0


def _group(name: str) -> CollectiveGroup | None:
    found = _GROUP.fullmatch(name)
    return CollectiveGroup(int(found[1]), int(found[2] or 1)) if found else None


def _in_words(kinds: Sequence[str], everyone: CollectiveGroup) -> str:
    """As what the bytes of these kinds were taken, in words."""
    parted = [kind.partition(".") for kind in kinds]
    if all(bare in (SENT, RECEIVED) for bare, _, _ in parted):
        return texts.BETWEEN_RANKS
    if all(_group(group) is not None for _, _, group in parted):
        return texts.RINGS_OF_GROUPS
    return texts.ring(*everyone) if everyone.size else texts.PAYLOAD
