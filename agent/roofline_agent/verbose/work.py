"""Counts the FLOPs and the least memory traffic of a oneDNN primitive from its problem text.

Conventions. A multiply-add is two FLOPs. Convolutions are counted directly: padding is not taken off and
dilation and strides change nothing but the output size, so that the numbers agree with the analytic count
of the network. Bias, post-operations, activations and scaling are not counted. Traffic is every tensor once,
at its logical size: neither padding of blocked layouts, nor scratchpads, nor the second touch of a
destination that a `sum` post-operation adds to.

The problem text is benchdnn's: `g2mb8_ic4oc6_ih9oh7kh3sh1dh0ph0_iw9ow7kw3sw1dw0pw0`, where `ic` and `oc`
are totals over the groups, or sizes as `2x3:3x4`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from roofline_agent.verbose.descriptors import Tensor, bytes_of


class Primitive(NamedTuple):
    """An executed primitive as its line describes it."""

    operation: str
    variant: str
    implementation: str
    tensors: tuple[Tensor, ...]
    options: str  # attributes and algorithm, which versions put in different fields
    problem: str


class Work(NamedTuple):
    flops: int | None
    bytes: int | None
    note: str = ""


UNKNOWN = Work(None, None)

_PROBLEM = re.compile(r"(?:[a-z]+[0-9]{1,12}_?)+")
_SIZE = re.compile(r"([a-z]+)([0-9]+)")
_EXTENTS = re.compile(r"[0-9]{1,12}(?:x[0-9]{1,12})*")
_BIAS_MASK = re.compile(r"_mask([0-9]{1,3})$")
_FUSED_DEPTHWISE = re.compile(r"\bdw[_:]k[0-9]")
_CELL = re.compile(r"alg:(?:vanilla|lbr)_(lstm|gru|augru|rnn)")
_GATES = {"lstm": 4, "gru": 3, "augru": 3, "rnn": 1}
_DENSE_VARIANTS = frozenset({"forward_training", "forward_inference", "backward_data", "backward_weights"})


def count_work(primitive: Primitive) -> Work:
    """FLOPs and bytes of `primitive`; None for what its line does not tell or nobody modelled."""
    model = _MODELS.get(primitive.operation)
    return UNKNOWN if model is None else model(primitive)


def _convolution(primitive: Primitive) -> Work:
    return _windowed(primitive, "ow", "oh", "od")


def _deconvolution(primitive: Primitive) -> Work:
    # Every input element is multiplied with the whole kernel: the input's extent counts, not the output's.
    return _windowed(primitive, "iw", "ih", "id")


def _windowed(primitive: Primitive, *positions: str) -> Work:
    sizes = _sizes(primitive.problem)
    if not sizes.keys() >= {"mb", "ic", "oc", "iw", "ow", "kw"} or sizes.get("g") == 0:
        return UNKNOWN
    weights = sizes["oc"] * sizes["ic"] // sizes.get("g", 1) * _product(sizes, "kd", "kh", "kw")
    traffic = _traffic(
        primitive.tensors,
        {
            "src": _product(sizes, "mb", "ic", "id", "ih", "iw"),
            "wei": weights,
            "bia": sizes["oc"],
            "dst": _product(sizes, "mb", "oc", "od", "oh", "ow"),
        },
    )
    if _FUSED_DEPTHWISE.search(primitive.options):
        return Work(None, None, "a fused depthwise convolution is not counted")
    if primitive.variant not in _DENSE_VARIANTS:
        return UNKNOWN
    return Work(2 * weights * _product(sizes, "mb", *positions), traffic, _winograd_note(primitive))


def _winograd_note(primitive: Primitive) -> str:
    if "winograd" in primitive.options or "wino" in primitive.implementation:
        return "direct-equivalent count; the algorithm is Winograd"
    return ""


def _inner_product(primitive: Primitive) -> Work:
    sizes = _sizes(primitive.problem)
    if not sizes.keys() >= {"mb", "ic", "oc"} or primitive.variant not in _DENSE_VARIANTS:
        return UNKNOWN
    inputs = _product(sizes, "ic", "id", "ih", "iw")
    mb, oc = sizes["mb"], sizes["oc"]
    elements = {"src": mb * inputs, "wei": oc * inputs, "bia": oc, "dst": mb * oc}
    return Work(2 * mb * inputs * oc, _traffic(primitive.tensors, elements))


def _matmul(primitive: Primitive) -> Work:
    """`MxK:KxN`, with batch dimensions before them that broadcast where one side has 1 (since 2.1)."""
    if any("sparse" in tensor.layout for tensor in primitive.tensors):
        return Work(None, None, "sparse operands: the line does not say how many values they hold")
    parts = [_extents(part) for part in primitive.problem.split(":")]
    if len(parts) < 2 or not parts[0] or not parts[1]:
        return _old_matmul(primitive)
    source, weights = parts[0], parts[1]
    batch = _broadcast(source[:-2], weights[:-2])
    if batch is None or min(len(source), len(weights)) < 2 or source[-1] != weights[-2]:
        return UNKNOWN
    result = (*batch, source[-2], weights[-1])
    elements = {"src": prod(source), "wei": prod(weights), "dst": prod(result)}
    elements.update(_bias_elements(primitive.tensors, result))
    return Work(2 * prod(result) * source[-1], _traffic(primitive.tensors, elements))


def _old_matmul(primitive: Primitive) -> Work:
    """`b2m3n4k5` (up to 2.0) and the gemm primitive's `m3n4k5_lda5...`."""
    sizes = _sizes(primitive.problem.partition(" ")[0])
    if not sizes.keys() >= {"m", "n", "k"}:
        return UNKNOWN
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    flops = 2 * sizes.get("b", 1) * m * n * k
    if "b" in sizes:
        return Work(flops, None)  # which operand is broadcast is not printed
    elements = {"src": m * k, "wei": k * n, "dst": m * n}
    elements.update(_bias_elements(primitive.tensors, (m, n)))
    return Work(flops, _traffic(primitive.tensors, elements))


