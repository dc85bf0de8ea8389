"""FLOPs of a kernel out of Nsight Compute's counts, with a note where they are not the whole truth.

CUDA cores: add + mul + 2 fma over `sm(sp)__sass_thread_inst_executed_op_*_pred_on` (NERSC's hierarchical
roofline). A half2 instruction counts as one thread instruction there; Nsight's own FP16 sections count it
twice, and the two conventions are not mixed here: ours is a lower bound for packed FP16. Packed FP32 has
counts of its own on B200 and B300 (`op_fadd2`, `op_fmul2`, `op_ffma2`): 2, 2 and 4 FLOPs.

Tensor cores, the first that is there: `sm__ops_path_tensor_src_*` (operations already, from Ampere on); or
instructions of the tensor pipe times the operations of one: HMMA.884 512 (Volta), HMMA.1688 2048 (Turing),
HMMA.16816 4096, IMMA.16832 8192, DMMA.884 512 (Ampere and later): by architecture, as published rooflines
count. TF32 has none larger than HMMA.1688, so a kernel with that in its name has 2048. A kernel may use
smaller ones on a newer GPU; where its name shows it (CUTLASS 16x8x8 on an A100: 2048) the note has how many
times too high the count is then. A larger shape in a name is that of several instructions (16x16x4 of CUTLASS
on a V100: four of 512 FLOPs). Hopper alone has larger instructions for FP64, up to DMMA.16816: there the name
decides, and without one 512 is a lower bound. For Blackwell the compiler makes DMMA.884 of all of them.
Hopper's warp-group instructions have no fixed size, so there instructions give no FLOPs.

From Ampere on the compiler loads constants into registers by HFMA2.MMA, which counts as an hfma of 32 threads
and as one instruction of the tensor pipe though it computes nothing. So where every tensor instruction can be
such a move (hfma close to 32 per tensor instruction, no hadd and no hmul) they are no matrix operations; and
if the kernel does FP32 or FP64 arithmetic, the hfma are taken for moves, not for FP16 arithmetic.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .metrics import PACKED_FP32, Elapsed, LaunchMetrics
from .tensor import operations

THREADS = 32  # of a warp
MOVES_AT_LEAST = 0.5  # of the hfma that all tensor instructions would be, for these to be moves

_OP = "sass_thread_inst_executed_op_{}_pred_on.sum"
_OPS = "sass_thread_inst_executed_ops_{0}add_{0}mul_{0}fma_pred_on.sum"
_PRECISIONS = {"f": "f32", "d": "f64", "h": "f16"}
_FLOPS_OF = {"add": 1.0, "mul": 1.0, "fma": 2.0}
_PACKED_CCS = ("10.0", "10.3")  # where Nsight Compute's own roofline adds packed FP32
_PIPES = {"hmma": "", "imma": "s8", "dmma": "f64"}  # "": that of the kernel's name
_VOLTA, _TURING, _AMPERE, _TF32 = 512.0, 2048.0, 4096.0, 2048.0
_SHAPE = re.compile(
    r"(?:^|[_a-z])[a-z](16816|16832|1688|1684|884|161616)(?:gemm|cudnn|fprop|dgrad|wgrad|conv|_|$)"
)
_MMA = re.compile(
    r"arch::Mma<cutlass::gemm::GemmShape<(?:\(int\))?(\d+), (?:\(int\))?(\d+), (?:\(int\))?(\d+)>"
)
_TILE = re.compile(r"_tensor(\d{1,3})x(\d{1,3})x(\d{1,3})(?:_|$)")  # cuDNN's and cuBLAS' xmma kernels
# cuBLAS names no type where s1688 is of TF32; with FP16 and BF16 it does. Of Hopper's only TF32 has 8 for K.
_TF32_NAME = re.compile(r"tf(?:loat)?32|[cs](?:1688|64x\d{1,3}x8)(?:gemm|fprop|dgrad|wgrad)(?!.*fp?16)")
_SHAPES = {"16816": 4096.0, "16832": 8192.0, "1688": 2048.0, "1684": 1024.0, "884": 512.0}
_HOPPER_DMMA = (512.0, 1024.0, 2048.0, 4096.0)
_ARCHITECTURES = (
    (re.compile(r"(?:\b|_)volta_|sm70_|sm_70|cutlass_70|\bV100\b|TITAN V\b"), "7.0"),
    (re.compile(r"(?:\b|_)turing_|sm75_|sm_75|cutlass_75|\bTesla T4\b|RTX 20[678]0"), "7.5"),
    (re.compile(r"(?:\b|_)ampere_|sm80_|sm_80|sm86_|cutlass_80|\bA100\b|\bA[34]0\b|RTX 30[5-9]0"), "8.0"),
    (re.compile(r"(?:\b|_)ada_|sm89_|sm_89|\bL40S?\b|RTX 40[6-9]0"), "8.9"),
    (re.compile(r"(?:\b|_)hopper_|sm90_|sm_90|\bH[12]00\b"), "9.0"),
)
_TENSOR_NAME = re.compile(r"[_a-z](?:16816|1688|884|16832)gemm|tensorop|wmma|_mma_|gmma|xmma")
NOT_COUNTED = "operations of the tensor cores were not counted"
MAYBE_MOVES = "tensor instructions may be register moves (HFMA2.MMA): an upper bound"
PACKED_NOT_COUNTED = (
    "packed FP32 was not counted: a lower bound; ask for "
    "smsp__sass_thread_inst_executed_op_{fadd2,fmul2,ffma2}_pred_on.sum, too"
)
SMALLEST_DMMA = (
    "512 FLOPs taken for an FP64 tensor instruction, the smallest of this GPU: a lower bound; ask for "
    "sm__ops_path_tensor_src_fp64.sum"
)
CORES_NOT_COUNTED = "only operations of the tensor cores were counted: a lower bound"


class Flops(NamedTuple):
    """flops None: they were not counted."""

    flops: float | None
    precision: str = ""
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def architecture(text: str) -> str:
    """The compute capability that a kernel's or GPU's name shows, "" where none does.

    The newest of several: a new GPU also runs kernels that were written for an old one.
    """
    return next((cc for pattern, cc in reversed(_ARCHITECTURES) if pattern.search(text)), "")


@lru_cache(maxsize=1024)
def is_of_tensor_cores(kernel: str) -> bool:
    """Whether a kernel's name shows that it uses them."""
    return bool(_TENSOR_NAME.search(kernel))


