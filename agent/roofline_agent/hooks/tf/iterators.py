"""How many examples an iterator of a dataset yields at once, from its static shapes."""

from __future__ import annotations

import weakref
from typing import Any, Optional, Tuple

from ..signals import raise_again


def yielded_by(iterator: Any) -> Optional[int]:
    """Examples that this process takes from an iterator at once, by its static shapes."""
    own = getattr(iterator, "_iterators", None)  # of a distributed iterator: those of this process
    if not isinstance(own, (list, tuple)):
        return batch_size(iterator)
    sizes = [_for_all_replicas(one) for one in own]
    return None if None in sizes or not sizes else sum(size for size in sizes if size is not None)


def _for_all_replicas(iterator: Any) -> Optional[int]:
    """Of an iterator that yields a batch for each of its devices: its spec is that of one batch."""
    size, devices = batch_size(iterator), getattr(iterator, "_devices", None)
    return size * len(devices) if size is not None and isinstance(devices, (list, tuple)) else size


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


def weakly(thing: Any) -> Any:
    """A weak reference; to what can have none (None, a number) one that is dead already."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: None


class Yields:
    """What the iterator that is used now yields: looked up once."""

    def __init__(self) -> None:
        self._of: Any = lambda: None  # weakly
        self._known: Tuple[Optional[int], bool] = (None, False)

    def by(self, iterator: Any) -> Tuple[Optional[int], bool]:
        """(examples at once, as `yielded_by`; whether their shapes stay the same, as `alike`)."""
        if self._of() is not iterator or iterator is None:
            self._known = yielded_by(iterator), alike(iterator)
            self._of = weakly(iterator)
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
        raise_again()
        return False


def _first_dimension(spec: Any) -> Optional[int]:
    if isinstance(spec, dict):
        spec = list(spec.values())
    if isinstance(spec, (tuple, list)):
        return _first_dimension(spec[0]) if spec else None
    try:
        size = spec.shape[0]
    except Exception:
        raise_again()
        return None
    size = getattr(size, "value", size)
    return size if isinstance(size, int) else None