def _bias_elements(tensors: tuple[Tensor, ...], result: tuple[int, ...]) -> dict[str, int]:
    """A matmul's bias has the result's size along the dimensions in its mask, and 1 along the others."""
    for tensor in tensors:
        mask = _BIAS_MASK.search(tensor.layout)
        if tensor.role == "bia" and mask:
            return {"bia": prod(size for axis, size in enumerate(result) if int(mask[1]) >> axis & 1)}
    return {}


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    if len(left) != len(right) or any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))


def _rnn(primitive: Primitive) -> Work:
    """The matrix products of a recurrent layer; backward does two for each of forward's.

    The weights are one tensor of layers x directions x channels x gates x hidden, so every layer and
    direction has the same size. Traffic is not modelled: states and workspaces are not all in the line.
    """
    sizes = _sizes(primitive.problem)
    cell = _CELL.search(primitive.options)
    hidden = sizes.get("dhc", sizes.get("dic"))  # dic was the hidden size before projections came
    if not sizes.keys() >= {"l", "t", "mb", "sic", "slc"} or not cell or not hidden:
        return UNKNOWN
    per_row = _GATES[cell[1]] * hidden * (sizes["slc"] + sizes["sic"])
    if any("proj" in tensor.role for tensor in primitive.tensors):
        per_row += hidden * sizes.get("dic", 0)
    directions = 2 if "bidirectional" in primitive.options else 1
    passes = 2 if primitive.variant.startswith("backward") else 1
    rows = _product(sizes, "l", "t", "mb") * directions
    return Work(2 * passes * rows * per_row, None, "matrix products only")


def _copy(primitive: Primitive) -> Work:
    extents = _extents(primitive.problem)
    if not extents:
        return Work(0, None)
    elements = prod(extents)
    return Work(0, _traffic(primitive.tensors, {"src": elements, "dst": elements}))


def _concat(primitive: Primitive) -> Work:
    """`2x3:2x5` lists the sources (since 1.2), `2x8` the result (before)."""
    parts = [_extents(part) for part in primitive.problem.split(":")]
    ends = {tensor.role: tensor for tensor in primitive.tensors if tensor.role in ("src", "dst")}
    if not all(parts) or len(ends) != 2:
        return Work(0, None)
    elements = sum(prod(part) for part in parts)
    return Work(0, _traffic(tuple(ends.values()), {"src": elements, "dst": elements}))


def _shuffle(primitive: Primitive) -> Work:
    extents = _extents(primitive.problem)
    elements = prod(extents)
    roles = {"data": 2 * elements} if len(primitive.tensors) == 1 else {"src": elements, "dst": elements}
    return Work(0, _traffic(primitive.tensors, roles) if extents else None)


def _pooling(primitive: Primitive) -> Work:
    sizes = _sizes(primitive.problem)
    if not sizes.keys() >= {"mb", "ic", "iw", "ow"}:
        return UNKNOWN
    source = _product(sizes, "mb", "ic", "id", "ih", "iw")
    result = _product(sizes, "mb", "ic", "od", "oh", "ow")
    elements = {"src": source, "dst": result}
    if any(tensor.role == "ws" for tensor in primitive.tensors):
        elements["ws"] = result
    return Work(None, _traffic(primitive.tensors, elements))


def _sizes(problem: str) -> dict[str, int]:
    """`mb2ic3_ih4` as a mapping; empty for anything else, such as sizes known at run time only (`*`)."""
    if not _PROBLEM.fullmatch(problem):
        return {}
    return {name: int(size) for name, size in _SIZE.findall(problem)}


def _extents(text: str) -> tuple[int, ...]:
    """`2x3` as (2, 3); empty for anything else, such as sizes known at run time only (`*`)."""
    return tuple(map(int, text.split("x"))) if _EXTENTS.fullmatch(text) else ()


def _product(sizes: Mapping[str, int], *names: str) -> int:
    return prod(sizes.get(name, 1) for name in names)


def _traffic(tensors: tuple[Tensor, ...], elements: Mapping[str, int]) -> int | None:
    """Bytes of every tensor once, or None if one of them has no known type or size."""
    if elements.keys() - {tensor.role for tensor in tensors} - {"bia"}:
        return None
    total = 0
    for tensor in tensors:
        size = bytes_of(tensor, elements[tensor.role]) if tensor.role in elements else None
        if size is None:
            return None
        total += size
    return total


_MODELS: dict[str, Callable[[Primitive], Work]] = {
    "convolution": _convolution,
    "deconvolution": _deconvolution,
    "inner_product": _inner_product,
    "matmul": _matmul,
    "gemm": _matmul,
    "gemm_api": _matmul,
    "rnn": _rnn,
    "reorder": _copy,
    "concat": _concat,
    "shuffle": _shuffle,
    "pooling": _pooling,
    "pooling_v2": _pooling,
}
