"""Operations of the tensor cores that Nsight Compute counts as such: sm__ops_path_tensor_*, each once.

Its metrics overlap: a general one, one for each kind of instruction (op_hmma, op_hgmma), one with and one
without sparsity, one for several source types together, one for each type of destination. An FP8 GEMM of 4096
cubed gave exactly 2 M N K (NVIDIA/DCGM issue 251), so the values are operations and need no factor.
"""

from __future__ import annotations

import re

from .metrics import Elapsed, LaunchMetrics

_PATH = re.compile(
    r"sm(?:sp)?__(?P<count>ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?src_(?P<src>[a-z0-9_]+?)(?:_dst_(?P<dst>[a-z0-9]+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?\.sum)(?:\.per_second|\.per_cycle_elapsed)?"
)
_TYPES = {"fp": "f", "bf": "bf", "tf": "tf", "int": "s"}


def operations(found: LaunchMetrics, elapsed: Elapsed) -> dict[str, float] | None:
    """Operations by precision of sm__ops_path_tensor_*; None where none was counted."""
    groups = _counts_by_types(found, elapsed)
    if not groups:
        return None
    with_dst: dict[tuple[str, str], float] = {}
    without_dst: dict[tuple[str, str], float] = {}
    for (source, dst), kinds in groups.items():
        (with_dst if dst else without_dst)[source, dst] = _once(kinds)
    by_source: dict[str, float] = {}
    for (source, _), value in _without_subsets(with_dst).items():
        by_source[source] = by_source.get(source, 0.0) + value
    for (source, _), value in _without_subsets(without_dst).items():
        # Its operations are those of all destinations, so those counted by destination are among them.
        by_source[source] = max(value, by_source.get(source, 0.0))
    wide = _without_subsets({(source, ""): value for source, value in by_source.items()})
    by_precision: dict[str, float] = {}
    for (source, _), value in wide.items():
        match = re.match(r"(fp|bf|tf|int)(\d+)", source)
        by_precision[_TYPES[match[1]] + match[2] if match else source] = value
    return by_precision


def _counts_by_types(
    found: LaunchMetrics, elapsed: Elapsed
) -> dict[tuple[str, str], dict[tuple[str, str], float]]:
    """(source types, destination type) -> (kind of instruction, sparsity) -> operations."""
    groups: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for name in found.names:
        match = _PATH.fullmatch(name)
        if match is None:
            continue
        value = found.total(match["count"], elapsed)
        if value is not None:
            kind = (match["op"] or "", match["sparsity"] or "")
            groups.setdefault((match["src"], match["dst"] or ""), {})[kind] = value
    return groups


def _once(kinds: dict[tuple[str, str], float]) -> float:
    """General and `op_hmma_`, `sparsity_off` variants name the same operations: count them once."""
    by_op: dict[str, float] = {}
    for op in {op for op, _ in kinds}:
        split = sum(value for (one, sparsity), value in kinds.items() if one == op and sparsity)
        by_op[op] = kinds.get((op, ""), split)
    return by_op.get("", sum(value for op, value in by_op.items() if op))


def _without_subsets(total: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """fp4_fp6_fp8 holds fp8: only the widest of each destination."""
    widest: dict[tuple[str, str], float] = {}
    for (source, dst), value in total.items():
        types = set(source.split("_"))
        if not any(types < set(other.split("_")) and dst == other_dst for other, other_dst in total):
            widest[source, dst] = value
    return widest
