"""Matrix products: inner_product, matmul, gemm and gemm_api, the brgemm kernel, and what is built of them.

A product of MxK and KxN does 2 M N K FLOPs; bias, scaling and post-operations are not counted.
"""

from __future__ import annotations

import re
from math import prod

from .convolution import DENSE_VARIANTS
from .descriptors import Tensor
from .primitive import UNKNOWN, Primitive, PrimitiveWork
from .sizes import broadcast, extents, product, sizes, spatial_sizes
from .traffic import masked_elements, traffic

_BIAS_MASK = re.compile(r"_mask([0-9]{1,3})$")
_OLD_GEMM = re.compile(r"(?:b([0-9]{1,12}))?m([0-9]{1,12})n([0-9]{1,12})k([0-9]{1,12})(?![0-9*])")
_BATCH = re.compile(r"\bbs:([0-9]{1,9})\b")


def inner_product(primitive: Primitive) -> PrimitiveWork:
    found = spatial_sizes(primitive.problem)
    if not found.keys() >= {"mb", "ic", "oc"} or primitive.variant not in DENSE_VARIANTS:
        return UNKNOWN
    inputs = product(found, "ic", "id", "ih", "iw")
    mb, oc = found["mb"], found["oc"]
    elements = {"src": mb * inputs, "wei": oc * inputs, "bia": oc, "dst": mb * oc}
    return PrimitiveWork(2 * mb * inputs * oc, traffic(primitive, elements, (mb, oc)))


def matmul(primitive: Primitive) -> PrimitiveWork:
    """`MxK:KxN`, with batch dimensions before them that broadcast where one side has 1 (since 2.1)."""
    parts = [extents(part) for part in primitive.problem.split(":")]
    if len(parts) < 2 or not parts[0] or not parts[1]:
        return _old_matmul(primitive)
    source, weights = parts[0], parts[1]
    if any("sparse" in tensor.layout for tensor in primitive.tensors):
        # Grouped rows (mixture of experts) meet one of the weights each; other sparsity hides its count.
        is_grouped = any("sparse:grouped" in tensor.layout for tensor in primitive.tensors)
        if is_grouped and len(source) == 2 and len(weights) == 3 and source[1] == weights[1]:
            note = "how many of the groups have rows, and so their weights' traffic, is not in the line"
            return PrimitiveWork(2 * prod(source) * weights[2], None, note)
        return PrimitiveWork(None, None, "sparse operands: the line does not say how many values they hold")
    batch = broadcast(source[:-2], weights[:-2])
    if batch is None or min(len(source), len(weights)) < 2 or source[-1] != weights[-2]:
        return UNKNOWN
    result = (*batch, source[-2], weights[-1])
    elements = {"src": prod(source), "wei": prod(weights), "dst": prod(result)}
    elements.update(_bias_elements(primitive.tensors, result))
    return PrimitiveWork(2 * prod(result) * source[-1], traffic(primitive, elements, result))


def _old_matmul(primitive: Primitive) -> PrimitiveWork:
    """`b2m3n4k5` (up to 2.0) and the gemm primitive's `m3n4k5_lda5...`, or `m3n4k5a_dt:f32...` in 1.0."""
    found = _OLD_GEMM.match(primitive.problem)
    if found is None or any("sparse" in tensor.layout for tensor in primitive.tensors):
        return UNKNOWN
    m, n, k = (int(size) for size in found.groups()[1:])
    if found[1]:
        # Which operand is broadcast over the batch is not printed.
        return PrimitiveWork(2 * int(found[1]) * m * n * k, None)
    elements = {"src": m * k, "wei": k * n, "dst": m * n}
    elements.update(_bias_elements(primitive.tensors, (m, n)))
    return PrimitiveWork(2 * m * n * k, traffic(primitive, elements, (m, n)))


def _bias_elements(tensors: tuple[Tensor, ...], result: tuple[int, ...]) -> dict[str, int]:
    """A matmul's bias has the result's size along the dimensions in its mask, and 1 along the others."""
    for tensor in tensors:
        mask = _BIAS_MASK.search(tensor.layout)
        if tensor.role == "bia" and mask:
            return {"bia": masked_elements(int(mask[1]), result)}
    return {}


def brgemm(primitive: Primitive) -> PrimitiveWork:
    """The batch-reduce kernel: `bs` products of one size, added up in one result."""
    one = matmul(primitive)
    batch = _BATCH.search(primitive.options)
    parts = [extents(part) for part in primitive.problem.split(":")]
    if one.flops is None or not batch or len(parts) < 2:
        return UNKNOWN
    count = int(batch[1])
    elements = {"src": count * prod(parts[0]), "wei": count * prod(parts[1])}
    result = (parts[0][0], parts[1][-1])
    return PrimitiveWork(count * one.flops, traffic(primitive, {**elements, "dst": prod(result)}, result))


def sdpa(primitive: Primitive) -> PrimitiveWork:
    """Attention: queries QxD by keys DxK, and their weights QxK by values KxV; `...:...:...`, any batch dims.

    Backward does five products (Dao et al. 2022): the weights again, and the gradients of weights, values,
    queries and keys. Softmax is not counted, and a causal mask takes nothing off.
    """
    parts = [extents(part) for part in primitive.problem.split(":")]
    if len(parts) != 3 or min(map(len, parts)) < 2 or parts[0][-1] != parts[1][-2]:
        return UNKNOWN
    query, key, value = parts
    rows = prod(query[:-1])
    scores, values = 2 * rows * query[-1] * key[-1], 2 * rows * key[-1] * value[-1]
    note = "a causal mask takes nothing off" if "msk:causal" in primitive.options else ""
    if primitive.variant.startswith("backward"):
        return PrimitiveWork(3 * scores + 2 * values, None, note)
    elements = {"query": prod(query), "key": prod(key), "val": prod(value), "dst": rows * value[-1]}
    masked = any(tensor.role == "msk" for tensor in primitive.tensors)
    return PrimitiveWork(scores + values, None if masked else traffic(primitive, elements), note)


def gated_mlp(primitive: Primitive) -> PrimitiveWork:
    """Three products: up and gate (MBxIC by ICxOC) and down (MBxOC by OCxIC)."""
    found = sizes(primitive.problem)
    if not found.keys() >= {"mb", "ic", "oc"}:
        return UNKNOWN
    mb, weights = found["mb"], found["ic"] * found["oc"]
    elements = dict.fromkeys(("wei_gate", "wei_up", "wei_down"), weights)
    elements.update(dict.fromkeys(("src", "dst"), mb * found["ic"]))
    return PrimitiveWork(6 * mb * weights, traffic(primitive, elements))
