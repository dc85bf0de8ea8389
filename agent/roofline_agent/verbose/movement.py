"""Primitives that only move data: no FLOPs, and every element read once and written once."""

from __future__ import annotations

from math import prod

from .primitive import Primitive, PrimitiveWork
from .sizes import extents, shape
from .traffic import traffic


def copy(primitive: Primitive) -> PrimitiveWork:
    """A reorder, or the packing of a matrix."""
    sizes = shape(primitive.problem)
    if not sizes:
        return PrimitiveWork(0, None)
    elements = prod(sizes)
    return PrimitiveWork(0, traffic(primitive, {"src": elements, "dst": elements}, sizes))


def concat(primitive: Primitive) -> PrimitiveWork:
    """`2x3:2x5` lists the sources (since 1.2), `2x8` the result (before)."""
    parts = [extents(part) for part in primitive.problem.split(":")]
    ends = {tensor.role: tensor for tensor in primitive.tensors if tensor.role in ("src", "dst")}
    if not all(parts) or len(ends) != 2:
        return PrimitiveWork(0, None)
    elements = sum(prod(part) for part in parts)
    whole = primitive._replace(tensors=tuple(ends.values()))
    return PrimitiveWork(0, traffic(whole, {"src": elements, "dst": elements}))


def shuffle(primitive: Primitive) -> PrimitiveWork:
    sizes = shape(primitive.problem)
    if not sizes:
        return PrimitiveWork(0, None)
    elements = prod(sizes)
    roles = {"data": 2 * elements} if len(primitive.tensors) == 1 else {"src": elements, "dst": elements}
    return PrimitiveWork(0, traffic(primitive, roles))


def zero_pad(primitive: Primitive) -> PrimitiveWork:
    """Writes what a blocked layout has beyond its logical size, which is not in the line."""
    return PrimitiveWork(0, None)
