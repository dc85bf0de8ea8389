"""Reads oneDNN's memory descriptors: which tensors a primitive touches, and how wide their elements are.

Three spellings exist: `fsrc:nChw16c` (0.x, the type only where it can change, as in `in:f32_nchw`),
`src_f32::blocked:abcd:f0` (1.0 to 3.5) and `src:f32:a:blocked:abcd::f0` (later).
"""

from __future__ import annotations

import re
from typing import NamedTuple

ELEMENT_BITS = {
    "f64": 64,
    "s64": 64,
    "f32": 32,
    "s32": 32,
    "f16": 16,
    "bf16": 16,
    "s16": 16,
    "s8": 8,
    "u8": 8,
    "boolean": 8,
    "f8_e5m2": 8,
    "f8_e4m3": 8,
    "e8m0": 8,
    "s4": 4,
    "u4": 4,
    "f4_e2m1": 4,
    "f4_e3m0": 4,
}

_TYPE = "|".join(ELEMENT_BITS) + "|undef"
_TYPE_FIRST = re.compile(rf"({_TYPE})(?![a-z0-9])")
_TYPE_LAST = re.compile(rf"(\w+?)_({_TYPE})")

# Names that mean the same tensor in another version, or in the gemm primitive.
_ROLES = {
    "fsrc": "src",
    "fwei": "wei",
    "fbia": "bia",
    "fdst": "dst",
    "fdata": "data",
    "dt": "data",
    "fws": "ws",
    "fdiff": "diff",
    "weights": "wei",
    "diff_weights": "diff_wei",
    "in": "src",
    "out": "dst",
    "src_a": "src",
    "src_b": "wei",
}


class Tensor(NamedTuple):
    """A tensor that takes part. `type` is "" where the line does not print it."""

    role: str  # "src", "wei", "bia", "dst", "data", "ws", ...
    type: str
    layout: str  # the rest of the descriptor


def parse_tensors(text: str) -> tuple[Tensor, ...]:
    """The tensors in a descriptor field, in its order; those that are absent (`undef`) are left out.

    The shuffle of 0.x prints one tensor in two words, `dt:f32 fmt:nchw`.
    """
    tensors: list[Tensor] = []
    for word in text.split():
        head, _, layout = word.partition(":")
        role, type_ = head, ""
        if suffixed := _TYPE_LAST.fullmatch(head):
            role, type_ = suffixed[1], suffixed[2]
        elif prefixed := _TYPE_FIRST.match(layout):
            type_, layout = prefixed[1], layout[prefixed.end() :]
        role = _ROLES.get(role, role)
        if type_ != "undef" and role != "fmt":
            tensors.append(Tensor(role, type_, layout))
    return tuple(tensors)


def bytes_of(tensor: Tensor, elements: int) -> int | None:
    """None where the type is not printed, or the tensor is sparse and so its number of values is not."""
    bits = ELEMENT_BITS.get(tensor.type)
    return None if bits is None or "sparse" in tensor.layout else (elements * bits + 7) // 8
