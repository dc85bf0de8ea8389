"""The records that leave this package. Equal calls have equal shapes, so a shape is a key to add up by."""

from __future__ import annotations

from typing import NamedTuple


class KernelShape(NamedTuple):
    """What was computed, without when and how long.

    `flops` counts a multiply-add as two operations. It is 0 for an operation that only moves data, and None
    where the line does not tell: missing is not zero. `bytes` is the least traffic the call can cause, each
    tensor touched once; None where a type or a size is not in the line.
    """

    library: str  # "onednn" or "mkl"
    operation: str  # "convolution", "matmul", "gemm", "reorder", ...
    variant: str  # "forward_training", "backward_data", ...; "" where the library prints none
    precision: str  # element type of what is computed on: "f32", "bf16", ...; "" if it is not printed
    implementation: str  # "jit:avx512_core", or the routine's name for MKL
    problem: str  # the sizes as the library writes them
    flops: int | None
    bytes: int | None
    note: str = ""  # what a reader of `flops` must know; "" if nothing
    dram_bytes: int | None = None  # of one call, as a profiler counted them; None: nobody did
    l1_bytes: int | None = None  # likewise
    l2_bytes: int | None = None


class KernelCall(NamedTuple):
    """One call, as its line tells it. `start_ns` (epoch) is None where the line gives no usable time."""

    shape: KernelShape
    start_ns: int | None
    duration_ns: int


class TimedCall(NamedTuple):
    """One call placed in time: `start_ns` (epoch) is the line's own, or follows from the lines around it."""

    shape: KernelShape
    start_ns: int
    duration_ns: int
