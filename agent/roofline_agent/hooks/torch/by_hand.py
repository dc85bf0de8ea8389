"""PyTorch without an optimizer: which backward passes belong to one update that the training makes by hand.

An update is seen where a leaf of the graph has changed: `with torch.no_grad(): p -= rate * p.grad` changes
its version, and gradients are dropped or zeroed before the next backward. Where the leaf is changed with
gradients off, the step is over at the end of that; else the next backward shows that it was over, and the
border is at the end of the backward before. Nothing is marked until a few updates were seen and no optimizer.
"""

from __future__ import annotations

import weakref
from typing import Any, List, Optional, Set, Tuple

from .phases import OPTIMIZER

SEEN_BY = "steps.seen_by"  # the fact that says so where it isn't optimizers all the time
UNSURE = 3  # updates before it is believed that there will be no optimizer
MOST_NODES = 5000  # of a graph that are looked through for a leaf


class ByHand:
    """Follows one leaf."""

    def __init__(self, record: Any) -> None:
        self._record = record
        self._leaf: Any = lambda: None
        self._state: Any = None  # of the leaf when the last backward ended
        self._ended: Optional[int] = None  # when it did, as long as no update was seen after it
        self._updates = 0

    def begins(self) -> None:
        """A backward begins."""
        if self._ended is not None and self._changed():
            self._over(self._ended)

    def ended(self, now: int, roots: Any) -> None:
        """A backward is over."""
        if self._leaf() is None:
            self._leaf = _leaf_of(roots)
        self._state, self._ended = _state(self._leaf()), now

    def without_gradients(self, begin: int, end: int) -> None:
        """Gradients were off."""
        leaf = self._leaf()
        if self._ended is not None and leaf is not None and leaf._version != self._state[0]:
            record = self._record
            # Meanwhile the work of an optimizer was done.
            if not record.times or record.times[-1] <= begin:
                record.enter(OPTIMIZER, begin)
                record.leave(end)
            self._over(end)

    def finish(self) -> None:
        """No backward will follow."""
        if self._updates >= UNSURE:
            self.begins()

    def _changed(self) -> bool:
        # Of a leaf that is gone, or unknown, nothing can be seen: each backward is taken for an update.
        return self._leaf() is None or _state(self._leaf()) != self._state

    def _over(self, now: int) -> None:
        self._ended = None
        self._updates += 1
        borders = self._record.borders
        borders.hold_another(now)
        if self._updates > UNSURE:
            if len(borders.uncertain) > 1:
                self._record.fact(SEEN_BY, "backward")
            borders.commit()


def _state(leaf: Any) -> Optional[Tuple[int, Optional[int]]]:
    """What changes with an update, or when the gradients are dropped or zeroed."""
    if leaf is None:
        return None
    gradient = leaf.grad
    return leaf._version, None if gradient is None else gradient._version


def _leaf_of(roots: Any) -> Any:
    """A weak reference to a parameter that this graph leads to, else to any leaf."""
    waiting: List[Any] = [
        root.grad_fn for root in (roots if isinstance(roots, (list, tuple)) else [roots]) if root is not None
    ]
    seen: Set[Any] = set()
    found = None
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found = leaf
            if type(leaf).__name__ == "Parameter":
                break
        waiting += [one for one, _ in node.next_functions]
    return (lambda: None) if found is None else weakref.ref(found)
