"""Turns one line of MKL's verbose output into a kernel call.

    MKL_VERBOSE SGEMM(T,N,256,16,4096,0x7ffc,0x7f6a,4096,0x55a6,4096,0x7ffd,0x55a7,256) 734.89us CNR:OFF ...

FLOPs of a matrix product are 2mnk, and 8mnk for complex numbers, whose precision is named by their parts.
Traffic is A and B read and C written once: whether C is read too depends on beta, which is printed as an
address. Counted are GEMM in its types, GEMM_COMPUTE (packed operands), GEMM_BATCH and GEMM_BATCH_STRIDED
where their sizes are printed (before 2025 GEMM_BATCH prints addresses only), GEMV, and the products of
symmetric and triangular matrices. Every other routine is a call whose FLOPs are not known.

A call on an Intel GPU ends with that, and may have its name in SYCL's interface, where a queue and a layout
come first; of these only GEMM is counted. Its time is 0.00s or nan unless MKL_VERBOSE is 2: unknown, here 0.

    MKL_VERBOSE oneapi::mkl::blas::dgemm(0x7f,ColumnMajor,NonTranspose,NonTranspose,24,6,12,...) 1.2ms GPU0

The lines carry no time of day.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..records import KernelCall, KernelShape
from . import blas
from .descriptors import ELEMENT_BITS

_TOKEN = "MKL_VERBOSE "
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ROUTINE = rf"{_TOKEN}(?!Intel\(R\))({_NAME})\("
_SYCL_ROUTINE = rf"{_TOKEN}(?!Intel\(R\))({_NAME}(?:::{_NAME}|\[[^\]]*\]|<[^>]*>)*)\("
_TIME = r"([0-9]+\.?[0-9]*(?:e[+-]?[0-9]{1,2})?)([num]?s)"
_EXECUTED = re.compile(_SYCL_ROUTINE)
# Old versions cut long argument lists off, closing parenthesis included.
_TIMED = re.compile(rf"{_ROUTINE}(.*?)\)? {_TIME}(?:\s|$)")
# The times of the host and of the GPU are named by newer versions.
_TIMED_ON_GPU = re.compile(
    rf"{_SYCL_ROUTINE}(.*?)\)? (?:(?:[a-z]+:\S* ){{0,4}}device:)?(?:{_TIME}|nan)(?:\s|$)"
)
_ADDRESS = re.compile(r"(?<![0-9A-Za-z])0x[0-9a-fA-F]*|\(nil\)")
_ARGUMENT = re.compile(r"\{[^}]*\}|[^,]+")
_INTEGER = re.compile(r"[0-9]{1,12}")

_GEMM = re.compile(
    r"(CBLAS_)?(?:([SDCZH])GEMM(3M)?|GEMM_(BF16|F16|[SU]8|S16)(BF16|F16|[SU]8|S16)(F32|S32))"
    r"(_COMPUTE|_BATCH|_BATCH_STRIDED)?"
)
_SYCL_GEMM = re.compile(r"oneapi::mkl::blas::(?:(?:column|row)_major::)?(?:([sdczh])gemm|gemm\[([^\]]*)\])")
_SYCL_LETTERS = {
    "s": "S", "d": "D", "c": "C", "z": "Z", "h": "H",
    "float": "S", "double": "D", "std::complex<float>": "C", "std::complex<double>": "Z", "half": "H",
    "sycl::half": "H",
}  # fmt: skip
_LAYOUT = re.compile(r"(?:column|row)_?major", re.IGNORECASE)
_GEMV = re.compile(r"(CBLAS_)?([SDCZ])GEMV")

_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_MAX_NANOSECONDS = 1e15
_LETTER_TYPE = {"S": "f32", "D": "f64", "C": "f32", "Z": "f64", "H": "f16"}
_DISTINCT_LINES = 8192
_LONG_LINE = 4096  # characters; not remembered, lest hostile ones fill the memory
_MAX_COUNT = 2**63 - 1  # counts travel in 8 bytes; no call comes near, a garbled line may


class _Types(NamedTuple):
    """Element types of a product's operands; complex elements are two of them."""

    a: str
    b: str
    c: str
    is_complex: bool = False

    def flops(self, multiply_adds: int) -> int:
        return multiply_adds * (8 if self.is_complex else 2)

    def bytes(self, a: int, b: int, c: int) -> int:
        bits = a * ELEMENT_BITS[self.a] + b * ELEMENT_BITS[self.b] + c * ELEMENT_BITS[self.c]
        return bits * (2 if self.is_complex else 1) // 8


class _ProductWork(NamedTuple):
    flops: int
    bytes: int


def parse(line: str) -> KernelCall | None:
    """The call a line reports, or None if it reports none or cannot be understood. Never raises."""
    token = line.rfind(_TOKEN)  # where threads' lines ran into each other the last one is whole
    match = _TIMED.match(line, token) if token >= 0 else None
    on_gpu = " GPU" in line and token >= 0 and " GPU" in line[match.end() - 1 if match else token :]
    if match is None and on_gpu:
        match = _TIMED_ON_GPU.match(line, token)
    if match is None:
        return None
    routine, arguments, time, unit = match.groups()
    duration_ns = float(time) * _NANOSECONDS[unit] if time else 0.0
    if duration_ns > _MAX_NANOSECONDS:
        return None
    # Addresses change from call to call; without them equal calls are equal.
    arguments = _ADDRESS.sub("*", arguments)
    make = _shape if len(arguments) < _LONG_LINE else _shape.__wrapped__
    shape = make(routine, arguments)
    if on_gpu:
        shape = shape._replace(on_gpu=True, counted=False)
    return KernelCall(shape, None, round(duration_ns))


