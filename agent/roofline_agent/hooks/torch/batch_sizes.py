"""PyTorch: how many examples are in a batch, and of which shapes: by its tensors, whatever lists and mappings
they lie in. Imports no torch.
"""

from __future__ import annotations

from collections import Counter, UserDict
from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Dict, Hashable, Iterable, List, Optional, Sequence, Tuple

from ..signals import raise_again

MOST_SHAPES = 64  # of one batch
MOST_CELLS = 512  # of lists in a batch that are compared
MOST_KNOWN = 1024  # shapes of whole batches

shape_of = attrgetter("shape")


class BatchSizes:
    """How many examples are in a batch, and of which shapes (examples_in, shapes_in). Most batches are lists
    or mappings of tensors and like the last one, or one before, and looked up."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Dict[Hashable, Tuple[Optional[int], Optional[int]]] = {}

    def of(self, batch: Any) -> Tuple[Optional[int], Optional[int]]:
        return self.known(self.noted(batch))

    def noted(self, batch: Any) -> Any:
        """What is noted of a batch, to be known() later. Raises nothing: the training takes batches here."""
        try:
            kind = type(batch)
            if kind is list or kind is tuple:
                return list(map(shape_of, batch))
            if kind is dict or isinstance(batch, UserDict):  # as those of transformers
                return list(map(shape_of, batch.values()))
        except AttributeError:  # something in it is no tensor
            pass
        except Exception:
            raise_again()
        try:
            return examples_in(batch), shapes_in(batch)
        except Exception:  # asked for its shape a nested tensor raises
            raise_again()
            return None, None

    def known(self, noted: Any) -> Tuple[Optional[int], Optional[int]]:
        """Of what was noted of a batch: these two, or the list of its tensors' shapes."""
        try:
            return self.of_shapes(noted) if type(noted) is list else noted
        except Exception:  # something with a shape that is none
            raise_again()
            return None, None

    def of_shapes(self, shapes: Sequence[Any]) -> Tuple[Optional[int], Optional[int]]:
        """What is known of a batch that is a list of tensors with these shapes."""
        key = tuple(shapes)
        found = self._known.get(key)
        if found is None:
            found = _first_dimension(key), hash(key)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found


def examples_in(batch: Any, depth: int = 4) -> Optional[int]:
    """How many examples are in a batch of nested lists and mappings: the first dimension of most of its
    outermost tensors, or in lists of one length this length. None: unknown."""
    if not isinstance(batch, (list, tuple)):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        if not isinstance(batch, Mapping):
            return None
        batch = batch.values()
    elif hasattr(batch, "batch_sizes"):  # a PackedSequence: all lengths in one tensor
        return int(batch.batch_sizes[0])
    if depth == 0:
        return None
    parts = list(batch)
    shapes = [shape for shape in [getattr(part, "shape", None) for part in parts] if shape is not None]
    found = _first_dimension(shapes)
    if found is not None or any(map(len, shapes)):
        return found
    if len(parts) > 1 and {type(part) for part in parts} <= {list, tuple} and len({*map(len, parts)}) == 1:
        return _examples_in_table(parts)
    for part in parts:
        size = examples_in(part, depth - 1)
        if size is not None:
            return size
    return None


def _first_dimension(shapes: Sequence[Any]) -> Optional[int]:
    """The first dimension of most of these, at least of two if they differ."""
    sizes = [int(shape[0]) for shape in shapes if len(shape)]
    if not sizes or sizes.count(sizes[0]) == len(sizes):
        return sizes[0] if sizes else None
    size, times = Counter(sizes).most_common(1)[0]
    return size if times > 1 else None


def _examples_in_table(rows: Sequence[Sequence[Any]]) -> Optional[int]:
    """Of lists of one length: of tensors of batches, or one for each example, or for each of its parts."""
    if not 0 < len(rows) * len(rows[0]) <= MOST_CELLS:
        return None
    shapes = [getattr(cell, "shape", None) for row in rows for cell in row]
    if all(shapes) and len({shape[0] for shape in shapes if shape}) == 1:
        return int(rows[0][0].shape[0])
    by_example = all(map(_are_alike, zip(*rows)))  # noqa: B905 - Python 3.8
    by_part = all(map(_are_alike, rows))
    if by_example == by_part:
        return None
    return len(rows) if by_example else len(rows[0])


def _are_alike(cells: Iterable[Any]) -> bool:
    return len({(type(cell), len(getattr(cell, "shape", ()))) for cell in cells}) == 1


def examples_in_call(args: Sequence[Any], kwargs: Mapping[str, Any] = MappingProxyType({})) -> Optional[int]:
    """Examples in the first argument that has any: masks and the like come behind it."""
    sizes = map(examples_in, [*args, *kwargs.values()])
    return next((size for size in sizes if size is not None), None)


def shapes_in(batch: Any) -> Optional[int]:
    """A number for the shapes of all tensors in a batch, in order; None if it holds anything else that may
    differ in size."""
    try:
        kind = type(batch)
        if kind is list or kind is tuple:  # as most are
            return hash(tuple([tensor.shape for tensor in batch]))
        if kind is dict:
            return hash(tuple([tensor.shape for tensor in batch.values()]))
    except AttributeError:
        pass  # not of tensors alone: looked through below
    except Exception:
        raise_again()
    found: List[Hashable] = []
    return hash(tuple(found)) if _all_shapes(batch, found, 4) else None


def _all_shapes(part: Any, found: List[Hashable], depth: int) -> bool:
    shape = getattr(part, "shape", None)
    if shape is not None:
        found.append(tuple(shape))
        return len(found) <= MOST_SHAPES
    if part is None or isinstance(part, (int, float, str)):
        return True
    if isinstance(part, Mapping):
        part = list(part.values())
    if not isinstance(part, (list, tuple)) or depth == 0 or len(part) > MOST_SHAPES:
        return False
    found.append(len(part))
    return all(_all_shapes(one, found, depth - 1) for one in part)
