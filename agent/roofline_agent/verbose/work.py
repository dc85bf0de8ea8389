"""Counts the FLOPs and the least memory traffic of a oneDNN primitive from its problem text.

Conventions. A multiply-add is two FLOPs. Contractions are counted exactly, as the analytic count of the
network has them: bias, post-operations, activations and scaling are left out. Primitives that only move data
have 0 FLOPs; those of pooling, normalisation and element-wise primitives are not counted (None). Traffic is
every tensor once, at its logical size, with what post-operations read.
"""

from __future__ import annotations

from collections.abc import Callable

from . import convolution, elementwise, movement, products, recurrent
from .primitive import UNKNOWN, Primitive, PrimitiveWork

__all__ = ["Primitive", "PrimitiveWork", "count_work"]

_MODELS: dict[str, Callable[[Primitive], PrimitiveWork]] = {
    "convolution": convolution.convolution,
    "deconvolution": convolution.deconvolution,
    "inner_product": products.inner_product,
    "matmul": products.matmul,
    "gemm": products.matmul,
    "gemm_api": products.matmul,
    "brgemm": products.brgemm,
    "sdpa": products.sdpa,
    "gated_mlp": products.gated_mlp,
    "rnn": recurrent.rnn,
    "reorder": movement.copy,
    "transform": movement.copy,
    "concat": movement.concat,
    "shuffle": movement.shuffle,
    "zero_pad": movement.zero_pad,
    "pooling": elementwise.pooling,
    "resampling": elementwise.resampling,
    "eltwise": elementwise.pointwise,
    "softmax": elementwise.pointwise,
    "logsoftmax": elementwise.pointwise,
    "lrn": elementwise.pointwise,
    "binary": elementwise.binary,
    "sum": elementwise.addition,
    "prelu": elementwise.prelu,
    "reduction": elementwise.reduction,
    "batch_normalization": elementwise.batch_normalization,
    "group_normalization": elementwise.group_normalization,
    "layer_normalization": elementwise.layer_normalization,
}


def count_work(primitive: Primitive) -> PrimitiveWork:
    """FLOPs and bytes of `primitive`; None where its line does not have them or they are not modelled."""
    # 2.x has a second version of some primitives, which differs in its arguments only.
    model = _MODELS.get(primitive.operation.removesuffix("_v2"))
    return UNKNOWN if model is None else model(primitive)
