"""The least memory traffic of a primitive: every tensor once, at its logical size, and post-operations' own.

Neither the padding of blocked layouts nor scratchpads, workspaces, scales and zero points that a line does
not print are counted. A `sum` post-operation reads the destination before it is written, and a `binary` or
`prelu` one reads a tensor of its own, as long as the result along the dimensions in its mask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from .descriptors import ELEMENT_BITS, Tensor, bytes_of
from .primitive import Primitive

# `attr-post-ops:sum:1+eltwise_relu` since 2.3, `post_ops:'sum:1;eltwise_relu;'` before.
_POST_OPS = re.compile(r"post[-_]ops:(?:'([^']*)'|(\S+))")
_MASK = re.compile(r"[0-9]{1,3}")


def traffic(primitive: Primitive, elements: Mapping[str, int], result: tuple[int, ...] = ()) -> int | None:
    """Bytes of every tensor once, or None if one of them has no known type or size.

    elements: size by role, of which only the bias may be missing. result: sizes of the destination.
    """
    if elements.keys() - {tensor.role for tensor in primitive.tensors} - {"bia"}:
        return None
    moved = [_bytes(tensor, elements.get(tensor.role)) for tensor in primitive.tensors]
    if "post" in primitive.options:
        for entry in post_ops(primitive.options):
            kind, *arguments = entry.split(":")
            moved.append(_post_op_bytes(kind, arguments, primitive.tensors, result))
    known = [part for part in moved if part is not None]
    return sum(known) if len(known) == len(moved) else None


def post_ops(options: str) -> list[str]:
    """The post-operations in an attribute text, each as `kind:argument:...`."""
    found = _POST_OPS.search(options)
    if found is None:
        return []
    return [entry for entry in re.split(r"[+;](?![0-9])", found[1] or found[2] or "") if entry]


def _post_op_bytes(
    kind: str, arguments: list[str], tensors: tuple[Tensor, ...], result: tuple[int, ...]
) -> int | None:
    if kind == "sum":
        outputs = [tensor for tensor in tensors if tensor.role == "dst"]
        return _bytes(outputs[0], prod(result)) if outputs and result else None
    if kind.startswith("binary_"):
        return _masked(arguments[:1], arguments[1:2], result)
    if kind == "prelu":
        return _masked(["f32"], arguments[:1], result)
    return 0


def _masked(types: list[str], masks: list[str], result: tuple[int, ...]) -> int | None:
    if not types or types[0] not in ELEMENT_BITS or not masks or not _MASK.fullmatch(masks[0]) or not result:
        return None
    return bytes_of(Tensor("", types[0], ""), masked_elements(int(masks[0]), result))


def masked_elements(mask: int, result: tuple[int, ...]) -> int:
    """Elements of a tensor as long as the result along the dimensions in `mask`, and 1 along the others."""
    return prod(size for axis, size in enumerate(result) if mask >> axis & 1)


def _bytes(tensor: Tensor, elements: int | None) -> int | None:
    return None if elements is None else bytes_of(tensor, elements)
