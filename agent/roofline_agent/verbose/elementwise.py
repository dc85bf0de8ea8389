"""Primitives that compute without contracting: pooling, normalisation, softmax and element-wise operations.

Their FLOPs are not counted: None, and not 0. What an exponential or a square root costs is the
implementation's affair, and compared with the products of a network it is nothing; a made-up count would only
blur sums that are exact now. Their traffic is known, and often it is what a step waits for.

In place or not, an element is read and written. Backward, `diff` is printed once and stands for the gradient
that is read and the one that is written. Statistics and scales are 32-bit floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from .descriptors import bytes_of
from .primitive import UNKNOWN, Primitive, PrimitiveWork
from .sizes import broadcast, extents, product, shape, spatial_sizes
from .traffic import traffic

_FLAGS = re.compile(r"flags:([A-Z]+|[0-9]{1,3})?")
_INPUTS = re.compile(r"num:([0-9]{1,5})")
_LRN_TAIL = re.compile(r"_?ls[0-9]+beta[-+.e0-9]+$")
_STATISTIC = 4  # bytes
_EQUALS = {"data", "diff", "src", "dst", "diff_src", "diff_dst"}


def pointwise(primitive: Primitive) -> PrimitiveWork:
    """eltwise, softmax and LRN: tensors of one size, printed as `data diff` or as `src dst diff_dst`."""
    sizes = shape(_LRN_TAIL.sub("", primitive.problem))
    return PrimitiveWork(None, _same_size(primitive, sizes))


def _same_size(primitive: Primitive, sizes: tuple[int, ...]) -> int | None:
    roles = {tensor.role for tensor in primitive.tensors}
    if not sizes or not roles or not roles <= _EQUALS:
        return None
    elements = prod(sizes)
    is_forward = not primitive.variant.startswith("backward")
    if "data" not in roles:
        return traffic(primitive, dict.fromkeys(roles, elements), sizes)
    times = {"data": 2 * elements if is_forward else elements, "diff": 2 * elements}
    return traffic(primitive, {role: times.get(role, elements) for role in roles}, sizes)


def binary(primitive: Primitive) -> PrimitiveWork:
    """`2x3:1x3`, the sources; the result is as large as both together."""
    parts = [extents(part) for part in primitive.problem.split(":")]
    sources = [tensor for tensor in primitive.tensors if tensor.role == "src"]
    if not all(parts) or not 2 <= len(sources) <= len(parts):
        return UNKNOWN
    result = broadcast(parts[0], parts[1])
    if result is None:
        return UNKNOWN
    rest = primitive._replace(tensors=tuple(t for t in primitive.tensors if t.role != "src"))
    moved = traffic(rest, {"dst": prod(result)}, result)
    if moved is None:
        return UNKNOWN
    for source, part in zip(sources, parts, strict=False):
        read = bytes_of(source, prod(part))
        if read is None:
            return UNKNOWN
        moved += read
    return PrimitiveWork(None, moved)


def addition(primitive: Primitive) -> PrimitiveWork:
    """`sum`: sources of one size. Before 1.0 only the first is printed, with their number."""
    elements = prod(shape(primitive.problem) or (0,))
    sources = sum(tensor.role == "src" for tensor in primitive.tensors)
    inputs = _INPUTS.search(primitive.options)
    if not elements:
        return UNKNOWN
    repeated = int(inputs[1]) if inputs and sources == 1 else 1
    return PrimitiveWork(None, traffic(primitive, {"src": repeated * elements, "dst": elements}, ()))


def prelu(primitive: Primitive) -> PrimitiveWork:
    """`2x3:1x3`, data and weights (since 2.3). Backward both gradients are as large as these."""
    parts = [extents(part) for part in primitive.problem.split(":")]
    if len(parts) != 2 or not all(parts):
        return UNKNOWN
    data, weights = prod(parts[0]), prod(parts[1])
    is_forward = not primitive.variant.startswith("backward")
    elements = {"data": 2 * data if is_forward else data, "wei": weights}
    if not is_forward:
        elements.update({"diff": 2 * data, "diff_wei": weights})
    return PrimitiveWork(None, traffic(primitive, elements))


def reduction(primitive: Primitive) -> PrimitiveWork:
    parts = [extents(part) for part in primitive.problem.split(":")]
    if len(parts) != 2 or not all(parts):
        return UNKNOWN
    return PrimitiveWork(None, traffic(primitive, {"src": prod(parts[0]), "dst": prod(parts[1])}, parts[1]))


def resampling(primitive: Primitive) -> PrimitiveWork:
    return _window(primitive, with_workspace=False)


def pooling(primitive: Primitive) -> PrimitiveWork:
    return _window(primitive, with_workspace=True)


def _window(primitive: Primitive, with_workspace: bool) -> PrimitiveWork:
    sizes = spatial_sizes(primitive.problem)
    if not sizes.keys() >= {"mb", "ic", "iw", "ow"}:
        return UNKNOWN
    sides = [sizes[name] for name in ("od", "oh", "ow") if name in sizes]
    result = (sizes["mb"], sizes["ic"], *sides)
    elements = {"src": product(sizes, "mb", "ic", "id", "ih", "iw"), "dst": prod(result)}
    if with_workspace and any(tensor.role == "ws" for tensor in primitive.tensors):
        elements["ws"] = prod(result)
    return PrimitiveWork(None, traffic(primitive, elements, result))


def batch_normalization(primitive: Primitive) -> PrimitiveWork:
    return _normalization(primitive, lambda sizes, groups: sizes[1])


def group_normalization(primitive: Primitive) -> PrimitiveWork:
    """As a batch normalisation, but mean and variance are kept for every image and group."""
    return _normalization(primitive, lambda sizes, groups: sizes[0] * groups)


def _normalization(primitive: Primitive, statistics: Callable[[tuple[int, ...], int], int]) -> PrimitiveWork:
    sizes = shape(primitive.problem)
    moved = _same_size(primitive, sizes) if len(sizes) > 1 else None
    if moved is None:
        return UNKNOWN
    flags = _flags(primitive.options)
    groups = spatial_sizes(primitive.problem).get("g", 1)
    is_kept = primitive.variant != "forward_inference" or "G" in flags
    vectors = 2 * statistics(sizes, groups) if is_kept else 0
    gradients = 2 if primitive.variant == "backward" else 1
    vectors += gradients * sizes[1] * (2 * ("S" in flags) + ("C" in flags) + ("H" in flags))
    if "A" in flags:  # another source is added before the rectifier
        moved += moved // (2 if primitive.variant.startswith("forward") else 3)
    return PrimitiveWork(None, moved + _STATISTIC * vectors)


def _flags(options: str) -> str:
    """As since 1.2: G statistics are given, S scale and shift (to 2.x), C scale, H shift, R and A fused."""
    found = _FLAGS.search(options)
    if found is None or not found[1]:
        return ""
    if not found[1].isdigit():
        return found[1]
    return "".join(letter for bit, letter in enumerate("GSR") if int(found[1]) >> bit & 1)


def layer_normalization(primitive: Primitive) -> PrimitiveWork:
    """Over the last dimension; every tensor is printed (since 3.0), `stats` for mean and variance."""
    sizes = shape(primitive.problem)
    if len(sizes) < 2:
        return UNKNOWN
    elements = prod(sizes)
    is_forward = not primitive.variant.startswith("backward")
    known = {
        "src": elements,
        "dst": elements,
        "diff_src": elements,
        "data": 2 * elements if is_forward else elements,
        "diff": 2 * elements,
        "stats": 2 * prod(sizes[:-1]),
    }
    for name in ("scale", "shift"):
        known[name] = known[f"diff_{name}"] = sizes[-1]
    roles = {tensor.role for tensor in primitive.tensors}
    if not roles & {"data", "src"} or not roles <= known.keys():
        return UNKNOWN
    return PrimitiveWork(None, traffic(primitive, {role: known[role] for role in roles}, sizes))
