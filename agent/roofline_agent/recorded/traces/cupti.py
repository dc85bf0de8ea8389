"""Turns what CUPTI's range profiler counted of a kernel, as a Kineto trace has it, into FLOPs.

FLOPs = add + mul + 2 fma per precision (NERSC method). Tensor cores are not among these counters. From Ampere
on the compiler loads constants by HFMA2.MMA, which counts as hfma: next to FP32 or FP64 arithmetic the f16
counts are taken for such moves, and where only hfma were counted they are an upper bound, as the note says.
"""

from __future__ import annotations

import re
from typing import Any

from ..recording import Launch
from .trace import number

_COUNTER = re.compile(r"sm(?:sp)?__sass_thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum")
_PRECISIONS = {"d": "f64", "f": "f32", "h": "f16"}


def measured(name: str, args: dict[str, Any]) -> Launch:
    """The kernel with its FLOPs; they are None where an operation of a precision was not counted."""
    counts: dict[str, dict[str, float]] = {}  # executed thread instructions by precision and operation
    for key, value in args.items():
        match, count = _COUNTER.fullmatch(key), number(value)
        if match and count is not None:
            counts.setdefault(_PRECISIONS[match.group(1)], {})[match.group(2)] = count
    flops = {precision: n["add"] + n["mul"] + 2 * n["fma"] for precision, n in counts.items() if len(n) == 3}
    if not flops:
        return Launch(name, None, library="cuda", note="its FLOPs were not counted")
    note = "tensor cores not counted"
    wide = {precision: value for precision, value in flops.items() if precision != "f16" and value}
    if not wide and flops.get("f16") and counts["f16"]["fma"] * 2 == flops["f16"]:
        note += "; hfma may be register moves (HFMA2.MMA): an upper bound"
    taken = wide or flops
    most = max(taken, key=lambda precision: taken[precision])
    return Launch(
        name,
        None,
        sum(taken.values()),
        precision=most if any(taken.values()) else "",
        library="cuda",
        note=note,
    )
