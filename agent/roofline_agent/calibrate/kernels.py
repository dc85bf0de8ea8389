"""The machine code of each measurement, with the FLOPs and bytes of one turn of its loop.

Pure: which kernel for which CPU flags, and its bytes. All kernels follow the System V AMD64 calling
convention, take only whole numbers and addresses, touch no callee-saved register and leave the upper halves
of the vector registers clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from roofline_agent.calibrate import assembler
from roofline_agent.calibrate.assembler import R8, R9, RCX, RDI, RDX, RSI, Form, Memory

# Best first. Linux lists a flag in /proc/cpuinfo only if it also saves the registers that come with it, so
# a flag that is there may be used. AVX-512 kernels finish odd elements with a scalar FMA, hence "fma".
_NEEDED_FLAGS = {
    "avx512f": frozenset({"avx512f", "avx", "fma"}),
    "fma": frozenset({"avx", "fma"}),
    "avx": frozenset({"avx"}),
    "sse2": frozenset({"sse2"}),
}
_WIDEST = {"avx512f": 512, "fma": 256, "avx": 256, "sse2": 128}
_DESCRIPTIONS = {
    "avx512f": "AVX-512 fused multiply-add",
    "fma": "fused multiply-add",
    "avx": "AVX multiply and add",
    "sse2": "SSE2 multiply and add",
}

# An FMA takes 4 or 5 cycles and two start each cycle on the CPUs at hand, so 10 chains hide the latency;
# the rest is margin. 16 registers leave room for 12 chains, the 32 of EVEX for 24.
_CHAINS = {"avx512f": 24, "fma": 12, "avx": 12, "sse2": 12}
# Multiply-adds in one turn of the peak loop: enough that counting and jumping cost nothing measurable.
_PEAK_UNROLL = 48
# A line that starts a 64-byte block is fetched and cached as decoded instructions in the fewest pieces.
_LOOP_ALIGNMENT = 64

_TRIAD_UNROLL = 4
_READ_CHAINS = 8
_CACHE_LINE = 64
# The hardware prefetcher stops at each 4 KiB page, which costs one core reading one stream a fifth of its
# bandwidth; asked for this far ahead, the lines arrive in time. The triad's two streams gain nothing by it.
_READ_AHEAD = 2048


class PeakKernel(NamedTuple):
    """f(iterations, operands, sums): adds x * y to every lane of each sum, several times an iteration.

    `operands` holds the vectors x and y, `sums` one vector for each of the independent chains.
    """

    form: Form
    code: bytes
    chains: int
    updates_per_iteration: int  # of each chain
    flops_per_iteration: int


class StreamKernel(NamedTuple):
    """Runs through memory: `blocks` turns of `block_elements` f64 each, then `tail` elements one by one.

    triad: f(blocks, tail, a, b, c, scale): a[i] = b[i] + scale * c[i]; a is aligned to the vector, `scale`
           holds one vector of equal numbers.
    read:  f(blocks, tail, source, sums): adds the elements up in `chains` vectors in `sums` and, for the
           tail, one f64 behind them.
    """

    form: Form
    code: bytes
    block_elements: int
    bytes_per_element: int
    chains: int


def usable_form(flags: frozenset[str], precision: str, width: int) -> Form | None:
    """The best instructions of exactly this width for a CPU with these flags; None if it has none."""
    for instructions, needed in _NEEDED_FLAGS.items():
        if instructions == "avx512f" and width != 512:
            continue
        if needed <= flags and width <= _WIDEST[instructions]:
            return Form(instructions, width, precision)
    return None


def usable_forms(flags: frozenset[str], precision: str) -> tuple[Form, ...]:
    """From scalar to the widest vectors that a CPU with these flags has."""
    widths = (32 if precision == "f32" else 64, 128, 256, 512)
    forms = (usable_form(flags, precision, width) for width in widths)
    return tuple(form for form in forms if form is not None)


def needed_flags(form: Form) -> frozenset[str]:
    """The flags of /proc/cpuinfo without which a kernel of this form must not run."""
    return _NEEDED_FLAGS[form.instructions]


def describe(form: Form) -> str:
    return _DESCRIPTIONS[form.instructions]


def peak_kernel(form: Form) -> PeakKernel:
    """As many multiply-adds a cycle as the CPU starts: no memory traffic, no chain waiting for another."""
    chains = _CHAINS[form.instructions]
    x, y, scratch = chains, chains + 1, chains + 2
    sums = [(chain, Memory(RDX, chain * form.bytes)) for chain in range(chains)]
    head = assembler.load(form, x, Memory(RSI)) + assembler.load(form, y, Memory(RSI, form.bytes))
    head += _join(assembler.load(form, register, memory) for register, memory in sums)
    body = _join(_multiply_add(form, i % chains, x, y, scratch) for i in range(_PEAK_UNROLL))
    code = _aligned(head) + assembler.repeat(RDI, body)
    code += _join(assembler.store(form, memory, register) for register, memory in sums)
    updates = _PEAK_UNROLL // chains
    return PeakKernel(form, code + _leave(form), chains, updates, 2 * form.lanes * _PEAK_UNROLL)


def triad_kernel(form: Form) -> StreamKernel:
    """STREAM's triad with non-temporal stores: 24 bytes an element cross the memory bus, with no line of
    `a` read before it is overwritten (McCalpin 1995 counts the same 24)."""
    scale = 15
    turn = _join(_triad_step(form, i, scale, streaming=True) for i in range(_TRIAD_UNROLL))
    turn += _advance((RDX, RCX, R8), _TRIAD_UNROLL * form.bytes)
    odd = form.scalar()
    rest = _triad_step(odd, 0, scale, streaming=False) + _advance((RDX, RCX, R8), odd.bytes)
    code = _aligned(assembler.load(form, scale, Memory(R9)))
    code += assembler.repeat(RDI, turn) + assembler.repeat(RSI, rest)
    # Until the fence, stored data may still wait in the CPU's write-combining buffers.
    code += assembler.SFENCE + _leave(form)
    return StreamKernel(form, code, _TRIAD_UNROLL * form.lanes, 3 * form.element_bytes, 0)


def read_kernel(form: Form) -> StreamKernel:
    """Every element loaded once and added to one of several sums, so that no load waits for an addition."""
    odd = form.scalar()
    sums = [(chain, form, Memory(RCX, chain * form.bytes)) for chain in range(_READ_CHAINS)]
    sums.append((_READ_CHAINS, odd, Memory(RCX, _READ_CHAINS * form.bytes)))
    turn = _join(_read_step(form, chain, chain * form.bytes) for chain in range(_READ_CHAINS))
    rest = _read_step(odd, _READ_CHAINS, 0)
    code = _aligned(_join(assembler.load(kind, register, memory) for register, kind, memory in sums))
    code += assembler.repeat(RDI, turn + _advance((RDX,), _READ_CHAINS * form.bytes))
    code += assembler.repeat(RSI, rest + _advance((RDX,), odd.bytes))
    code += _join(assembler.store(kind, memory, register) for register, kind, memory in sums)
    code += _leave(form)
    return StreamKernel(form, code, _READ_CHAINS * form.lanes, form.element_bytes, _READ_CHAINS)


def _triad_step(form: Form, position: int, scale: int, *, streaming: bool) -> bytes:
    offset = position * form.bytes
    result, factor, scratch = position, _TRIAD_UNROLL + position, 2 * _TRIAD_UNROLL
    store = assembler.store_streaming if streaming else assembler.store
    return (
        assembler.load(form, result, Memory(RCX, offset))
        + assembler.load(form, factor, Memory(R8, offset))
        + _multiply_add(form, result, factor, scale, scratch)
        + store(form, Memory(RDX, offset), result)
    )


def _read_step(form: Form, chain: int, offset: int) -> bytes:
    loaded = _READ_CHAINS + 1
    step = assembler.load(form, loaded, Memory(RDX, offset)) + assembler.add(form, chain, chain, loaded)
    if form.is_scalar or offset % _CACHE_LINE:
        return step
    return step + assembler.prefetch(Memory(RDX, offset + _READ_AHEAD))


def _multiply_add(form: Form, target: int, x: int, y: int, scratch: int) -> bytes:
    """target += x * y, in as many instructions as the instruction set needs."""
    if form.instructions in ("fma", "avx512f"):
        return assembler.fused_multiply_add(form, target, x, y)
    if form.instructions == "avx":
        product = assembler.multiply(form, scratch, x, y)
    else:
        product = assembler.copy(scratch, x) + assembler.multiply(form, scratch, scratch, y)
    return product + assembler.add(form, target, target, scratch)


def _advance(registers: Iterable[int], count: int) -> bytes:
    return _join(assembler.add_immediate(register, count) for register in registers)


def _aligned(head: bytes) -> bytes:
    """The head, padded so that the body of the loop behind it starts at an aligned address."""
    return head + assembler.NOP * (-(len(head) + assembler.LOOP_HEAD_BYTES) % _LOOP_ALIGNMENT)


def _leave(form: Form) -> bytes:
    # Dirty upper halves would slow the SSE code of whoever called.
    return (b"" if form.instructions == "sse2" else assembler.VZEROUPPER) + assembler.RET


def _join(instructions: Iterable[bytes]) -> bytes:
    return b"".join(instructions)
