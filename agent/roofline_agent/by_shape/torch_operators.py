"""FLOPs and least traffic of PyTorch's operators, by the arguments that its profiler and its dispatcher show.

Only operators that are executed as they are have a formula, so that `aten::matmul`, `aten::linear` or
`aten::scaled_dot_product_attention`, which call them, do not count again. Argument positions are those of
aten/src/ATen/native/native_functions.yaml of torch 1.8 to 2.13, and of flash_attn/flash_attn_interface.py of
flash_attn 2.7 and 2.8.
"""

from __future__ import annotations

import re
from typing import Any, Callable  # noqa: UP035  # hooks may import this on Python 3.8

from .torch_arguments import Arguments, Formula
from .torch_attention import efficient_attention, flash_attention, flash_attention_varlen, sdpa
from .types import ElementType, element_type
from .work import (
    ATTENTION_BACKWARD,
    BACKWARD,
    FORWARD,
    ConvolutionWindow,
    OperatorWork,
    ShapeWork,
    convolution,
    convolution_backward,
    grouped_product,
    linear,
    product,
    reading,
    recurrent,
)

_UNPACKED = 7  # of aten::lstm and the like
_SCALAR_TYPES = {  # c10/core/ScalarType.h
    "5": "half",
    "6": "float",
    "15": "bfloat16",
    "23": "float8_e5m2",
    "24": "float8_e4m3fn",
    "25": "float8_e5m2fnuz",
    "26": "float8_e4m3fnuz",
}


def work_of(name: str, given: Arguments) -> OperatorWork | None:
    """None for operators without a formula, and where the arguments do not say enough. Never raises for what
    a trace holds."""
    formula = FORMULAS.get(name)
    if formula is None:
        return None
    try:
        work = formula(given)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if work is None or not 0 < work.flops < 1e30:
        return None
    kinds = (element_type(one) for one in given.types if isinstance(one, str))
    kind = next((one for one in kinds if one is not None), None)
    if kind is None:
        return OperatorWork(work.flops, None, "", work.parts, work.note)
    written = OUTPUT_TYPES[name](given, kind) if name in OUTPUT_TYPES else kind
    moved = None
    if written is not None:
        moved = float((work.elements - work.outputs) * kind.size + work.outputs * written.size)
    return OperatorWork(work.flops * kind.flops, moved, kind.precision, work.parts, work.note)


def why_unknown(name: str, given: Arguments) -> str:
    """Why an operator that has a formula has no FLOPs; "" where its arguments are not as expected."""
    if "_varlen_" in name:
        return f"the trace does not say how long the sequences of {name} are: it has no FLOPs"
    if name in PRODUCTS and any(map(given.is_sparse, PRODUCTS[name])):
        return f"{name} of sparse matrices: how many elements they have is not in the trace, it has no FLOPs"
    return ""


def _product(a: int, b: int) -> Formula:
    def formula(given: Arguments) -> ShapeWork | None:
        if given.is_sparse(a) or given.is_sparse(b):
            return None
        return reading(_added(given) if a else 0, product(given.shape(a), given.shape(b)))

    return formula


def _added(given: Arguments) -> int:
    """Elements of what a product is added to, which comes before its factors; times 0 it is not read."""
    return 0 if given.value(3) in ("0", "0.", "0.0") else given.elements(0)


def _product_sum(given: Arguments) -> ShapeWork | None:
    """A sum over all products of a batch."""
    work = product(given.shape(1), given.shape(2))
    if work is None:
        return None
    out = work.outputs // given.shape(1)[0]
    return reading(_added(given), work._replace(elements=work.elements - work.outputs + out, outputs=out))


def _grouped_product(given: Arguments) -> ShapeWork | None:
    return grouped_product(given.shape(0), given.shape(1), *given.shape(2)[:1] or (1,))


def _int32(given: Arguments, read: ElementType) -> ElementType | None:
    return element_type("int")


def _scaled_output(given: Arguments, read: ElementType) -> ElementType | None:
    """Of torch 2.5 on, where scales are the arguments behind the factors, and of those before, where they
    follow the type. None: it is not recorded."""
    at = 6 if given.kind(3) not in ("", "Scalar") else 3
    if not given.kind(at):
        return read  # the default
    return element_type(_SCALAR_TYPES.get(given.value(at), ""))


def _written_as(at: int) -> Callable[[Arguments, ElementType], ElementType | None]:
    """The type is the argument there, by default that which is read."""
    return lambda given, read: (
        element_type(_SCALAR_TYPES.get(given.value(at), "")) if given.kind(at) else read
    )


def _linear(given: Arguments) -> ShapeWork | None:
    return linear(given.shape(0), given.shape(1))


def _convolution(
    stride: int,
    padding: int,
    dilation: int,
    transposed: int | bool = False,
    output_padding: int = -1,
    groups: int = -1,
) -> Formula:
    """The numbers are positions; `transposed` may be what it always is."""

    def formula(given: Arguments) -> ShapeWork | None:
        known = transposed if isinstance(transposed, bool) else given.flag(transposed)
        strides, paddings, dilations = (given.numbers(at) for at in (stride, padding, dilation))
        if known is None or not (strides and paddings and dilations):
            return None
        more, apart = (given.numbers(at) if at >= 0 else [] for at in (output_padding, groups))
        window = ConvolutionWindow(strides, paddings, dilations, known, more or [0], *apart[:1])
        return convolution(given.shape(0), given.shape(1), window)

    return formula


def _pointwise_convolution(given: Arguments) -> ShapeWork | None:
    """Behind the weights come bias, padding, stride and dilation; with a tensor that is added to the output,
    which is as large, before the weights."""
    if len(given.shape(2)) < 3:
        return _convolution(4, 3, 5)(given)
    without = given._replace(
        **{name: [column[0], *column[2:]] for name, column in given._asdict().items() if column}
    )
    return reading(given.elements(1), _convolution(4, 3, 5)(without))