def looks_executed(line: str) -> bool:
    """Whether the line claims to be a routine's call, understood or not."""
    return _EXECUTED.search(line) is not None


@lru_cache(maxsize=_DISTINCT_LINES)
def _shape(routine: str, arguments: str) -> KernelShape:
    return _shape_in_sycl(routine, arguments) if "::" in routine else _shape_in_blas(routine, arguments)


def _shape_in_sycl(routine: str, arguments: str) -> KernelShape:
    gemm = _SYCL_GEMM.fullmatch(routine)
    letter = _SYCL_LETTERS.get(gemm[1] or gemm[2]) if gemm else None
    if letter is None:
        operation = routine.partition("[")[0].rpartition("::")[2]
        return _kernel(operation.lower(), "", routine, arguments, None)
    values = _ARGUMENT.findall(arguments)[1:]  # without the queue
    if values and _LAYOUT.fullmatch(values[0]):
        del values[0]
    types = _letter_types(letter)
    return _kernel("gemm", types.a, routine, arguments, _gemm_work(values[2:], types))


def _shape_in_blas(routine: str, arguments: str) -> KernelShape:
    gemm = _GEMM.fullmatch(routine.upper())
    if gemm:
        return _gemm_shape(gemm, routine, arguments)
    gemv = _GEMV.fullmatch(routine.upper())
    if gemv:
        types = _letter_types(gemv[2])
        first = 2 if gemv[1] else 1
        sizes = _integers(_ARGUMENT.findall(arguments)[first : first + 2])
        work = None
        if len(sizes) == 2:
            m, n = sizes
            # A and two vectors; the transpose decides which of these is read, but not their size in all.
            work = _ProductWork(types.flops(m * n), types.bytes(m * n, m, n))
        return _kernel("gemv", types.a, routine, arguments, work)
    product = blas.product(routine, _ARGUMENT.findall(arguments))
    if product:
        types = _letter_types(product.letter)
        work = None
        if product.multiply_adds is not None and product.elements is not None:
            flops = round(product.multiply_adds * types.flops(1))
            work = _ProductWork(flops, types.bytes(product.elements, 0, 0))
        return _kernel(product.operation, types.a, routine, arguments, work)
    return _kernel(routine.lower(), "", routine, arguments, None)


def _gemm_shape(name: re.Match[str], routine: str, arguments: str) -> KernelShape:
    types = _letter_types(name[2]) if name[2] else _Types(name[4].lower(), name[5].lower(), name[6].lower())
    # Before m, n, k: two transposes, a layout in C's interface, the kind of offset in integer products.
    first = 2 + bool(name[1]) + (name[6] == "S32")
    values = _ARGUMENT.findall(arguments)
    variant = name[7] or ""
    if variant == "_BATCH":
        work = _batch_work(values, types, first)
    elif variant == "_BATCH_STRIDED":
        work = _strided_work(values, types, first)
    else:
        work = _gemm_work(values[first:], types)
    note = "8mnk as for a conventional product; three real products do it" if name[3] else ""
    operation = "gemm_batch" if "BATCH" in variant else "gemm"
    return _kernel(operation, types.a, routine, arguments, work, note)


def _kernel(
    operation: str, precision: str, routine: str, arguments: str, work: _ProductWork | None, note: str = ""
) -> KernelShape:
    if work is not None and max(work) > _MAX_COUNT:
        work = None
    return KernelShape(
        library="mkl",
        operation=operation,
        variant="",
        precision=precision,
        implementation=routine,
        problem=arguments,
        flops=None if work is None else work.flops,
        bytes=None if work is None else work.bytes,
        note=note,
    )


def _letter_types(letter: str) -> _Types:
    element = _LETTER_TYPE[letter]
    return _Types(element, element, element, letter in "CZ")


def _gemm_work(values: list[str], types: _Types) -> _ProductWork | None:
    """values: m, n, k and what follows."""
    sizes = _integers(values[:3])
    if len(sizes) != 3:
        return None
    m, n, k = sizes
    return _ProductWork(types.flops(m * n * k), types.bytes(m * k, k * n, m * n))


def _strided_work(values: list[str], types: _Types, first: int) -> _ProductWork | None:
    """m,n,k,alpha,A,lda,stride,B,ldb,stride,beta,C,ldc,stride,batch; a stride of 0 uses one matrix again."""
    values = values[first:]
    sizes = _integers([*values[:3], *values[6:7], *values[9:10], *values[14:]])
    if len(values) != 15 or len(sizes) != 6:
        return None
    m, n, k, stride_a, stride_b, batch = sizes
    a, b = (batch if stride else 1 for stride in (stride_a, stride_b))
    return _ProductWork(types.flops(m * n * k * batch), types.bytes(m * k * a, k * n * b, m * n * batch))


def _batch_work(values: list[str], types: _Types, first: int) -> _ProductWork | None:
    """m,n,k,alpha,A,lda,B,ldb,beta,C,ldc,groups,products per group; `{8,4}` lists a value per group."""
    values = values[first:]
    if len(values) != 13:
        return None
    columns = [_integers(value.strip("{}").split(",")) for value in (*values[:3], values[12])]
    if {str(len(column)) for column in columns} != {values[11]}:
        return None
    groups = list(zip(*columns, strict=True))
    a = sum(m * k * products for m, _, k, products in groups)
    b = sum(k * n * products for _, n, k, products in groups)
    c = sum(m * n * products for m, n, _, products in groups)
    return _ProductWork(types.flops(sum(map(prod, groups))), types.bytes(a, b, c))


def _integers(values: list[str]) -> list[int]:
    """All of `values` as numbers, or nothing if one is an address."""
    return [int(value) for value in values] if all(map(_INTEGER.fullmatch, values)) else []
