"""Which kernels measure this node: machine code made here where we can, else C compiled here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofline_agent.calibrate.assembled.kernel_set import AssembledKernels
from roofline_agent.calibrate.compiled.compiler import CompiledLibrary, compile_library
from roofline_agent.calibrate.compiled.kernel_set import CompiledKernels
from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.kernels import KernelSet

_ASSEMBLED = ("x86_64", "amd64")


@contextmanager
def library_for(hardware: Hardware, compiled: bool = False) -> Iterator[CompiledLibrary | None]:
    """A library of compiled kernels, for as long as it is needed; None: no library is.

    compiled: also where machine code can be made, to compare the two. Raises CalibrationError.
    """
    if hardware.architecture in _ASSEMBLED and not compiled:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="roofline-") as folder:
        yield compile_library(Path(folder))


def kernel_set(hardware: Hardware, library: CompiledLibrary | None) -> KernelSet:
    """Raises CalibrationError where the CPU or the system cannot run them."""
    return CompiledKernels(library) if library else AssembledKernels(hardware.flags)
