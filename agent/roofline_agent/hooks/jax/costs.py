"""FLOPs and bytes of a compiled JAX program, by XLA's own cost analysis.

XLA counts a multiply-add as two operations, and transcendental functions (exp, tanh, ...) separately: they
are not FLOPs here. It counts the body of a loop once. The traced program knows how often loops of known
length run (`scan`, `fori_loop`), so FLOPs are multiplied by what the traced program does with them over what
it does without; the bytes of a program with loops are unknown. A program of which a considerable part is a
loop of unknown length has unknown FLOPs. Sharded programs are analysed for one device; the result is
multiplied by the number of devices of this process.

On GPUs XLA hands matrix products and convolutions to libraries (cuBLAS, cuDNN) and counts no FLOPs of them:
of the 51.5 GFLOP of a step on an H100 it knew 0.04. There the traced program counts.

Nothing here imports JAX; it reads attributes of the objects that it is given.
"""

from __future__ import annotations

import os
from math import prod
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

ELEMENTWISE = 1 / 64  # of FLOPs: below it a loop of unknown length is left out
# What moves or reinterprets data only.
_MOVES = frozenset(
    [
        "broadcast_in_dim",
        "reshape",
        "transpose",
        "slice",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "concatenate",
        "squeeze",
        "convert_element_type",
        "copy",
        "copy_p",
        "iota",
        "rev",
        "pad",
        "select_n",
        "stop_gradient",
        "sharding_constraint",
        "device_put",
        "bitcast_convert_type",
        "split",
        "expand_dims",
        "reduce_precision",
        "optimization_barrier",
        "pvary",
    ]
)
# Programs inside a program, of which XLA knows no cost.
OPAQUE = frozenset(["pallas_call", "ffi_call", "custom_call", "tpu_custom_call", "triton_kernel_call"])
NAMES = {
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float16": "f16",
    "int8": "s8",
    "uint8": "u8",
}
TF32_BY_DEFAULT = ("default", "fastest", "tensorfloat32", "high")
NAMES.update({"float8_e4m3fn": "f8_e4m3", "float8_e5m2": "f8_e5m2"})


class ProgramCost(NamedTuple):
    """What one call of a program costs in this process; None: not known."""

    flops: Optional[int]
    bytes: Optional[int]
    precision: str = ""
    note: str = ""


class _Counts:
    """What the traced program does; loops: run as often as they are, or once."""

    def __init__(self) -> None:
        self.looped = self.once = 0.0
        self.endless = 0.0  # in loops of unknown length
        self.opaque = ""
        self.by_type: Dict[str, float] = {}


def cost_of(
    analysis: Any, jaxpr: Any, devices: int, accelerators: Sequence[Any] = (), parts: int = 1
) -> ProgramCost:
    """analysis: what XLA says (`cost_analysis()`). jaxpr: the traced program, None if unknown. devices: of
    this process that the program runs on; accelerators: the same if they are no CPUs. parts: in how many
    the traced program is divided, one for each device of all processes."""
    if isinstance(analysis, (list, tuple)):  # before JAX 0.4.36 or so
        analysis = analysis[0] if analysis else None
    if not analysis or "flops" not in analysis:
        return ProgramCost(None, None, "", "XLA's cost analysis has no FLOPs")
    flops, moved = float(analysis["flops"]), float(analysis.get("bytes accessed", -1.0))
    if flops < 0:  # XLA's word for unknown
        return ProgramCost(None, None, "", "XLA's cost analysis does not know the FLOPs")
    counts, notes = _Counts(), ["XLA's cost analysis"]
    if jaxpr is None and accelerators:
        return ProgramCost(None, _known(moved * devices), "", "XLA does not count what libraries of a GPU do")
    if jaxpr is None:
        return ProgramCost(round(flops * devices), _known(moved * devices), "", notes[0])
    _count(jaxpr, counts, 1.0, 1.0, False)
    looped = counts.looped != counts.once
    if accelerators and flops < counts.once / parts:
        flops = counts.once / parts
        notes = ["FLOPs by the traced program, bytes by XLA's cost analysis"]
    if looped and flops and not _unrolled(flops * devices, counts):
        flops *= counts.looped / counts.once
    if looped:
        moved = -1.0
        notes.append("loops counted by the traced program")
    precision = max(counts.by_type, key=lambda name: counts.by_type[name], default="")
    named = NAMES.get(precision, "")
    if named == "f32" and accelerators and all(map(_has_tf32, accelerators)):
        named = "tf32"
    if counts.opaque:
        notes.append("without %s, whose cost XLA does not know" % counts.opaque)
    if counts.endless > ELEMENTWISE * counts.once:
        notes.append("it has a loop of unknown length")
        return ProgramCost(None, None, named, "; ".join(notes))
    return ProgramCost(round(flops * devices), _known(moved * devices), named, "; ".join(notes))


