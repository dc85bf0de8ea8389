"""What a measuring kernel is, whoever made it: `assembled` from machine code, or `compiled` from C.

Pure. A kernel is a function of six whole numbers and addresses; the last is that of a block of memory of one
CPU's own, at least BLOCK_BYTES long:

      0   f64 x 8  the factor of the triad, in every lane
     64   i64      bytes of one pass through an array
     72   u64 x 2  clock stamps around CLOCK_ADDITIONS dependent additions, which follow the kernel
    128            the sums of `read`
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

BLOCK_BYTES = 128
BYTES_OFFSET, STAMPS_OFFSET, SUMS_OFFSET = 64, 72, 128
CONSTANTS_BYTES = 1024  # a block with room for the sums
CLOCK_TURNS, CLOCK_ADDITIONS_A_TURN = 800, 64  # some 20 us
CLOCK_ADDITIONS = CLOCK_TURNS * CLOCK_ADDITIONS_A_TURN

OPERATIONS = ("read", "copy", "triad")
# As STREAM counts them (McCalpin 1995): what the loop asks for. With normal stores a cache reads each line
# before it is overwritten (write-allocate), so that 8 bytes more an element cross the memory bus;
# non-temporal stores go past the caches, and what is counted is what moves.
BYTES_PER_ELEMENT = {"read": 8, "copy": 16, "triad": 24}
_ARRAYS = {"read": 1, "copy": 2, "triad": 3}

# Long mantissas: multipliers fed with ones draw less power and may clock higher than in real work.
X, Y = 0.7310585786300049, 1.2345678901234567

_ELEMENT_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}

# Machine code, or the name of a function of a compiled library.
Code = bytes | str


class Form(NamedTuple):
    """Which instructions, of which width, on which numbers."""

    instructions: str  # "sse2", "avx", "fma", "avx512f", "avx512_fp16", "avx512_bf16", "amx"; "c": compiled
    width: int  # bits: 128, 256, 512, or the element's own 16, 32 or 64 for a scalar; 0: whole matrices
    precision: str  # "f32", "f64", "f16" or "bf16"

    @property
    def element_bytes(self) -> int:
        return _ELEMENT_BYTES[self.precision]

    @property
    def bytes(self) -> int:
        return self.width // 8

    @property
    def lanes(self) -> int:
        return self.bytes // self.element_bytes

    @property
    def is_scalar(self) -> bool:
        return self.lanes == 1


class PeakKernel(NamedTuple):
    """f(iterations, operands, sums, 0, 0, block): adds x * y to every lane of each sum, several times a turn.

    `operands` holds x and y, `sums` one vector for each of the independent chains; those of a dot product of
    bf16 hold f32, to each of which two products are added.
    """

    form: Form
    name: str  # of its width in that of its ceiling: "scalar", "512", "amx"
    operation: str  # "fma", "mul_add", "dot", "amx" or "mmla"
    code: Code
    chains: int
    updates_per_iteration: int  # of each chain
    flops_per_iteration: int
    operands: bytes
    sums_bytes: int
    text: str  # what it does, for the method of a ceiling


class StreamKernel(NamedTuple):
    """f(passes, blocks, a, b, c, block): `passes` times through `blocks` x `block_bytes` of each array.

    read: the sum of a; copy: a = b; triad: a = b + scale * c. All f64; a is aligned to the vector.
    """

    form: Form
    operation: str
    streaming: bool  # non-temporal stores
    code: Code
    block_bytes: int  # of each array
    stores: str  # which, for the method of a ceiling

    @property
    def arrays(self) -> int:
        return _ARRAYS[self.operation]

    @property
    def bytes_per_element(self) -> int:
        return BYTES_PER_ELEMENT[self.operation]


class Function(Protocol):
    """A kernel that can be called. A call releases Python's global lock."""

    def __call__(self, *arguments: int) -> None: ...

    def close(self) -> None: ...


class KernelSet(Protocol):
    """All kernels that there are for a CPU."""

    @property
    def method(self) -> str:
        """How they came to be and how the clock is measured, for the method of a ceiling."""

    def forms(self, precision: str) -> tuple[Form, ...]:
        """From scalar to the widest vectors, each in its best instructions."""

    def has_fma(self, form: Form) -> bool: ...

    def peak_kernel(self, form: Form, fused: bool = True) -> PeakKernel:
        """fused: False for a multiplication and an addition even where there is FMA."""

    @property
    def multiplies_matrices(self) -> bool:
        """Whether the CPU has instructions for products of small matrices of bf16."""

    def matrix_kernel(self) -> PeakKernel:
        """Products of small matrices of bf16. Raises CalibrationError where the system forbids them."""

    def stream_kernel(self, operation: str, streaming: bool, outer: bool) -> StreamKernel:
        """outer: for memory beyond the second level of cache; streaming: only where there are such stores."""

    def load(self, code: Code) -> Function:
        """Raises CalibrationError."""

    def stamps_hz(self) -> float | None:
        """Clock stamps in a second; None: the kernels leave none."""


def vector(form: Form, value: float) -> bytes:
    """The number in every lane, as it lies in memory."""
    if form.precision == "bf16":
        return bfloat(value) * form.lanes
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[form.precision], value) * form.lanes


def bfloat(value: float) -> bytes:
    """The upper half of the f32: bf16, cut and not rounded."""
    return struct.pack("<f", value)[2:]


def describe_peak(form: Form, operation: str, instructions: str, chains: int) -> str:
    """What a kernel on vectors does, for the method of its ceiling."""
    if operation == "dot":
        what, counted = "dot products of bf16 pairs added to f32", "4 FLOP per f32 lane"
    else:
        what = "fused multiply-add" if operation == "fma" else "multiply, then add"
        counted = "2 FLOP per lane and multiply-add"
    shape = "scalars" if form.is_scalar else f"{form.width}-bit vectors"
    return f"{instructions} {what} on {shape} in registers, {chains} independent chains, {counted}"


def constants(kernel: StreamKernel, scale: float, blocks: int) -> bytes:
    """What a stream kernel finds in its block."""
    packed = struct.pack("<8d", *[scale] * 8) + struct.pack("<q", blocks * kernel.block_bytes)
    return packed.ljust(CONSTANTS_BYTES, b"\0")


def cycles_per_stamp(block: bytes) -> float | None:
    """Core cycles in a tick of the stamps' clock, from what a kernel left; None: it left none.

    A dependent addition takes one cycle on every CPU that there are kernels for.
    """
    begin, end = struct.unpack_from("<QQ", block, STAMPS_OFFSET)
    return CLOCK_ADDITIONS / (end - begin) if end > begin else None
