"""All kernels of a compiled library, as it lists them."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from roofline_agent.calibrate.compiled.compiler import CompiledLibrary
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.kernels import (
    Code,
    Form,
    PeakKernel,
    StreamKernel,
    X,
    Y,
    bfloat,
    describe_peak,
    vector,
)

_STAMPS_HZ = 1e9  # nanoseconds of the system's clock
_OUTER_WIDTH = 256
_ARGUMENTS = 6


class _Row(ctypes.Structure):
    """`struct kernel` of kernels.c."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("operation", ctypes.c_char_p),
        ("variant", ctypes.c_char_p),
        ("precision", ctypes.c_char_p),
        ("width", ctypes.c_int),
        ("chains", ctypes.c_int),
        ("updates", ctypes.c_int),
        ("flops", ctypes.c_int),
        ("function", ctypes.c_void_p),
    )


class ListedKernel(NamedTuple):
    """A row of the library's list, explained in kernels.c."""

    name: str
    operation: str
    variant: str
    precision: str
    width: int
    chains: int
    updates: int
    flops: int
    address: int


class CompiledFunction:
    """A kernel of the library. A call releases Python's global lock."""

    def __init__(self, address: int) -> None:
        self._function = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * _ARGUMENTS)(address)

    def __call__(self, *arguments: int) -> None:
        self._function(*arguments, *[0] * (_ARGUMENTS - len(arguments)))

    def close(self) -> None:
        pass


class CompiledKernels:
    """See `kernels.KernelSet`."""

    def __init__(self, library: CompiledLibrary) -> None:
        """Raises CalibrationError where it cannot be loaded."""
        self._compiler = library.compiler
        try:
            self._library = ctypes.CDLL(str(library.path))
        except OSError as error:
            raise CalibrationError(
                f"the compiled measuring code cannot be loaded ({error}); if the directory for temporary "
                "files forbids executable ones (mount option noexec), set TMPDIR to another"
            ) from error
        self._kernels = read_list(self._library)

    @property
    def method(self) -> str:
        return f"C compiled by {self._compiler}; clock by a chain of dependent additions right after each run"

    def forms(self, precision: str) -> tuple[Form, ...]:
        widths = {k.width for k in self._peaks(precision) if k.operation != "mmla"}
        return tuple(Form("c", width, precision) for width in sorted(widths))

    def _peaks(self, precision: str) -> list[ListedKernel]:
        return [kernel for kernel in self._kernels.values() if kernel.flops and kernel.precision == precision]

    def has_fma(self, form: Form) -> bool:
        return any(k.width == form.width and k.operation == "fma" for k in self._peaks(form.precision))

    def peak_kernel(self, form: Form, fused: bool = True) -> PeakKernel:
        operation = "mul_add"
        if form.precision == "bf16":
            operation = "dot"
        elif fused and self.has_fma(form):
            operation = "fma"
        same_width = [k for k in self._peaks(form.precision) if k.width == form.width]
        listed = next(k for k in same_width if k.operation == operation)
        instructions = "scalar" if form.is_scalar else "vector"
        return PeakKernel(
            form=form,
            name="scalar" if form.is_scalar else str(form.width),
            operation=operation,
            code=listed.name,
            chains=listed.chains,
            updates_per_iteration=listed.updates,
            flops_per_iteration=listed.flops,
            operands=vector(form, X) + vector(form, Y),
            sums_bytes=listed.chains * form.bytes,
            text=describe_peak(form, operation, instructions, listed.chains),
        )

    @property
    def multiplies_matrices(self) -> bool:
        return any(kernel.operation == "mmla" for kernel in self._kernels.values())

    def matrix_kernel(self) -> PeakKernel:
        listed = next(kernel for kernel in self._kernels.values() if kernel.operation == "mmla")
        flops = listed.flops // (listed.chains * listed.updates)
        vector_bytes = listed.width // 8
        return PeakKernel(
            form=Form("c", 0, listed.precision),
            name="mmla",
            operation="mmla",
            code=listed.name,
            chains=listed.chains,
            updates_per_iteration=listed.updates,
            flops_per_iteration=listed.flops,
            operands=bfloat(X) * (vector_bytes // 2) + bfloat(Y) * (vector_bytes // 2),
            sums_bytes=listed.chains * vector_bytes,
            text=(
                f"BFMMLA products of bf16 matrices added to f32, {listed.chains} independent sums, "
                f"{flops} FLOP a product"
            ),
        )

    def stream_kernel(self, operation: str, streaming: bool, outer: bool) -> StreamKernel:
        found = [k for k in self._kernels.values() if k.operation == operation]
        if outer:
            found = [k for k in found if k.width <= _OUTER_WIDTH]
        variants = {k.variant for k in found}
        stores = "normal stores"
        if streaming and "past" in variants:
            variant = "past"
            stores = "non-temporal stores, by which nothing needs to be read to be overwritten"
        elif operation == "read" and outer:
            variant = "ahead"
        else:
            variant = ""
        chosen = max((k for k in found if k.variant == variant), key=lambda k: k.width)
        return StreamKernel(
            form=Form("c", chosen.width, "f64"),
            operation=operation,
            streaming=variant == "past",
            code=chosen.name,
            block_bytes=chosen.updates * chosen.width // 8,
            stores=stores,
        )

    def load(self, code: Code) -> CompiledFunction:
        assert isinstance(code, str)
        return CompiledFunction(self._kernels[code].address)

    def stamps_hz(self) -> float | None:
        return _STAMPS_HZ


def read_list(library: ctypes.CDLL) -> dict[str, ListedKernel]:
    """The kernels of a library by name, as `roofline_kernels` lists them."""
    # The length is not known: a row without a name is the end.
    rows = ctypes.cast(library.roofline_kernels, ctypes.POINTER(_Row))
    found: dict[str, ListedKernel] = {}
    at = 0
    while rows[at].name:
        row = rows[at]
        name = row.name.decode()
        found[name] = ListedKernel(
            name,
            row.operation.decode(),
            row.variant.decode(),
            row.precision.decode(),
            row.width,
            row.chains,
            row.updates,
            row.flops,
            row.function,
        )
        at += 1
    return found
