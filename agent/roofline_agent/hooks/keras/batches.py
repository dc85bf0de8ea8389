"""How many examples a step has: from static shapes, or in Keras `fit` from the arrays it cuts into batches.

The last batch of arrays may be smaller, so their dataset has no static batch size; the adapter that cuts them
knows it. Keras 2 keeps it in a data handler, Keras 3 in an epoch iterator, both made anew in every `fit`.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, Optional, Tuple


class BatchCut(NamedTuple):
    """Arrays cut into batches of one size, but for the last."""

    batch: int
    last: int
    batches: int

    def examples(self, first: int, count: int) -> int:
        """Examples in `count` batches from the first-th on; the arrays come again and again."""
        lasts = (first + count) // self.batches - first // self.batches
        return count * self.batch - lasts * (self.batch - self.last)


def cut_of(adapter: Any) -> Optional[BatchCut]:
    """How a Keras data adapter cuts its arrays; None where it does not know."""
    try:
        batch = _ask(adapter, "batch_size")
        batches = _ask(adapter, "get_size") if hasattr(adapter, "get_size") else _ask(adapter, "num_batches")
        if not batch or not batches:
            return None
        partial = _ask(adapter, "partial_batch_size") if _ask(adapter, "has_partial_batch") else None
        return BatchCut(int(batch), int(partial or batch), int(batches))
    except Exception:
        return None


def _ask(adapter: Any, name: str) -> Any:
    value = getattr(adapter, name)
    return value() if callable(value) else value


def yielded_by(iterator: Any) -> Optional[int]:
    """Examples that this process takes from an iterator at once, by its static shapes."""
    own = getattr(iterator, "_iterators", None)  # of a distributed iterator: those of this process
    if not isinstance(own, (list, tuple)):
        return batch_size(iterator)
    sizes = [batch_size(one) for one in own]
    return None if None in sizes or not sizes else sum(size for size in sizes if size is not None)


def batch_size(thing: Any) -> Optional[int]:
    """Examples a dataset iterator yields at once, from its element spec; None when that is not static.

    thing: an iterator, or a TensorFlow composite with a type spec.
    """
    for path in (("_type_spec", "_element_spec"), ("_element_spec",), ("element_spec",)):
        spec = thing
        for name in path:
            spec = getattr(spec, name, None)
        if spec is not None:
            return _first_dimension(spec)
    return None


class Yields:
    """What the iterator that is used now yields: looked up once."""

    def __init__(self) -> None:
        self._of: Any = lambda: None  # weakly
        self._known: Tuple[Optional[int], bool] = (None, False)

    def by(self, iterator: Any) -> Tuple[Optional[int], bool]:
        """(examples at once, as `yielded_by`; whether their shapes stay the same, as `alike`)."""
        if self._of() is not iterator or iterator is None:
            self._known = yielded_by(iterator), alike(iterator)
            try:
                self._of = weakref.ref(iterator)
            except TypeError:
                self._of = lambda: None
        return self._known


def alike(iterator: Any) -> bool:
    """Whether all that it yields has the same shapes, but for the number of examples."""
    own = getattr(iterator, "_iterators", None)
    for one in own if isinstance(own, (list, tuple)) else (iterator,):
        spec = getattr(one, "_element_spec", None)
        spec = getattr(one, "element_spec", None) if spec is None else spec
        if spec is None or not _is_fixed(spec):
            return False
    return True


def _is_fixed(spec: Any) -> bool:
    if isinstance(spec, dict):
        spec = list(spec.values())
    if isinstance(spec, (tuple, list)):
        return all(_is_fixed(one) for one in spec)
    try:
        return None not in list(spec.shape)[1:]
    except Exception:
        return False


def _first_dimension(spec: Any) -> Optional[int]:
    if isinstance(spec, dict):
        spec = list(spec.values())
    if isinstance(spec, (tuple, list)):
        return _first_dimension(spec[0]) if spec else None
    try:
        size = spec.shape[0]
    except Exception:
        return None
    size = getattr(size, "value", size)
    return size if isinstance(size, int) else None
