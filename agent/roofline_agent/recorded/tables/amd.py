"""FLOPs and HBM bytes of AMD's CDNA counters, as in rocprof-compute's roofline and AMD's manuals.

A vector instruction is executed by 64 lanes; an MFMA counter counts blocks of 512 operations. Atomics and
transcendental operations count one each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ..cells import Array

Terms = Mapping[str, float]  # a counter and what one of it stands for
Values = TypeVar("Values", float, Array)

LANES, BLOCK = 64.0, 512.0
_FLOPS_OF = {"ADD": 1.0, "MUL": 1.0, "FMA": 2.0}
_PRECISIONS = {"F16": "f16", "F32": "f32", "F64": "f64"}
_MATRIX = {"F8": "f8", "I8": "s8", "F16": "f16", "BF16": "bf16", "XF32": "tf32", "F32": "f32", "F64": "f64"}
_MATRIX["F6F4"] = "f4"  # one counter for both, which are equally fast
FLOP_COUNTERS = frozenset(
    [f"SQ_INSTS_VALU_{kind}_{short}" for kind in (*_FLOPS_OF, "TRANS") for short in _PRECISIONS]
    + [f"SQ_INSTS_VALU_MFMA_MOPS_{short}" for short in _MATRIX]
)  # those that FLOPs follow from
_OPERATIONS = re.compile(r"SQ_INSTS_VALU_(?:(?:ADD|MUL|FMA|TRANS)_F\d+|MFMA_MOPS_\w+)")
NO_MATRIX = "operations of the matrix cores were not counted: a lower bound"
NO_VECTOR = "only operations of the matrix cores were counted: a lower bound"
NOT_ALL = "not every operation of a precision was counted: a lower bound"


class AmdReading(NamedTuple):
    """FLOPs by precision and HBM bytes as sums of counters; {}: not counted."""

    flops: Mapping[str, Terms]
    hbm_bytes: Terms
    note: str


class AmdWork(NamedTuple):
    """flops, hbm_bytes None: not counted."""

    flops: float | None
    hbm_bytes: float | None
    precision: str
    note: str


@lru_cache(maxsize=1024)
def reading_of(counted: frozenset[str]) -> AmdReading:
    """What follows from these counters."""
    vector = {p: terms for short, p in _PRECISIONS.items() if (terms := _vector(short, counted))}
    matrix = {p: {f"SQ_INSTS_VALU_MFMA_MOPS_{short}": BLOCK} for short, p in _MATRIX.items()}
    matrix = {p: terms for p, terms in matrix.items() if counted.issuperset(terms)}
    flops = {p: {**vector.get(p, {}), **matrix.get(p, {})} for p in (*vector, *matrix)}
    note = ""
    if bool(vector) != bool(matrix):
        note = NO_MATRIX if vector else NO_VECTOR
    elif any(_OPERATIONS.fullmatch(name) for name in counted.difference(*flops.values())):
        note = NOT_ALL
    return AmdReading(flops, _hbm_bytes(counted), note)


def work_of(counters: Mapping[str, float]) -> AmdWork:
    """The work of one dispatch, or of several by the sums over them."""
    reading = reading_of(frozenset(counters))
    hbm_bytes = weighed(reading.hbm_bytes, counters) if reading.hbm_bytes else None
    by_precision = {p: weighed(terms, counters) for p, terms in reading.flops.items()}
    total = sum(by_precision.values())
    if not by_precision or (total == 0 and reading.note):
        return AmdWork(None, hbm_bytes, "", "")
    most = max(by_precision, key=by_precision.__getitem__) if total else ""
    return AmdWork(total, hbm_bytes, most, reading.note)


def weighed(terms: Terms, counters: Mapping[str, Values]) -> Values:
    """The sum of the terms, of which there is one at least."""
    first, *others = (counters[name] * by for name, by in terms.items())
    for other in others:
        first = first + other
    return first


def _vector(short: str, counted: frozenset[str]) -> Terms:
    """{} for a precision of which an operation was not counted."""
    terms = {f"SQ_INSTS_VALU_{kind}_{short}": LANES * by for kind, by in _FLOPS_OF.items()}
    if not counted.issuperset(terms):
        return {}
    other = f"SQ_INSTS_VALU_TRANS_{short}"
    return terms | ({other: LANES} if other in counted else {})


def _hbm_bytes(counted: frozenset[str]) -> Terms:
    """Reads are of 32, 64 or (BUBBLE, CDNA 3) 128 bytes, writes of 32 or 64."""
    for unit in ("TCC_EA0", "TCC_EA"):
        reads = {f"{unit}_RDREQ_sum": 64.0, f"{unit}_RDREQ_32B_sum": 32.0 - 64.0}
        writes = {f"{unit}_WRREQ_sum": 32.0, f"{unit}_WRREQ_64B_sum": 64.0 - 32.0}
        if counted.issuperset(reads | writes):
            wide = {"TCC_BUBBLE_sum": 128.0 - 64.0} if "TCC_BUBBLE_sum" in counted else {}
            return reads | writes | wide
    sizes = {"FETCH_SIZE": 1024.0, "WRITE_SIZE": 1024.0}  # what rocprofv3 makes of the same, in KiB
    return sizes if counted.issuperset(sizes) else {}
