"""The machine code that multiplies and adds in registers, with the FLOPs of one turn of its loop.

Pure: which kernel for which CPU flags, and its bytes. All kernels follow the System V AMD64 calling
convention, take only whole numbers and addresses, touch no callee-saved register and leave the upper halves
of the vector registers clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roofline_agent.calibrate.assembled import assembler
from roofline_agent.calibrate.assembled.assembler import RDI, RDX, RSI, Operand
from roofline_agent.calibrate.kernels import Form, PeakKernel, X, Y, describe_peak, vector

# Best first. Linux lists a flag in /proc/cpuinfo only if it also saves the registers that come with it, so
# a flag that is there may be used.
_NEEDED_FLAGS = {
    "avx512f": frozenset({"avx512f", "avx", "fma"}),
    "fma": frozenset({"avx", "fma"}),
    "avx": frozenset({"avx"}),
    "sse2": frozenset({"sse2"}),
    "avx512_fp16": frozenset({"avx512f", "avx512vl", "avx512_fp16", "avx"}),
    "avx512_bf16": frozenset({"avx512f", "avx512vl", "avx512_bf16", "avx"}),
}
_WIDTHS = {
    "avx512f": (512,),
    "fma": (0, 128, 256),
    "avx": (0, 128, 256),
    "sse2": (0, 128),
    "avx512_fp16": (0, 128, 256, 512),
    "avx512_bf16": (128, 256, 512),
}  # 0: scalars
_OF_PRECISION = {
    "f32": ("avx512f", "fma", "avx", "sse2"),
    "f64": ("avx512f", "fma", "avx", "sse2"),
    "f16": ("avx512_fp16",),
    "bf16": ("avx512_bf16",),
}
_NAMES = {"avx512f": "AVX-512", "fma": "FMA3", "avx": "AVX", "sse2": "SSE2"}
_FUSED = ("avx512f", "fma", "avx512_fp16")

# An FMA takes 4 or 5 cycles and two start each cycle on the CPUs available, so 10 chains hide the latency;
# the rest is margin. 16 registers leave room for 12 chains, the 32 of EVEX for 24.
_CHAINS_EVEX, _CHAINS = 24, 12
# Multiply-adds in one turn of the peak loop: enough that counting and jumping cost nothing measurable.
_PEAK_UNROLL = 48
# A line that starts a 64-byte block is fetched and cached as decoded instructions in the fewest pieces.
LOOP_ALIGNMENT = 64


def usable_forms(flags: frozenset[str], precision: str) -> tuple[Form, ...]:
    """From scalar to the widest vectors that a CPU with these flags has, each in its best instructions."""
    element = Form("", 0, precision).element_bytes * 8
    found: dict[int, Form] = {}
    for instructions in _OF_PRECISION[precision]:
        for width in _WIDTHS[instructions]:
            form = Form(instructions, width or element, precision)
            if needed_flags(form) <= flags:
                found.setdefault(form.width, form)
    return tuple(form for _, form in sorted(found.items()))


def without_fma(form: Form) -> Form:
    """The form for multiplying and adding by an instruction each, with vectors of the same width."""
    return form._replace(instructions="avx") if form.instructions == "fma" else form


def has_fma(form: Form) -> bool:
    return form.instructions in _FUSED


def needed_flags(form: Form) -> frozenset[str]:
    """The flags of /proc/cpuinfo without which a kernel of this form must not run."""
    return _NEEDED_FLAGS[form.instructions]


def peak_kernel(form: Form, fused: bool = True) -> PeakKernel:
    """As many multiply-adds a cycle as the CPU starts: no memory traffic, no chain waiting for another.

    fused: False for a multiplication and an addition even where there is FMA.
    """
    chains = _CHAINS_EVEX if assembler.is_evex(form) else _CHAINS
    x, y, scratch = chains, chains + 1, chains + 2
    operation, step = _step(form, fused)
    sums = [(chain, Operand(RDX, chain * form.bytes)) for chain in range(chains)]
    head = assembler.load(form, x, Operand(RSI)) + assembler.load(form, y, Operand(RSI, form.bytes))
    head += join(assembler.load(form, register, memory) for register, memory in sums)
    body = join(step(i % chains, x, y, scratch + i % 2) for i in range(_PEAK_UNROLL))
    code = aligned(head) + assembler.repeat(RDI, body)
    code += join(assembler.store(form, memory, register) for register, memory in sums)
    updates = _PEAK_UNROLL // chains
    instructions = _NAMES.get(form.instructions, form.instructions.upper())
    return PeakKernel(
        form=form,
        name="scalar" if form.is_scalar else str(form.width),
        operation=operation,
        code=code + leave(form),
        chains=chains,
        updates_per_iteration=updates,
        flops_per_iteration=2 * form.lanes * _PEAK_UNROLL,
        operands=vector(form, X) + vector(form, Y),
        sums_bytes=chains * form.bytes,
        text=describe_peak(form, operation, instructions, chains),
    )


def _step(form: Form, fused: bool) -> tuple[str, Callable[[int, int, int, int], bytes]]:
    """The operation, and the code of target += x * y in as many instructions as the instruction set needs."""
    if form.precision == "bf16":
        return "dot", lambda target, x, y, scratch: assembler.dot_bf16(form, target, x, y)
    if fused and has_fma(form):
        return "fma", lambda target, x, y, scratch: assembler.fused_multiply_add(form, target, x, y)
    return "mul_add", lambda target, x, y, scratch: _multiply_add(form, target, x, y, scratch)


def multiply_add(form: Form, target: int, x: int, y: int, scratch: int) -> bytes:
    """target += x * y, fused where the form has it."""
    return _step(form, fused=True)[1](target, x, y, scratch)


def _multiply_add(form: Form, target: int, x: int, y: int, scratch: int) -> bytes:
    if form.instructions == "sse2":
        product = assembler.copy(scratch, x) + assembler.multiply(form, scratch, scratch, y)
    else:
        product = assembler.multiply(form, scratch, x, y)
    return product + assembler.add(form, target, target, scratch)


def aligned(head: bytes, before_body: int = 0) -> bytes:
    """The head, padded so that the body of the loop behind it starts at an aligned address.

    before_body: bytes between the start of the outer loop's body and the inner loop, where there are two.
    """
    heads = assembler.LOOP_HEAD_BYTES + (before_body + assembler.LOOP_HEAD_BYTES if before_body else 0)
    return head + assembler.NOP * (-(len(head) + heads) % LOOP_ALIGNMENT)


def leave(form: Form) -> bytes:
    # Dirty upper halves would slow the SSE code of whoever called.
    return (b"" if form.instructions == "sse2" else assembler.VZEROUPPER) + assembler.RET


def join(instructions: Iterable[bytes]) -> bytes:
    return b"".join(instructions)
