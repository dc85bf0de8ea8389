"""Element types as torch names them: their size and the precision that a roofline calls them."""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    size: int  # bytes
    precision: str
    flops: float = 1.0  # of one multiplication or addition, in those of real numbers


_COMPLEX = 4.0  # a complex multiply-add is four real ones
_TYPES = {
    "double": ElementType(8, "f64"),
    "float": ElementType(4, "f32"),
    "half": ElementType(2, "f16"),
    "bfloat16": ElementType(2, "bf16"),
    "float8_e4m3fn": ElementType(1, "f8_e4m3"),
    "float8_e5m2": ElementType(1, "f8_e5m2"),
    "float8_e4m3fnuz": ElementType(1, "f8_e4m3"),
    "float8_e5m2fnuz": ElementType(1, "f8_e5m2"),
    "float4_e2m1fn_x2": ElementType(1, "f4", 2.0),  # two numbers in each element
    "signed char": ElementType(1, "s8"),
    "unsigned char": ElementType(1, "u8"),
    "int": ElementType(4, "s32"),
    "long": ElementType(8, "s64"),
    "long int": ElementType(8, "s64"),
    "complex<float>": ElementType(8, "f32", _COMPLEX),
    "complex<double>": ElementType(16, "f64", _COMPLEX),
}
_OTHER_NAMES = {
    "float64": "double",
    "float32": "float",
    "float16": "half",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int32": "int",
    "int64": "long",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}


def element_type(name: str) -> ElementType | None:
    """The type that "float", "c10::BFloat16" or "torch.float16" names; None for anything that is no element
    of a tensor."""
    plain = name.strip().lower()
    for before in ("c10::", "torch."):
        if plain.startswith(before):
            plain = plain[len(before) :]
    return _TYPES.get(_OTHER_NAMES.get(plain, plain))
