"""Primitives that only move data: no FLOPs, and every element read once and written once."""

from __future__ import annotations

from math import prod

from roofline_agent.verbose.primitive import Primitive, Work
from roofline_agent.verbose.sizes import extents, shape
from roofline_agent.verbose.traffic import traffic


def copy(primitive: Primitive) -> Work:
    """A reorder, or the packing of a matrix."""
    sizes = shape(primitive.problem)
    if not sizes:
        return Work(0, None)
    elements = prod(sizes)
    return Work(0, traffic(primitive, {"src": elements, "dst": elements}, sizes))


def concat(primitive: Primitive) -> Work:
    """`2x3:2x5` lists the sources (since 1.2), `2x8` the result (before)."""
    parts = [extents(part) for part in primitive.problem.split(":")]
    ends = {tensor.role: tensor for tensor in primitive.tensors if tensor.role in ("src", "dst")}
    if not all(parts) or len(ends) != 2:
        return Work(0, None)
    elements = sum(prod(part) for part in parts)
    whole = primitive._replace(tensors=tuple(ends.values()))
    return Work(0, traffic(whole, {"src": elements, "dst": elements}))


def shuffle(primitive: Primitive) -> Work:
    sizes = shape(primitive.problem)
    if not sizes:
        return Work(0, None)
    elements = prod(sizes)
    roles = {"data": 2 * elements} if len(primitive.tensors) == 1 else {"src": elements, "dst": elements}
    return Work(0, traffic(primitive, roles))


def zero_pad(primitive: Primitive) -> Work:
    """Writes what a blocked layout has beyond its logical size, which the line does not tell."""
    return Work(0, None)