def _convolution_backward(given: Arguments) -> ShapeWork | None:
    is_transposed = given.flag(7)
    mask = [one == "True" for one in re.findall("True|False", given.value(10))]
    if is_transposed is None:
        return None
    return convolution_backward(given.shape(0), given.shape(1), given.shape(2), is_transposed, mask)


def _recurrent(both: int, factor: float = FORWARD) -> Formula:
    """Weights are the list of tensors that are all matrices and vectors. both: position of whether it goes
    over the sequence in both directions, at `_UNPACKED` of sequences that are not packed."""

    def formula(given: Arguments) -> ShapeWork | None:
        lists = (one for one in given.shapes if isinstance(one, (list, tuple)) and one)
        weights = next((one for one in lists if all(_is_weight(shape) for shape in one)), [])
        is_packed = both == _UNPACKED and given.flag(3) is None
        return recurrent(given.shape(0), weights, factor, 2 if given.flag(both + is_packed) else 1)

    return formula


def _is_weight(shape: Any) -> bool:
    return isinstance(shape, (list, tuple)) and len(shape) in (1, 2)


def _onednn_recurrent(factor: float = FORWARD) -> Formula:
    return lambda given: recurrent(given.shape(0), [given.shape(1), given.shape(2)], factor)


# Where the factors are.
PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmm_": (1, 2),
    "aten::_addmm_activation": (1, 2),
    "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2),
    "aten::baddbmm_": (1, 2),
    "aten::mv": (0, 1),
    "aten::addmv": (1, 2),
    "aten::dot": (0, 1),
    "aten::vdot": (0, 1),
    "aten::_int_mm": (0, 1),
    "aten::_scaled_mm": (0, 1),
    "aten::_scaled_mm_v2": (0, 1),
}
# Of products that are written in another type than the first factor's, which is given too.
OUTPUT_TYPES: dict[str, Callable[[Arguments, ElementType], ElementType | None]] = {
    "aten::_int_mm": _int32,
    "aten::_scaled_mm": _scaled_output,
    "aten::_scaled_mm_v2": _written_as(9),
    "aten::_grouped_mm": _written_as(4),
}
FORMULAS: dict[str, Formula] = {
    **{name: _product(*factors) for name, factors in PRODUCTS.items()},
    "aten::addbmm": _product_sum,
    "aten::addbmm_": _product_sum,
    "aten::_grouped_mm": _grouped_product,
    "aten::mkldnn_linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
    "mkl::_mkl_linear": _linear,
    "aten::convolution": _convolution(3, 4, 5, transposed=6, output_padding=7, groups=8),
    "aten::_convolution": _convolution(3, 4, 5, transposed=6, output_padding=7, groups=8),
    "aten::convolution_overrideable": _convolution(3, 4, 5, transposed=6, output_padding=7, groups=8),
    "aten::mkldnn_convolution": _convolution(4, 3, 5),
    "aten::cudnn_convolution": _convolution(3, 2, 4),
    "aten::cudnn_convolution_relu": _convolution(3, 4, 5),
    "mkldnn::_convolution_pointwise": _pointwise_convolution,
    "aten::cudnn_convolution_transpose": _convolution(4, 2, 5, transposed=True, output_padding=3, groups=6),
    "aten::miopen_convolution": _convolution(4, 3, 5),
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": sdpa(4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": sdpa(4, bias=5),
    "aten::_scaled_dot_product_efficient_attention": sdpa(6, bias=3),
    "aten::_scaled_dot_product_cudnn_attention": sdpa(6, bias=3),
    "aten::_scaled_dot_product_flash_attention_backward": sdpa(11, 1, ATTENTION_BACKWARD),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": sdpa(7, 1, ATTENTION_BACKWARD, 8),
    "aten::_scaled_dot_product_efficient_attention_backward": sdpa(11, 1, ATTENTION_BACKWARD, 4),
    "aten::_scaled_dot_product_cudnn_attention_backward": sdpa(14, 1, ATTENTION_BACKWARD, 8),
    "aten::_flash_attention_forward": flash_attention(8, window=11, begins=3),
    "aten::_flash_attention_backward": flash_attention(11, 1, ATTENTION_BACKWARD, window=15, begins=6),
    "aten::_efficient_attention_forward": efficient_attention(9, 13, 4),
    "aten::_efficient_attention_backward": efficient_attention(14, 18, 6, 1, ATTENTION_BACKWARD),
    "flash_attn::_flash_attn_forward": flash_attention(5),
    "flash_attn::_flash_attn_backward": flash_attention(11, 1, ATTENTION_BACKWARD),
    "flash_attn::_flash_attn_varlen_forward": flash_attention_varlen(3),
    "flash_attn::_flash_attn_varlen_backward": flash_attention_varlen(9, 1, ATTENTION_BACKWARD),
    "aten::lstm": _recurrent(_UNPACKED),
    "aten::gru": _recurrent(_UNPACKED),
    "aten::rnn_tanh": _recurrent(_UNPACKED),
    "aten::rnn_relu": _recurrent(_UNPACKED),
    "aten::_cudnn_rnn": _recurrent(13),
    "aten::miopen_rnn": _recurrent(12),
    "aten::_cudnn_rnn_backward": _recurrent(17, BACKWARD),
    "aten::miopen_rnn_backward": _recurrent(16, BACKWARD),
    "aten::mkldnn_rnn_layer": _onednn_recurrent(),
    "aten::mkldnn_rnn_layer_backward": _onednn_recurrent(BACKWARD),
}
