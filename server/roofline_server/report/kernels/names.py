"""How a kind of kernel is called in answers."""

from __future__ import annotations

from ...records import KernelKind

SHAPE_LENGTH = 60


def label(kind: KernelKind) -> str:
    """ "convolution backward_data 64x3x224x224": operation, variant, shapes."""
    shapes = kind.problem if len(kind.problem) <= SHAPE_LENGTH else f"{kind.problem[: SHAPE_LENGTH - 1]}…"
    return " ".join(filter(None, (name_of(kind), shapes)))


def name_of(kind: KernelKind) -> str:
    return " ".join(filter(None, (kind.operation, kind.variant))) or kind.library or "unknown"
