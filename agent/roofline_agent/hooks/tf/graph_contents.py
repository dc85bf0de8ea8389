"""What was put into the graph of a training function while it was traced: gradients, and batches taken.

A loop or condition of the graph is traced once, however often it will run.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, Optional, Set, Tuple

REPEATED = ("While", "Cond")  # in the names of the types of graphs that run several times, or not at all
PRODUCTS = ("MatMul", "BatchMatMulV2", "Conv2D", "Conv1D", "Conv3D", "Einsum", "ResourceGather", "GatherV2")
ATTRIBUTE = "_roofline_contents"  # of a graph that has some
ROOF = 64  # graphs inside one another, at most


class _Traced:
    """What was found in functions while they were traced; a call that changes `count` has traced one."""

    gradients = 0  # with respect to variables
    count = 0  # of these, and of calls of optimizers
    graph: Any = None  # of the outermost function that the newest was found in, until that is learned


traced = _Traced()


class GraphContents:
    """What is in one outermost graph."""

    def __init__(self) -> None:
        self.gradients, self.repeated = 0, False  # of the first variable; whether some are in a loop
        self.updates = False  # an optimizer updates in it
        self.fetched = False  # it takes batches itself
        self.once: Optional[int] = 0  # examples that it takes outside of loops; None: not known
        self.each: Optional[int] = 0  # in one round of a loop
        self.sizes: Dict[int, int] = {}  # bytes of the gradients that one call takes, by variable
        self._first: Optional[int] = None
        self._inner: Any = lambda: None  # the graph that the newest gradient was taken in, weakly

    def gradient(self, variable: Any, repeated: bool, inner: Any = None) -> None:
        """One was taken with respect to this variable and perhaps others."""
        self._first = id(variable) if self._first is None else self._first
        if self._first == id(variable):
            self.gradients += 1
            self.repeated = self.repeated or repeated
        if inner is not None:
            self._inner = weakref.ref(inner)

    def fetch(self, size: Optional[int], repeated: bool) -> None:
        """A batch of `size` examples is taken here."""
        self.fetched = True
        if repeated:
            self.each = None if self.each is None or size is None else self.each + size
        else:
            self.once = None if self.once is None or size is None else self.once + size

    def examples(self, updates: int) -> Optional[int]:
        """Examples of a call with so many updates, if it takes its batches itself: one round of a loop is
        one."""
        if self.once is None or self.each is None:
            return None
        return self.once + updates * self.each

    def batches_computed(self) -> FrozenSet[int]:
        """First dimensions of what layers compute where the gradient is taken."""
        graph = self._inner()
        found: Set[int] = set()
        for operation in graph.get_operations() if graph is not None else ():
            if operation.type in PRODUCTS:
                shape = operation.outputs[0].shape
                if shape.rank and shape[0] is not None:
                    found.add(int(shape[0]))
        return frozenset(found)


def outermost(graph: Any) -> Tuple[Any, bool]:
    """The graph of the outermost function, and whether what is in `graph` runs in a loop or condition of it:
    each graph knows the one that it is traced in."""
    repeated = False
    for _ in range(ROOF):
        repeated = repeated or any(word in type(graph).__name__ for word in REPEATED)
        outer = getattr(graph, "outer_graph", None)
        if not hasattr(outer, "outer_graph"):
            break
        graph = outer
    return graph, repeated


def contents_of(graph: Any) -> GraphContents:
    """What is known of an outermost graph."""
    found = getattr(graph, ATTRIBUTE, None)
    if isinstance(found, GraphContents):
        return found
    made = GraphContents()
    setattr(graph, ATTRIBUTE, made)
    return made
