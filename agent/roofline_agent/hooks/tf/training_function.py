"""A tf.function that trains: how many updates and examples each of its calls has, and which calls are alike.

An example is what one update is computed from: a batch that several updates are made with counts as often.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Dict, FrozenSet, Hashable, List, NamedTuple, Optional, Tuple, Union

from .. import Marker
from ..signals import raise_again
from .accumulation import Accumulation
from .calls import TrainingCall
from .calm import NEVER, CalmCalls, CalmFunction
from .eager import OPTIMIZER
from .graph_contents import GraphContents, contents_of
from .iterators import Yields, weakly
from .steps import steps
from .updates import UpdatesElsewhere, UpdatesOfCalls, counters

EAGER = "EagerTensor"
PLAIN = (int, bool, str, bytes, type(None))
MOST_KINDS = 256  # of calls, by what their arguments are
UNKNOWN = "unknown"  # in place of a shape that may change from call to call unseen
_numbers = count()


class _KindOfCall(NamedTuple):
    """Calls with the same arguments and updates."""

    examples: Optional[int]
    signature: Hashable


class TrainingFunction(CalmFunction):
    """One function."""

    def __init__(self, before: Dict[int, int], function: Any = None, marker: Optional[Marker] = None) -> None:
        """before: values of the optimizers' counters when it was called for the first time. function: the
        tf.function, whose steps go to this marker where they are calm."""
        self._before = before
        self._function, self._marker = weakly(function), marker
        self._number = next(_numbers)
        self._newest = GraphContents()
        self._contents: Dict[Hashable, GraphContents] = {}  # by the arguments of the calls that run it
        self._kinds: Dict[Hashable, _KindOfCall] = {}
        self._updates: Union[UpdatesOfCalls, UpdatesElsewhere, None] = None
        self._accumulation = Accumulation(None)

    def learn(self, graph: Any) -> None:
        """Take in the graph of a function that was traced, perhaps again."""
        self._newest = contents_of(graph)
        if self._updates is None:
            self._updates = self._counting(graph)

    def _counting(self, graph: Any) -> Union[UpdatesOfCalls, UpdatesElsewhere]:
        contents, chosen = self._newest, None
        # The counters that have moved; of several optimizers, as in a GAN, the one with the fewest updates.
        for one in counters.captured(graph):
            before = self._before.get(id(one), 0)
            moved = (one.read() or 0) - before
            key = (moved <= 0, moved)
            if chosen is None or key < chosen[0]:
                chosen = (key, one, before)
        if chosen is None:
            gradients = 1 if contents.repeated else max(1, contents.gradients)
            if not contents.updates and counters.alive():
                return UpdatesElsewhere(gradients)
            return UpdatesOfCalls(None, 0, gradients, contents.repeated)
        self._accumulation = Accumulation(chosen[1].optimizer(), chosen[2])
        return UpdatesOfCalls(chosen[1], chosen[2], max(1, contents.gradients), contents.repeated)

    def call(self, begin_ns: int, end_ns: int, arguments: Any) -> TrainingCall:
        """A call with these arguments ended."""
        return self._called(begin_ns, end_ns, *_described(arguments))

    def note(self, calm: CalmCalls, begin_ns: int, end_ns: int, arguments: Any) -> bool:
        """A call with these arguments ended, a calm step; whether there may be more to do behind it."""
        size, key = _described(arguments)
        return calm.add((self, begin_ns, end_ns, size, key, calm.take_batches()))

    def calm_calls(self) -> int:
        updates = self._updates
        if self._marker is None or self._accumulation.each > 1:
            return 0
        return updates.calm_calls() if updates is not None else NEVER

    def work_out(self, noted: List[Any]) -> None:
        marker = self._marker
        if marker is None:
            return
        try:
            calls = [self._called(*one[:4]) for one in noted]
            inputs = [one[4] for one in noted]
            counts = [one[5] if len(one) > 5 else None for one in noted]
            steps.were_ended(marker, self._function(), calls, counts, inputs if any(inputs) else ())
        except Exception:
            marker.failed("tf_function")

    def _called(
        self, begin_ns: int, end_ns: int, size: Optional[int], key: Tuple[Hashable, ...]
    ) -> TrainingCall:
        gradients = 1 if self._updates is None else self._updates.made(end_ns - begin_ns)
        updates = self._accumulation.updates(gradients)
        kind = self._kinds.get((key, gradients))
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
                self._contents.clear()
            kind = self._kinds[key, gradients] = self._kind(size, key, gradients)
        return TrainingCall(begin_ns, end_ns, kind.examples, "phase.call", None, updates, kind.signature)

    def _kind(self, size: Optional[int], key: Tuple[Hashable, ...], updates: int) -> _KindOfCall:
        contents = self._contents.setdefault(key, self._newest)
        if contents.fetched:
            known = contents.examples(updates)
            size = known if known is not None or updates != 1 else size
        elif updates > 1 and size is not None:
            size = _of_several(size, updates, contents.batches_computed())
        return _KindOfCall(size, None if UNKNOWN in key else (self._number, key))


class UpdatingFunction:
    """A function that calls an optimizer with gradients that others have taken."""

    def __init__(self) -> None:
        self._signature = ("updates", next(_numbers))

    def call(self, begin_ns: int, end_ns: int, arguments: Any) -> TrainingCall:
        """A call ended."""
        return TrainingCall(begin_ns, end_ns, 0, OPTIMIZER, None, 1, self._signature, only_updates=True)


def _of_several(size: int, updates: int, computed: FrozenSet[int]) -> Optional[int]:
    """Examples of several updates with arguments of `size` rows: all of them every time, or a part. computed:
    sizes of batches that layers compute with."""
    if size in computed:
        return size * updates
    if size % updates == 0 and size // updates in computed:
        return size
    return None


def _described(arguments: Any) -> Tuple[Optional[int], Tuple[Hashable, ...]]:
    try:
        return describe(arguments)
    except Exception:  # it is a step all the same
        raise_again()
        return None, (UNKNOWN,)


def describe(arguments: Any) -> Tuple[Optional[int], Tuple[Hashable, ...]]:
    """The examples in arguments or in a batch (the first dimension of the first tensor that has one, or what
    an iterator yields), and what of them decides how much work they are."""
    key: List[Hashable] = []
    return _describe(arguments, key), tuple(key)


def _describe(arguments: Any, key: List[Hashable]) -> Optional[int]:
    found: Optional[int] = None
    for argument in arguments:
        if type(argument).__name__ == EAGER:
            shape = argument._shape_tuple()  # private, and twenty times as fast as `shape`
            key.append(shape)
            if found is None and shape:
                found = int(shape[0])
        elif type(argument) in PLAIN:
            key.append(argument)
        else:
            size = _describe_other(argument, key)
            found = size if found is None else found
    return found


_yields = Yields()


def _describe_other(argument: Any, key: List[Hashable]) -> Optional[int]:
    if isinstance(argument, dict):
        return _describe(argument.values(), key)
    if isinstance(argument, (list, tuple)):
        return _describe(argument, key)
    if hasattr(argument, "__next__"):
        size, fixed = _yields.by(argument)
        key.append(size if fixed else UNKNOWN)
        return size
    if hasattr(argument, "trainable"):  # a variable or a layer
        key.append(None)
        return None
    values = getattr(argument, "_values", None)  # a value per replica of this process
    if isinstance(values, (list, tuple)):
        sizes = [_describe((value,), key) for value in values]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    shape = getattr(argument, "shape", None)
    key.append(tuple(shape) if shape else None)
    return int(shape[0]) if shape else None
