"""An executed primitive as its line describes it, and what is counted of it."""

from __future__ import annotations

from typing import NamedTuple

from .descriptors import Tensor


class Primitive(NamedTuple):
    operation: str
    variant: str
    implementation: str
    tensors: tuple[Tensor, ...]
    options: str  # attributes and algorithm, which versions put in different fields
    problem: str


class PrimitiveWork(NamedTuple):
    """`flops` and `bytes` are None where the line does not have them or they are not modelled."""

    flops: int | None
    bytes: int | None
    note: str = ""


UNKNOWN = PrimitiveWork(None, None)
