"""Who takes part in jobs, and since and until when: lives of incarnations, as batches tell them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ingest.decode import Decoded
from ...records import Incarnation
from .catalog import Life


class LifeBook:
    """All incarnations ever heard of. The caller sees to it that one thread at a time writes."""

    def __init__(self, known: dict[Incarnation, Life], ranks: Iterable[int]) -> None:
        """known, ranks: what the catalog has of earlier batches; ranks also those no agent watches."""
        self._lives = known
        self._heard = set(ranks)
        self._present: dict[int, list[Incarnation]] = {}  # node -> its ranks in the newest batch
        # node -> node time it has reported up to
        self.through: dict[int, int] = {}
        for who, life in known.items():
            self.through[who.node] = max(life.last_ns, self.through.get(who.node, 0))

    def take(self, node: int, decoded: Decoded) -> None:
        """A batch of a node has come."""
        if decoded.incarnations is not self._present.get(node):
            self._lives = self.now()
            self._present[node] = decoded.incarnations
            self._heard.update(decoded.ranks)
            for who in decoded.incarnations:
                self._lives.setdefault(who, Life(decoded.begin_ns, decoded.end_ns, False))
        for who in decoded.exited:
            life = self._lives.get(who, Life(decoded.begin_ns, decoded.end_ns, True))
            self._lives[who] = life._replace(exited=True)
        self.through[node] = max(decoded.end_ns, self.through.get(node, 0))

    def now(self) -> dict[Incarnation, Life]:
        """Everyone's life; of those present it lasts until their node's newest batch."""
        lives = dict(self._lives)
        for node, present in self._present.items():
            for who in present:
                lives[who] = lives[who]._replace(last_ns=max(lives[who].last_ns, self.through[node]))
        return lives

    def has_heard(self, rank: int) -> bool:
        """Whether a batch that was kept spoke of this rank: it has a number before that."""
        return rank in self._heard

    def of(self, ranks: Collection[int]) -> dict[Incarnation, Life]:
        """The lives of some ranks, by their numbers."""
        return {who: life for who, life in self.now().items() if who.rank in ranks}

    def members(self, ranks: Collection[int]) -> list[Incarnation]:
        """Who ever was one of these ranks."""
        return [who for who in self._lives if who.rank in ranks]


def changed(lives: dict[Incarnation, Life], batches: Iterable[Decoded]) -> dict[Incarnation, Life]:
    """The lives that batches tell something of."""
    told = list(batches)
    lists = {id(d.incarnations): d.incarnations for d in told}
    seen = {who for present in lists.values() for who in present}
    seen |= {who for decoded in told for who in decoded.exited}
    return {who: lives[who] for who in seen}
