"""Sizes of tensors from the shapes and types that traces print."""

from __future__ import annotations

import math
import re
from typing import Any


def element_count(shape: Any) -> int | None:
    """Elements of a tensor of this shape ([2, 3], or the text of it); a scalar has one; None: no shape."""
    if isinstance(shape, str):
        if not re.fullmatch(r"\s*[\[(][\d,\s]*[\])]\s*", shape):
            return None
        shape = [int(size) for size in re.findall(r"\d{1,18}", shape)]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        return None
    return math.prod(shape)


_ELEMENT_BYTES = {
    8: "float64 double int64 long uint64 complex64 c10::complex<float>",
    4: "float32 float int32 int uint32",
    2: "float16 half bfloat16 c10::half c10::bfloat16 int16 short uint16",
    1: "int8 char uint8 byte bool signed_char unsigned_char float8_e4m3fn float8_e5m2",
    16: "complex128 c10::complex<double>",
}
_SIZES = {name: size for size, names in _ELEMENT_BYTES.items() for name in names.split()}


def element_bytes(dtype: Any) -> int | None:
    """Bytes of one element of a type as Horovod, torch or NCCL name it."""
    return _SIZES.get(dtype.lower().strip().replace(" ", "_")) if isinstance(dtype, str) else None
