"""Collects the collectives of a PyTorch trace: NCCL's kernels on the GPU, Gloo's calls on the CPU.

A call of NCCL on the CPU only puts the collective into a stream: its time is never the collective's, and is
reported ("nccl allreduce (call)") only where the trace has no NCCL kernel. Bytes are what this rank hands in.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ..collector import Collector
from .activities import Activities
from .tensors import element_bytes, element_count
from .trace import number

_CALL = re.compile(r"(?:c10d::)?(nccl|rccl|gloo|mpi|ucc|xccl|hccl)\s*:\s*_?(\w+)", re.I)
_KERNEL = re.compile(r"[nr]ccl|(?<![a-z])hccl", re.I)
_WORDS = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "reducescatter": "reducescatter",
    "alltoall": "alltoall",
    "sendrecv": "sendrecv",
    "broadcast": "broadcast",
    "barrier": "barrier",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "reduce": "reduce",
}  # the first that a name contains decides, so the longer ones come first


class Collectives:
    """The collectives of one trace."""

    def __init__(self) -> None:
        self._kernels = Activities()
        self._calls = Activities()
        self._on_cpu = Activities()
        self._recorded = Activities()  # the same calls again, with what each moves
        self._has_kernels = False

    def kernel(self, name: str, time_s: float, args: dict[str, Any]) -> None:
        """A GPU kernel; one that is no collective is passed over."""
        library = _library_of(name)
        if not library:
            return
        kind = _kind(str(args.get("Collective name") or "")) or collective_of(name)
        self._has_kernels = True
        self._kernels.add(f"{library} {kind or 'other'}", time_s, message_bytes(args))

    def call(self, name: str, time_s: float, args: dict[str, Any]) -> None:
        """An operator or annotation on the CPU; one that is no collective is passed over."""
        if name == "record_param_comms":
            kind = _kind(str(args.get("Collective name", "")))
            if kind:  # not "wait"
                self._recorded.add(f"nccl {kind} (call)", time_s, message_bytes(args))
            return
        library, kind = _call_of(name)
        if not library:
            return
        if library in ("gloo", "mpi"):
            self._on_cpu.add(f"{library} {kind}", time_s, message_bytes(args))
        else:
            self._calls.add(f"{library} {kind} (call)", time_s, message_bytes(args))

    def finish(self, found: Collector) -> None:
        self._kernels.finish(found)
        self._on_cpu.finish(found)
        if not self._has_kernels:
            # What is recorded does not name its library: Gloo's calls would be in it again.
            is_recorded = self._recorded.names and not self._on_cpu.names
            calls = self._recorded if is_recorded else self._calls
            calls.finish(found)


@lru_cache(maxsize=8192)
def _library_of(kernel: str) -> str:
    """Of a kernel that is a collective."""
    match = _KERNEL.search(kernel)
    return "" if not match else "hccl" if match.group().lower() == "hccl" else "nccl"


@lru_cache(maxsize=8192)
def _call_of(name: str) -> tuple[str, str]:
    """Library and collective that an operator calls."""
    match = _CALL.fullmatch(name)
    return (match[1].lower(), _kind(match[2]) or match[2].lower()) if match else ("", "")


def collective_of(kernel: str) -> str:
    """What collective a GPU kernel of this name is ("allreduce"); "": it is none, or it is not known
    which."""
    match = _KERNEL.search(kernel)
    return _kind(kernel[match.start() :]) if match else ""


def _kind(name: str) -> str:
    plain = name.lower().replace("_", "")
    return next((kind for word, kind in _WORDS.items() if word in plain), "")


def message_bytes(args: dict[str, Any]) -> float | None:
    """Bytes that this rank hands into a collective: from "In msg nelems" and "dtype", else from the input's
    shape and type; None where neither is there."""
    elements, size = number(args.get("In msg nelems")), element_bytes(args.get("dtype"))
    if elements is not None and size is not None:
        return elements * size
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(shapes, list) and isinstance(types, list) and shapes and len(shapes) == len(types)):
        return None
    total = 0
    for shape, kind in zip(shapes, types, strict=True):
        elements, size = element_count(shape), element_bytes(kind)
        if elements is not None and size is not None:
            total += elements * size
        elif kind not in ("", "Scalar", "ScalarList"):
            return None
    return float(total) if total else None
