"""Multiply-adds and elements of the matrix products in BLAS other than GEMM: symmetric, triangular, rank-k.

Counts are those of LAPACK Working Note 41 (operation counts for the BLAS and LAPACK): a triangle has half of
the products, and half of the elements with its diagonal.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ROUTINE = re.compile(r"(CBLAS_)?([SDCZ])(SYRK|SYR2K|SYMM|TRMM|TRSM|GEMMT|HERK|HER2K|HEMM)")
_SIZES_AT = {"SYMM": 2, "HEMM": 2, "TRMM": 4, "TRSM": 4, "GEMMT": 3}  # 2 in the others
_LEFT = ("L", "l", "141")
_SIZE = re.compile(r"[0-9]{1,9}")


class BlasProduct(NamedTuple):
    letter: str  # S, D, C or Z
    operation: str  # "syrk", ...
    multiply_adds: float | None  # a multiple of a half; None where sizes are not printed
    elements: int | None  # read and written, each operand once


def product(routine: str, values: list[str]) -> BlasProduct | None:
    """What a routine with these arguments does, or None if it is none of these."""
    name = _ROUTINE.fullmatch(routine.upper())
    if name is None:
        return None
    first = _SIZES_AT.get(name[3], 2) + bool(name[1])  # C's interface begins with a layout
    sizes = values[first : first + 2]
    if len(sizes) != 2 or not all(map(_SIZE.fullmatch, sizes)):
        return BlasProduct(name[2], name[3].lower(), None, None)
    operation, m, n = name[3], int(sizes[0]), int(sizes[1])
    if operation in ("SYMM", "HEMM", "TRMM", "TRSM"):  # m x n, and a square on its left or right
        side = m if values[bool(name[1])] in _LEFT else n
        triangle = side * (side + 1) // 2
        multiply_adds = m * n * side * (0.5 if operation.startswith("TR") else 1.0)
        elements = triangle + 2 * m * n
    else:  # an n x n triangle of products over k; here m is n and n is k
        triangle = m * (m + 1) // 2
        multiply_adds = (2.0 if operation in ("SYR2K", "HER2K") else 1.0) * triangle * n
        elements = (2 if operation in ("SYR2K", "HER2K", "GEMMT") else 1) * m * n + triangle
    return BlasProduct(name[2], operation.lower(), multiply_adds, elements)
