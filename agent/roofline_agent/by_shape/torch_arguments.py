"""Arguments of one call of a PyTorch operator, as its profiler and its dispatcher show them."""

from __future__ import annotations

import re
from math import prod
from typing import Any, Callable, NamedTuple, Sequence  # noqa: UP035  # hooks may import this on Python 3.8

from .work import ShapeWork


class Arguments(NamedTuple):
    """Of one call, an entry for each parameter: the shape of a tensor ([] for anything else), shapes of a
    list of tensors; its type ("float", "Scalar", "TensorList"); the value of a scalar as text, "" unknown;
    its strides, [] of what has none; no strides at all where they are not recorded."""

    shapes: Sequence[Any]
    types: Sequence[str]
    values: Sequence[str] = ()
    strides: Sequence[Any] = ()

    def shape(self, at: int) -> Sequence[int]:
        """() where it is no tensor."""
        found = self.shapes[at] if at < len(self.shapes) else ()
        return found if isinstance(found, (list, tuple)) and all(type(n) is int for n in found) else ()

    def kind(self, at: int) -> str:
        """Its type, "" for what is not given."""
        return str(self.types[at]) if at < len(self.types) else ""

    def is_sparse(self, at: int) -> bool:
        """A sparse tensor has a shape and no strides."""
        return bool(self.shape(at)) and at < len(self.strides) and not self.strides[at]

    def elements(self, at: int) -> int:
        """How many elements a tensor has in memory, 0 of what is none: along strides of 0 there is one
        alone."""
        shape, strides = self.shape(at), self.strides[at] if at < len(self.strides) else ()
        if len(strides) == len(shape):
            shape = [size for size, stride in zip(shape, strides) if stride]  # noqa: B905  # Python 3.8
        return prod(shape) if self.shape(at) else 0

    def value(self, at: int) -> str:
        return str(self.values[at]) if at < len(self.values) else ""

    def flag(self, at: int) -> bool | None:
        return {"True": True, "False": False}.get(self.value(at))

    def numbers(self, at: int) -> list[int]:
        """A list of numbers, or one number; [] where it is not recorded."""
        return [int(one) for one in re.findall(r"-?\d{1,9}", self.value(at))]


Formula = Callable[[Arguments], "ShapeWork | None"]