@lru_cache(maxsize=8192)
def is_of_tf32(kernel: str) -> bool:
    """Whether a kernel's name shows that it multiplies float32 in TF32."""
    return bool(_TF32_NAME.search(kernel))


@lru_cache(maxsize=8192)
def named(kernel: str) -> tuple[float | None, str, bool]:
    """All that `count` makes of a kernel's name: kernels for which it is equal are counted alike."""
    return _named_factor(kernel), _named_precision(kernel), is_of_tensor_cores(kernel)


def newest(one: str, other: str) -> str:
    """The newer of two compute capabilities; "": unknown."""
    return max(one, other)  # of _ARCHITECTURES, which are as long as each other


def count(found: LaunchMetrics, kernel: str, cc: str, elapsed: Elapsed) -> Flops:
    """FLOPs of one launch. cc: compute capability ("8.0"), "" unknown."""
    cores, partial = _cores(found, elapsed)
    path = operations(found, elapsed)
    by_instruction: dict[
        str, float
    ] = {}  # instructions of the tensor pipe by kind; "" for all kinds together
    if path is None:
        for kind in _PIPES:
            executed = found.total(f"inst_executed_pipe_tensor_op_{kind}.sum", elapsed)
            if executed is not None:
                by_instruction[kind] = executed
        general = found.total("inst_executed_pipe_tensor.sum", elapsed)
        if general is not None and "hmma" not in by_instruction:
            by_instruction = {"": general}
    notes = ["not every operation of a precision was counted: a lower bound"] if partial else []
    packed, packed_kinds = _packed(found, elapsed)
    if packed_kinds:
        cores["f32"] = cores.get("f32", 0.0) + packed
    if cc in _PACKED_CCS and "f32" in cores and packed_kinds < len(PACKED_FP32):
        notes.append(PACKED_NOT_COUNTED)

    # hfma per tensor instruction. A move has one thread at least, and mostly all of its warp.
    threads = _threads_of_moves(found, by_instruction.get("", 0.0), cc)
    if MOVES_AT_LEAST <= threads / THREADS <= 1.01:
        by_instruction = {"": 0.0}
        if cores.get("f32") or cores.get("f64"):
            cores["f16"] = 0.0
            notes.append("hfma and tensor instructions are register moves (HFMA2.MMA), not counted")
        else:
            notes.append("hfma may be register moves (HFMA2.MMA): an upper bound")
    elif 1 <= threads <= THREADS and not is_of_tensor_cores(kernel):
        notes.append(MAYBE_MOVES)

    tensor, more = _operations(by_instruction, kernel, cc) if path is None else (path, [])
    if tensor is None:
        return Flops(None, "", (*notes, *more))
    return _in_all(cores, tensor, [*notes, *more], kernel, path is not None or bool(by_instruction))


def _in_all(
    cores: dict[str, float], tensor: dict[str, float], notes: list[str], kernel: str, has_tensor: bool
) -> Flops:
    """FLOPs of CUDA cores and tensor cores together; has_tensor: the latter were counted."""
    by_precision = {p: cores.get(p, 0.0) + tensor.get(p, 0.0) for p in (*cores, *tensor)}
    total = sum(by_precision.values())
    if not by_precision or (total == 0 and (notes or "f32" not in cores)):
        # Zero of what was counted is not zero: the kernel's other operations are unknown.
        return Flops(None, "", tuple(notes))
    if not has_tensor and is_of_tensor_cores(kernel):
        notes.append(NOT_COUNTED)
    if not cores:
        notes.append(CORES_NOT_COUNTED)
    most = max(by_precision, key=lambda p: by_precision[p]) if total else ""
    if most.startswith("i"):
        notes.append("integer operations")
    return Flops(total, most, tuple(notes))