def _has_tf32(device: Any) -> bool:
    """Whether XLA multiplies f32 in TF32 on this device unless told otherwise (NVIDIA's, from Ampere on; JAX
    documentation, jax_default_matmul_precision)."""
    capability = str(getattr(device, "compute_capability", ""))
    told = os.environ.get("JAX_DEFAULT_MATMUL_PRECISION", "default")
    return capability.partition(".")[0].isdecimal() and float(capability) >= 8 and told in TF32_BY_DEFAULT


def _known(size: float) -> Optional[int]:
    return round(size) if size >= 0 else None


def _unrolled(flops: float, counts: _Counts) -> bool:
    """Whether XLA has seen every turn of the loops, because it unrolled them."""
    if not counts.once:
        return True
    # The partitions of a sharded program make XLA's number smaller, never larger.
    return bool(flops > (counts.once * counts.looped) ** 0.5)


def _count(jaxpr: Any, counts: _Counts, loops: float, shards: float, endless: bool) -> None:
    """Add what this traced program does. loops: how often it runs. shards: in how many parts, each time."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name, params = equation.primitive.name, equation.params
        if name in OPAQUE:
            counts.opaque = name
        elif name == "scan":
            _count(params["jaxpr"], counts, loops * params["length"], shards, endless)
        elif name == "while":
            _count(params["body_jaxpr"], counts, loops, shards, True)
        elif name == "cond":
            _count(max(params["branches"], key=_alone), counts, loops, shards, endless)
        elif name == "shard_map":
            _count(params["jaxpr"], counts, loops, shards * getattr(params.get("mesh"), "size", 1), endless)
        else:
            inner = list(programs_in(params))
            for one in inner:
                _count(one, counts, loops, shards, endless)
            if not inner:
                _add(equation, counts, loops, shards, endless)


def _add(equation: Any, counts: _Counts, loops: float, shards: float, endless: bool) -> None:
    work, precision = _work(equation)
    work *= shards
    counts.looped += work * loops
    counts.once += work
    if endless:
        counts.endless += work
    if precision:
        counts.by_type[precision] = counts.by_type.get(precision, 0.0) + work * loops


def _alone(jaxpr: Any) -> float:
    counts = _Counts()
    _count(jaxpr, counts, 1.0, 1.0, False)
    return counts.looped


def programs_in(params: Dict[str, Any]) -> Iterator[Any]:
    """The traced programs among the parameters of an equation: jit, remat, custom_vjp, shard_map, ..."""
    for name, value in params.items():
        if name in ("jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "jvp_jaxpr_fun", "bwd"):
            continue
        if hasattr(value, "eqns") or hasattr(getattr(value, "jaxpr", None), "eqns"):
            yield value


def _work(equation: Any) -> Tuple[float, str]:
    """FLOPs of one equation, and the type of what it multiplies."""
    name = equation.primitive.name
    out: Any = getattr(equation.outvars[0], "aval", None) if equation.outvars else None
    if name in _MOVES or not hasattr(out, "shape"):
        return 0.0, ""
    shape: Any = out.shape
    size = float(prod(shape))
    if name == "dot_general":
        left = equation.invars[0].aval
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2.0 * size * prod(left.shape[at] for at in contracted), str(left.dtype)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        features = kernel.shape[equation.params["dimension_numbers"].rhs_spec[0]]
        return 2.0 * size * prod(kernel.shape) / max(features, 1), str(kernel.dtype)
    if name.startswith(("reduce_", "cumsum", "cumprod", "arg")):
        shape = getattr(getattr(equation.invars[0], "aval", None), "shape", ())
        size = float(prod(shape))
    if not str(out.dtype).startswith(("float", "bfloat")):
        return 0.0, ""
    return size, str(out.dtype)


def scanned_or_merged(jaxpr: Any, places: Any) -> bool:
    """Whether the first dimension of one of these arguments is something else than examples: a loop goes over
    it, or it is merged with the next."""
    program = getattr(jaxpr, "jaxpr", jaxpr)
    watched = {id(program.invars[place]) for place in places}
    for equation in program.eqns:
        inputs = [at for at, variable in enumerate(equation.invars) if id(variable) in watched]
        if not inputs:
            continue
        name, params = equation.primitive.name, equation.params
        if name == "scan":
            if max(inputs) >= params["num_consts"] + params["num_carry"]:
                return True
        elif name == "reshape":
            before, after = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            if before and (not after or before[0] != after[0]):
                return True
        else:
            for inner in programs_in(params):
                # The arguments of jit, remat and shard_map are those of the program inside.
                same = len(getattr(inner, "jaxpr", inner).invars) == len(equation.invars)
                if same and scanned_or_merged(inner, inputs):
                    return True
        # What only changes the type or the scale keeps the dimension.
        if name in ("convert_element_type", "copy", "copy_p", "sharding_constraint"):
            watched.update(id(variable) for variable in equation.outvars)
    return False
