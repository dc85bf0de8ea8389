"""Which processes were ranks of jobs, and from when to when each was seen, as batches report it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...records import DecodedBatch, Incarnation, Lifetime


class ProcessLifetimes:
    """All incarnations ever reported. The caller sees to it that one thread at a time writes."""

    def __init__(self, known: dict[Incarnation, Lifetime], ranks: Iterable[int]) -> None:
        """known, ranks: what the catalog has of earlier batches; ranks also those no agent watches."""
        self._lifetimes = known
        self._ranks = set(ranks)
        self._present: dict[int, list[Incarnation]] = {}  # node -> its ranks in the newest batch
        # node -> node time it has reported up to
        self.through: dict[int, int] = {}
        for who, lifetime in known.items():
            self.through[who.node] = max(lifetime.last_ns, self.through.get(who.node, 0))

    def add(self, node: int, batch: DecodedBatch) -> None:
        """Take the next batch of a node."""
        if batch.incarnations is not self._present.get(node):
            self._settle(node)
            self._present[node] = batch.incarnations
            self._ranks.update(batch.ranks)
            for who in batch.incarnations:
                self._lifetimes.setdefault(who, Lifetime(batch.begin_ns, batch.end_ns, False))
        for who, ending in batch.exited.items():
            lifetime = self._lifetimes.get(who, Lifetime(batch.begin_ns, batch.end_ns, True))
            if not lifetime.exited:  # it was present until now
                last_ns = max(lifetime.last_ns, self.through.get(node, lifetime.last_ns))
                lifetime = lifetime._replace(last_ns=last_ns)
            whole = lifetime.ending.with_later(ending)
            self._lifetimes[who] = lifetime._replace(exited=True, ending=whole)
        self.through[node] = max(batch.end_ns, self.through.get(node, 0))

    def _settle(self, node: int) -> None:
        """Those of this node that may be present no more have lasted until its newest batch. Of this node
        alone: with 2,000 nodes that come at once, all of them again for each would be their square."""
        for who in self._present.get(node, ()):
            lifetime = self._lifetimes[who]
            if not lifetime.exited:
                self._lifetimes[who] = lifetime._replace(last_ns=max(lifetime.last_ns, self.through[node]))

    def now(self) -> dict[Incarnation, Lifetime]:
        """All lifetimes; of processes that are present they last until their node's newest batch."""
        found = dict(self._lifetimes)
        for node, present in self._present.items():
            for who in present:
                if found[who].exited:  # what was received of it since is from before
                    continue
                found[who] = found[who]._replace(last_ns=max(found[who].last_ns, self.through[node]))
        return found

    def has_rank(self, rank: int) -> bool:
        """Whether a batch that was kept contains this rank: ids are given out before that."""
        return rank in self._ranks

    def of(self, ranks: Collection[int]) -> dict[Incarnation, Lifetime]:
        """The lifetimes of the processes of some ranks."""
        return {who: lifetime for who, lifetime in self.now().items() if who.rank in ranks}

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """All processes that ever were one of these ranks."""
        return [who for who in list(self._lifetimes) if who.rank in ranks]


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
