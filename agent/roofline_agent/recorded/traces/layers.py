"""Which layer of the model operators of a PyTorch trace belong to, by the ranges that our hooks put into it.

A forward operator is of the innermost module that was being called on its thread (hooks/torch/layers.py). A
node of the backward graph has the sequence number of the forward operator that made it, so what runs in it is
of the same layer. A node that adds a gradient to a parameter's has no number: it is of GRADIENTS.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...hooks.torch.layer_ranges import LAYER

OPTIMIZER, GRADIENTS = "(optimizer)", "(gradients)"  # what is no layer of the model
_UPDATES = ("Optimizer.step#", "Optimizer.zero_grad#")
_NODE, _ACCUMULATES = "autograd::engine::evaluate_function: ", "AccumulateGrad"
_NO_PLACE = ("", 0.0)
_NEVER = (float("-inf"), "")  # times count from the first event of the file, which need not be the earliest


class _Range(NamedTuple):
    begin_us: float
    end_us: float
    layer: str


class _Node(NamedTuple):
    """One of the backward graph. number: of the operator that made it, -1 for none."""

    thread: str
    begin_us: float
    end_us: float
    number: int
    is_gradient: bool


class TracedLayers:
    """The layers of one trace. `of` and `of_launch` know all once `settle` was called behind the last
    event."""

    def __init__(self) -> None:
        self._ranges: dict[str, list[_Range]] = {}  # by thread
        self._nodes: list[_Node] = []
        self._makers: dict[int, tuple[float, str]] = {}  # number -> begin and thread of the last to have it
        self._launches: dict[int, tuple[str, float]] = {}  # correlation -> thread and time
        self._borders: dict[str, tuple[list[float], list[str]]] = {}  # by thread: from when on which layer

    def annotation(self, thread: str, at_us: float, duration_us: float, name: str) -> None:
        """A range that Python put into the trace."""
        if name.startswith(LAYER):
            layer = name.removeprefix(LAYER)
        elif name.startswith(_UPDATES):
            layer = OPTIMIZER
        else:
            return
        self._ranges.setdefault(thread, []).append(_Range(at_us, at_us + duration_us, layer))

    def operator(
        self, thread: str, at_us: float, duration_us: float, name: str, args: dict[str, Any]
    ) -> None:
        number = args.get("Sequence number")
        number = number if isinstance(number, int) else -1
        if name.startswith(_NODE):
            node = _Node(thread, at_us, at_us + duration_us, number, name.endswith(_ACCUMULATES))
            self._nodes.append(node)
        elif number >= 0 and not args.get("Fwd thread id"):
            # Operators that make no node leave the number to the next one: the last of them made it.
            self._makers[number] = max(self._makers.get(number, _NEVER), (at_us, thread))

    def launched(self, correlation: object, thread: str, at_us: float) -> None:
        """A call of a GPU's runtime."""
        if isinstance(correlation, int):
            self._launches[correlation] = thread, at_us

    def settle(self) -> None:
        self._settle()
        for node in self._nodes:
            layer = GRADIENTS if node.is_gradient else self._of_maker(node.number)
            if layer:
                self._ranges.setdefault(node.thread, []).append(_Range(node.begin_us, node.end_us, layer))
        self._nodes.clear()
        self._settle()

    def _settle(self) -> None:
        self._borders = {thread: _borders(ranges) for thread, ranges in self._ranges.items()}

    def _of_maker(self, number: int) -> str:
        at_us, thread = self._makers.get(number, _NEVER)
        return self.of(thread, at_us)

    def of(self, thread: str, at_us: float) -> str:
        """What a thread was at; "": at no layer."""
        times, layers = self._borders.get(thread, ((), ()))
        at = bisect_right(times, at_us) - 1
        return layers[at] if at >= 0 else ""

    def of_launch(self, correlation: int) -> str:
        """What the kernel with this correlation was launched for."""
        thread, at_us = self._launches.get(correlation, _NO_PLACE)
        return self.of(thread, at_us)


def _borders(ranges: Iterable[_Range]) -> tuple[list[float], list[str]]:
    """From when on which layer, of ranges of one thread that lie within one another or apart."""
    found: list[tuple[float, str]] = []
    inside: list[_Range] = []

    def leave(until_us: float) -> None:
        while inside and inside[-1].end_us <= until_us:
            end_us = inside.pop().end_us
            found.append((end_us, inside[-1].layer if inside else ""))

    for one in sorted(ranges, key=lambda one: (one.begin_us, -one.end_us)):
        leave(one.begin_us)
        inside.append(one)
        found.append((one.begin_us, one.layer))
    leave(float("inf"))
    return [at_us for at_us, _ in found], [layer for _, layer in found]
