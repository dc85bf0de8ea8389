"""PyTorch: when optimizers take turns, after which of their updates a step of the training is over.

Pure logic. A round lasts until an optimizer that had its turn in it would have another one: of a GAN both
optimizers; of five updates of a critic for one of a generator the last of the five with the generator's.
While it isn't known which optimizer comes next, a border is held back until it has come; as soon as the turns
repeat themselves, the border is known at once.
"""

from __future__ import annotations

import weakref
from typing import Any, List, Optional, Set

LONGEST = 64  # turns after which optimizers may start again
SURE = 16  # turns that must have repeated themselves, at least


class Turns:
    """Turns of optimizers; each has a key of its own, such as its id()."""

    __slots__ = ("_made", "_period", "_repeated", "_turns", "alone", "round", "stepped")

    def __init__(self) -> None:
        self._made: Any = weakref.WeakSet()
        self.reset()

    def reset(self) -> None:
        """Forget all turns."""
        self.alone: Optional[int] = None  # the only optimizer there is
        self._turns: List[int] = []
        self._period = 0  # turns until they repeat themselves; 0: not known
        self._repeated = 0  # turns that have
        self.round: Set[int] = set()
        self.stepped: Set[int] = set()  # those that have had a turn

    def made(self, optimizer: Any) -> None:
        """An optimizer was made, which may take part."""
        self._made.add(optimizer)
        self.alone = None
        self.stepped.discard(id(optimizer))  # that was one that is no more

    def knows(self, optimizer: Any) -> bool:
        """Whether it was made() and is no part()."""
        return optimizer in self._made

    def part(self, optimizer: Any) -> None:
        """This optimizer is called by another one: it has no turns."""
        self._made.discard(optimizer)

    def any_made(self) -> bool:
        """Whether there is an optimizer."""
        return len(self._made) > 0

    def parameters(self) -> List[Any]:
        """What the optimizers update, each once."""
        groups = [group for made in self._made for group in getattr(made, "param_groups", ())]
        return list({id(one): one for group in groups for one in group["params"]}.values())

    def again(self, key: int) -> bool:
        """Whether this optimizer has had its turn in the round: it is over before the update that begins."""
        return key in self.round

    def ended(self, key: int) -> bool:
        """Whether the round is over with the update of this optimizer, which is not `alone`; False: it may go
        on, or not."""
        self._turn(key)
        self.round.add(key)
        if self._repeated >= max(SURE, 2 * self._period):
            return self._turns[-self._period] in self.round
        if len(self._made) < 2 and len(self.round) == 1:
            self.alone = key
            return True
        return False

    def takes_part(self, key: int) -> bool:
        """Whether this optimizer, which made an update, has had a turn, or there is no other that could."""
        return key == self.alone or key in self.stepped or (not self.stepped and len(self._made) == 1)

    def over(self) -> None:
        """The border was sent: another round begins."""
        self.round.clear()

    def _turn(self, key: int) -> None:
        turns = self._turns
        turns.append(key)
        self.stepped.add(key)
        if self._period and turns[-1 - self._period] == key:
            self._repeated += 1
        else:
            self._period, self._repeated = self._find_period(), 0
        if len(turns) > 4 * LONGEST:
            del turns[: -2 * LONGEST]

    def _find_period(self) -> int:
        turns = self._turns
        for period in range(1, min(LONGEST, len(turns) // 2) + 1):
            if turns[-period:] == turns[-2 * period : -period]:
                return period
        return 0
