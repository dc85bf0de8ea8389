"""Which processes were ranks of jobs, and from when to when each was seen, as batches report it.

A node's batches may come in any order, as long as a process's end comes after what was reported of it before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ...records import DecodedBatch, Incarnation, Lifetime


class _Present(NamedTuple):
    """The ranks of a node's last batches, and the extent of these batches."""

    incarnations: list[Incarnation]
    begin_ns: int
    end_ns: int


class ProcessLifetimes:
    """All incarnations ever reported. The caller sees to it that one thread at a time writes."""

    def __init__(self, known: dict[Incarnation, Lifetime], ranks: Iterable[int]) -> None:
        """known, ranks: what the catalog has of earlier batches; ranks also those no agent watches."""
        self._lifetimes = known
        # A question is about some ranks, and of all jobs there may be many thousands.
        self._of_rank: dict[int, tuple[Incarnation, ...]] = dict.fromkeys(ranks, ())
        self._present: dict[int, _Present] = {}  # by node
        # node -> node time it has reported up to
        self.through: dict[int, int] = {}
        for who, lifetime in known.items():
            self._add_to_rank(who)
            self.through[who.node] = max(lifetime.last_ns, self.through.get(who.node, 0))

    def _add_to_rank(self, who: Incarnation) -> None:
        self._of_rank[who.rank] = (*self._of_rank.get(who.rank, ()), who)

    def _begin(self, who: Incarnation, lifetime: Lifetime) -> Lifetime:
        """The lifetime of a process, which may be new."""
        if who not in self._lifetimes:
            self._lifetimes[who] = lifetime
            self._add_to_rank(who)
        return self._lifetimes[who]

    def add(self, node: int, batch: DecodedBatch) -> None:
        """Take the next batch of a node."""
        begin_ns, end_ns, present = batch.begin_ns, batch.end_ns, self._present.get(node)
        if present is not None and batch.incarnations is present.incarnations:
            begin_ns, end_ns = min(begin_ns, present.begin_ns), max(end_ns, present.end_ns)
        else:
            self._settle(node)
            for rank in batch.ranks:
                self._of_rank.setdefault(rank, ())
            for who in batch.incarnations:
                self._begin(who, Lifetime(batch.begin_ns, batch.end_ns, False))
        self._present[node] = _Present(batch.incarnations, begin_ns, end_ns)
        for who, ending in batch.exited.items():
            lifetime = self._begin(who, Lifetime(batch.begin_ns, batch.end_ns, True))
            if not lifetime.exited:  # it was present until now
                lifetime = lifetime._replace(last_ns=max(lifetime.last_ns, batch.begin_ns))
            whole = lifetime.ending.with_later(ending)
            self._lifetimes[who] = lifetime._replace(exited=True, ending=whole)
        self.through[node] = max(batch.end_ns, self.through.get(node, 0))

    def _settle(self, node: int) -> None:
        """Those of this node that may be present no more were there during its last batches. Of this node
        alone: with 2,000 nodes that come at once, all of them again for each would be their square."""
        if node in self._present:
            present = self._present[node]
            _extend(self._lifetimes, present.incarnations, present)

    def now(self) -> dict[Incarnation, Lifetime]:
        """All lifetimes; of processes that are present they last until their node's last batch."""
        found = dict(self._lifetimes)
        for present in self._present.values():
            _extend(found, present.incarnations, present)
        return found

    def has_rank(self, rank: int) -> bool:
        """Whether a batch that was kept contains this rank: ids are given out before that."""
        return rank in self._of_rank

    def of(self, ranks: Collection[int]) -> dict[Incarnation, Lifetime]:
        """The lifetimes of the processes of some ranks."""
        found = {who: self._lifetimes[who] for who in self.members(ranks)}
        for node in {who.node for who in found} & self._present.keys():
            present = self._present[node]
            _extend(found, [who for who in present.incarnations if who in found], present)
        return found

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """All processes that ever were one of these ranks."""
        return [who for rank in ranks for who in self._of_rank.get(rank, ())]


def _extend(
    lifetimes: dict[Incarnation, Lifetime], incarnations: Iterable[Incarnation], present: _Present
) -> None:
    """Those of these incarnations of a node's last batches were there during them."""
    for who in incarnations:
        life = lifetimes[who]
        # What is received of one that has exited is from before.
        last_ns = life.last_ns if life.exited else max(life.last_ns, present.end_ns)
        lifetimes[who] = life._replace(first_ns=min(life.first_ns, present.begin_ns), last_ns=last_ns)


def changed(
    lifetimes: dict[Incarnation, Lifetime], batches: Iterable[DecodedBatch]
) -> dict[Incarnation, Lifetime]:
    """The lifetimes that these batches can have changed."""
    found: set[Incarnation] = set()
    lists = {}
    for batch in batches:
        lists[id(batch.incarnations)] = batch.incarnations  # thousands of batches share one list
        found.update(batch.exited)
    for present in lists.values():
        found.update(present)
    return {who: lifetimes[who] for who in found}
