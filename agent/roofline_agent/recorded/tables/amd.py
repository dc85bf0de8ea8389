"""FLOPs and HBM bytes of AMD's CDNA counters, as in rocprof-compute's roofline and AMD's manuals.

A vector instruction is executed by 64 lanes; an MFMA counter counts blocks of 512 operations. Atomics and
transcendental operations count one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LANES, BLOCK = 64.0, 512.0
_FLOPS_OF = {"ADD": 1.0, "MUL": 1.0, "FMA": 2.0}
_PRECISIONS = {"F16": "f16", "F32": "f32", "F64": "f64"}
_MATRIX = {"F8": "f8", "F16": "f16", "BF16": "bf16", "XF32": "tf32", "F32": "f32", "F64": "f64"}
NO_MATRIX = "operations of the matrix cores were not counted: a lower bound"
NO_VECTOR = "only operations of the matrix cores were counted: a lower bound"


class AmdWork(NamedTuple):
    """flops, hbm_bytes None: not counted."""

    flops: float | None
    hbm_bytes: float | None
    precision: str
    note: str


def work_of(counters: Mapping[str, float]) -> AmdWork:
    """Of one dispatch, or of sums over several."""
    vector = _vector(counters)
    matrix = {
        precision: counters[name] * BLOCK
        for short, precision in _MATRIX.items()
        if (name := f"SQ_INSTS_VALU_MFMA_MOPS_{short}") in counters
    }
    by_precision = {p: vector.get(p, 0.0) + matrix.get(p, 0.0) for p in (*vector, *matrix)}
    notes = [] if matrix or not vector else [NO_MATRIX]
    if matrix and not vector:
        notes.append(NO_VECTOR)
    total = sum(by_precision.values())
    if not by_precision or (total == 0 and notes):
        return AmdWork(None, _hbm_bytes(counters), "", "")
    most = max(by_precision, key=lambda p: by_precision[p]) if total else ""
    return AmdWork(total, _hbm_bytes(counters), most, "; ".join(notes))


def _vector(counters: Mapping[str, float]) -> dict[str, float]:
    """By precision; one of which an operation was not counted is not there."""
    found: dict[str, float] = {}
    for short, precision in _PRECISIONS.items():
        known = [counters.get(f"SQ_INSTS_VALU_{kind}_{short}") for kind in _FLOPS_OF]
        if all(one is not None for one in known):
            sums = sum((one or 0.0) * by for one, by in zip(known, _FLOPS_OF.values(), strict=True))
            found[precision] = LANES * (sums + counters.get(f"SQ_INSTS_VALU_TRANS_{short}", 0.0))
    return found


def _hbm_bytes(counters: Mapping[str, float]) -> float | None:
    """Reads are of 32, 64 or (BUBBLE, CDNA 3) 128 bytes, writes of 32 or 64."""
    for unit in ("TCC_EA0", "TCC_EA"):
        reads, small = (counters.get(f"{unit}_RDREQ{one}_sum") for one in ("", "_32B"))
        writes, whole = (counters.get(f"{unit}_WRREQ{one}_sum") for one in ("", "_64B"))
        if reads is None or small is None or writes is None or whole is None:
            continue
        wide = counters.get("TCC_BUBBLE_sum", 0.0)
        return 128 * wide + 64 * (reads - wide - small) + 32 * small + 64 * whole + 32 * (writes - whole)
    return None
