"""The metrics to ask ncu for, which place a kernel in a hierarchical roofline (NERSC's metrics).

Packed FP32 (fadd2, fmul2, ffma2; two operations an instruction) is counted where the profiler offers that.

From Ampere on the operations of tensor cores are counted. On older GPUs, and where the profiler does not
offer that, only instructions of the tensor pipe are, which is less exact (recorded/ncu/flops.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..recorded.ncu.metrics import PACKED_FP32

TIME = "gpu__time_duration.sum"
BYTES = ("dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum")
CORES = tuple(
    f"sm__sass_thread_inst_executed_op_{letter}{kind}_pred_on.sum"
    for letter in "dfh"
    for kind in ("add", "mul", "fma")
)
PACKED = tuple(f"sass_thread_inst_executed_op_{kind}_pred_on" for kind in PACKED_FP32)
TENSOR_PIPE = "sm__inst_executed_pipe_tensor.sum"
# Used where the profiler does not list what it offers; without fp8, which not all these GPUs count.
TENSOR_OPERATIONS = tuple(
    f"sm__ops_path_tensor_src_{path}.sum"
    for path in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32", "fp64")
)
_OFFERED = re.compile(
    r"^(sm(?:sp)?__[a-z0-9_]+|lts__[a-z0-9_]+|l1tex__[a-z0-9_]+|dram__[a-z0-9_]+|gpu__[a-z0-9_]+)\s"
)
# Variants by instruction or sparsity count the same operations once more.
_OPERATIONS = re.compile(r"sm__ops_path_tensor_src_(?!.*_sparsity_)[a-z0-9_]+")


def offered(query: str) -> frozenset[str]:
    """Base names of metrics in the output of `ncu --query-metrics`."""
    matches = (_OFFERED.match(line) for line in query.splitlines())
    return frozenset(match[1] for match in matches if match)


def choices(known: Iterable[str]) -> list[tuple[str, ...]]:
    """Lists of metrics to try, best first. known: base names the profiler offers; none: unknown."""
    names = frozenset(known)
    if not names:
        return [
            (TIME, *BYTES, *CORES, *TENSOR_OPERATIONS),
            (TIME, *BYTES, *CORES, TENSOR_PIPE),
            (TIME, *BYTES, *CORES),
        ]
    operations = tuple(sorted(f"{name}.sum" for name in names if _OPERATIONS.fullmatch(name)))
    pipe = (TENSOR_PIPE,) if base(TENSOR_PIPE) in names else ()
    basic = tuple(name for name in (*BYTES, *CORES) if base(name) in names)
    for packed in PACKED:  # NVIDIA's sections ask for those of smsp__; the same of sm__ hold the same
        basic += tuple(f"{part}{packed}.sum" for part in ("smsp__", "sm__") if part + packed in names)[:1]
    lists = [(TIME, *basic, *operations), (TIME, *basic, *pipe), (TIME, *basic)]
    return list(dict.fromkeys(lists if operations else lists[1:]))


def base(name: str) -> str:
    """ "dram__bytes" of "dram__bytes.sum"."""
    return name.partition(".")[0]
