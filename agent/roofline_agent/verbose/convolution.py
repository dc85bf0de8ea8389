"""Convolutions and deconvolutions of any dimension, grouped, dilated and with a fused depthwise one behind.

Counted directly: padding is not taken off, and dilation and strides change nothing but the output's size.
Forward, backward by data and backward by weights do the same multiply-adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .primitive import UNKNOWN, Primitive, PrimitiveWork
from .sizes import product, spatial_sizes
from .traffic import traffic

_FORWARD = ("forward", "forward_scoring", "forward_training", "forward_inference")
DENSE_VARIANTS = frozenset({*_FORWARD, "backward_data", "backward_weights"})
_FUSED = re.compile(r"\bdw[_:]k([0-9]{1,3})s([0-9]{1,3})p([0-9]{1,3})")
_LOOKS_FUSED = re.compile(r"\bdw[_:]k[0-9]")


def convolution(primitive: Primitive) -> PrimitiveWork:
    if _LOOKS_FUSED.search(primitive.options):
        return _fused(primitive)
    return _windowed(primitive, "ow", "oh", "od")


def deconvolution(primitive: Primitive) -> PrimitiveWork:
    # Every input element is multiplied with the whole kernel: the input's extent counts, not the output's.
    return _windowed(primitive, "iw", "ih", "id")


def _windowed(primitive: Primitive, *positions: str) -> PrimitiveWork:
    sizes = spatial_sizes(primitive.problem)
    if not _is_complete(sizes) or primitive.variant not in DENSE_VARIANTS:
        return UNKNOWN
    weights = _weights(sizes)
    elements = {
        "src": product(sizes, "mb", "ic", "id", "ih", "iw"),
        "wei": weights,
        "bia": sizes["oc"],
        "dst": product(sizes, "mb", "oc", "od", "oh", "ow"),
    }
    sides = [sizes[name] for name in ("od", "oh", "ow") if name in sizes]
    moved = traffic(primitive, elements, (sizes["mb"], sizes["oc"], *sides))
    note = ""
    if "winograd" in primitive.options or "wino" in primitive.implementation:
        note = "direct-equivalent count; the algorithm is Winograd"
    return PrimitiveWork(2 * weights * product(sizes, "mb", *positions), moved, note)


def _fused(primitive: Primitive) -> PrimitiveWork:
    """A 1x1 convolution whose result goes through a depthwise one before it is written (oneDNN's `dw`).

    The line prints the 1x1 convolution, whose output is as large as its input.
    """
    sizes = spatial_sizes(primitive.problem)
    fused = _FUSED.search(primitive.options)
    is_flat = "ih" in sizes and "id" not in sizes and sizes.get("kh") == sizes.get("kw") == 1
    is_forward = primitive.variant in _FORWARD
    if not fused or not _is_complete(sizes) or not is_flat or not is_forward or fused[2] == "0":
        return PrimitiveWork(None, None, "a fused depthwise convolution of this form is not counted")
    kernel, stride, padding = map(int, fused.groups())
    out_h, out_w = ((sizes[side] + 2 * padding - kernel) // stride + 1 for side in ("ih", "iw"))
    pointwise = _weights(sizes) * product(sizes, "mb", "ih", "iw")
    depthwise = sizes["oc"] * kernel * kernel
    result = (sizes["mb"], sizes["oc"], max(out_h, 0), max(out_w, 0))
    elements = {
        "src": product(sizes, "mb", "ic", "ih", "iw"),
        "wei": _weights(sizes),
        "bia": sizes["oc"],
        "src_fused": 0,  # handed on in cache
        "wei_fused": depthwise,
        "bia_fused": sizes["oc"],
        "dst": result[0] * result[1] * result[2] * result[3],
    }
    printed = {tensor.role for tensor in primitive.tensors}
    elements = {role: size for role, size in elements.items() if role in printed or "fused" not in role}
    moved = traffic(primitive, elements, result) if "wei_fused" in printed else None
    flops = 2 * (pointwise + result[0] * depthwise * result[2] * result[3])
    return PrimitiveWork(flops, moved, "with the depthwise convolution fused to it")


def _is_complete(found: Mapping[str, int]) -> bool:
    """Whether nothing is missing, and no length 0, which oneDNN does not allow: such a line is garbled."""
    lengths = [found.get(kind + side) for kind in "iok" for side in "dhw"]
    return found.keys() >= {"mb", "ic", "oc", "iw", "ow", "kw"} and 0 not in (found.get("g"), *lengths)


def _weights(found: Mapping[str, int]) -> int:
    """Elements of the kernel; `ic` and `oc` are totals over the groups."""
    return found["oc"] * found["ic"] // found.get("g", 1) * product(found, "kd", "kh", "kw")