def _cores(found: LaunchMetrics, elapsed: Elapsed) -> tuple[dict[str, float], bool]:
    """FLOPs of the CUDA cores by precision; whether some kind of instruction is missing in one of them."""
    totals: dict[str, float] = {}
    partial = False
    for letter, precision in _PRECISIONS.items():
        known: dict[str, float] = {}
        for kind in _FLOPS_OF:
            value = found.total(_OP.format(letter + kind), elapsed)
            # Roofline sections of ncu ask for FMAs only by this metric: a rate a cycle, times two.
            if value is None and elapsed.cycles is not None and kind == "fma":
                doubled = found.take(f"derived__smsp__sass_thread_inst_executed_op_{letter}fma_pred_on_x2")
                value = None if doubled is None else doubled / 2 * elapsed.cycles
            if value is not None:
                known[kind] = value
        whole = found.total(_OPS.format(letter), elapsed)
        if len(known) == len(_FLOPS_OF) or (known and whole is None):
            totals[precision] = sum(value * _FLOPS_OF[kind] for kind, value in known.items())
            partial = partial or len(known) < len(_FLOPS_OF)
        elif whole is not None:
            totals[precision] = whole
    return totals, partial


def _packed(found: LaunchMetrics, elapsed: Elapsed) -> tuple[float, int]:
    """FLOPs of packed FP32 instructions, and how many kinds of these were counted."""
    counts = {kind: found.total(_OP.format(kind), elapsed) for kind in PACKED_FP32}
    known = [count * PACKED_FP32[kind] for kind, count in counts.items() if count is not None]
    return sum(known), len(known)


def _threads_of_moves(found: LaunchMetrics, tensor: float, cc: str) -> float:
    """hfma per tensor instruction; 0 where they are no moves."""
    hfma = found.count(_OP.format("hfma"))
    others = [found.count(_OP.format(op)) for op in ("hadd", "hmul")]
    if not tensor or not hfma or any(others) or (cc and _major(cc) < 8):
        return 0.0
    return hfma / tensor


def _operations(
    instructions: dict[str, float], kernel: str, cc: str
) -> tuple[dict[str, float] | None, list[str]]:
    """Operations by precision of so many instructions; None where an instruction's size is unknown."""
    found: dict[str, float] = {}
    notes: list[str] = []
    for kind, executed in instructions.items():
        factor, note = _factor(kind, kernel, cc)
        if executed and factor is None:
            return None, [note]
        if executed and note:
            notes.append(note)
        precision = _PIPES.get(kind) or _named_precision(kernel)
        found[precision] = found.get(precision, 0.0) + executed * (factor or 0.0)
    return found, notes


def _named_factor(kernel: str) -> float | None:
    """Operations of one tensor instruction as the kernel's name gives its shape: 2 M N K."""
    if match := _MMA.search(kernel) or _TILE.search(kernel):
        return 2.0 * int(match[1][:6]) * int(match[2][:6]) * int(match[3][:6])
    shape = _SHAPE.search(kernel)
    return _SHAPES.get(shape[1]) if shape else None


def _factor(kind: str, kernel: str, cc: str) -> tuple[float | None, str]:
    """Operations of one tensor instruction, None where it has no fixed size; and a note."""
    # By compute capability: Volta's (7.0, 7.2), Turing's (7.x), Ampere's and later; none for 9 to 11.
    named = _named_factor(kernel)
    if not cc:
        if named:
            return named, ""
        return _VOLTA, "GPU unknown: 512 FLOPs taken for a tensor instruction, as on Volta: a lower bound"
    if _major(cc) in (9, 10, 11) and kind in ("", "imma"):
        return None, "tensor instructions of this GPU have no fixed size: ask for sm__ops_path_tensor_src_*"
    if _major(cc) == 9 and kind == "dmma":
        return (named, "") if named in _HOPPER_DMMA else (_VOLTA, SMALLEST_DMMA)
    if kind in ("", "hmma") and _major(cc) >= 8 and _named_precision(kernel) == "tf32":
        return _TF32, ""
    factor = 2 * _AMPERE if kind == "imma" else _AMPERE
    if _major(cc) < 7 or cc.startswith(("7.0", "7.2")) or kind == "dmma":
        factor = _VOLTA
    elif cc.startswith("7."):
        factor = _TURING
    if named and named < factor and kind in ("", "hmma", "imma"):
        taken = f"{factor:g} taken for a tensor instruction where its name says {named:g}"
        return factor, f"FLOPs may be {factor / named:g} times the true count: {taken}"
    return factor, ""


def _named_precision(kernel: str) -> str:
    if "bf16" in kernel or "bfloat16" in kernel:
        return "bf16"
    if is_of_tf32(kernel):
        return "tf32"
    return "f64" if "d884" in kernel or "dgemm" in kernel else "f16"


def _major(cc: str) -> int:
    digits = cc.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 4 else 0
