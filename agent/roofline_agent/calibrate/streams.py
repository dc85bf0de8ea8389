"""The machine code that reads, copies and scales memory, with the bytes of one turn of its loop.

Bytes are counted as STREAM does (McCalpin 1995): what the loop asks for. With normal stores a cache reads
each line before it is overwritten (write-allocate), so that 8 bytes more an element cross the memory bus;
non-temporal stores go past the caches, and what is counted is what moves.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from roofline_agent.calibrate import assembler, kernels
from roofline_agent.calibrate.assembler import R8, R9, R10, R11, RCX, RDI, RDX, RSI, Form, Memory

OPERATIONS = ("read", "copy", "triad")
_ELEMENT_BYTES = {"read": 8, "copy": 16, "triad": 24}
_POINTERS = {"read": (RDX,), "copy": (RDX, RCX), "triad": (RDX, RCX, R8)}
# Additions take up to 4 cycles and two start each cycle; 12 sums leave room in 16 registers.
READ_CHAINS = 12
_UNROLL = 4
_CACHE_LINE = 64
# The hardware prefetcher stops at each 4 KiB page, which costs one core reading one stream a fifth of its
# bandwidth; asked for this far ahead, the lines arrive in time. The triad's two streams gain nothing by it,
# and within the inner caches it only takes the place of loads.
_READ_AHEAD = 2048

# The constants behind r9: the factor in every lane, then the bytes of one pass; the sums of `read` stand
# behind the room that the clock's probe uses.
_BYTES_OFFSET = 64
_SUMS_OFFSET = 128
CONSTANTS_BYTES = 1024
_SCALE_REGISTER = 15


class StreamKernel(NamedTuple):
    """f(passes, blocks, a, b, c, constants): `passes` times through `blocks` x `block_bytes` of each array.

    read: the sum of a; copy: a = b; triad: a = b + scale * c. All f64; a is aligned to the vector.
    """

    form: Form
    operation: str
    streaming: bool  # non-temporal stores
    code: bytes
    block_bytes: int  # of each array
    arrays: int
    bytes_per_element: int  # counted, as STREAM does


def stream_kernel(
    form: Form, operation: str, streaming: bool = False, prefetch: bool = False
) -> StreamKernel:
    """prefetch: lines are asked for ahead of reading; only `read` gains by it."""
    pointers = _POINTERS[operation]
    chains = READ_CHAINS if operation == "read" else _UNROLL
    block = chains * form.bytes
    steps = [_step(form, operation, streaming, prefetch, i) for i in range(chains)]
    turn = kernels.join(steps) + _advance(pointers, block)
    again = assembler.move(R11, RSI)
    rewind = kernels.join(assembler.subtract(pointer, R10) for pointer in pointers)
    head = assembler.move(R10, Memory(R9, _BYTES_OFFSET)) + _load_constants(form, operation)
    code = kernels.aligned(head, len(again))
    code += assembler.repeat(RDI, again + assembler.repeat(R11, turn) + rewind)
    # Until the fence, stored data may still wait in the CPU's write-combining buffers.
    code += (_store_sums(form) if operation == "read" else assembler.SFENCE) + kernels.leave(form)
    return StreamKernel(form, operation, streaming, code, block, len(pointers), _ELEMENT_BYTES[operation])


def constants(kernel: StreamKernel, scale: float, blocks: int) -> bytes:
    """What the kernel finds at its last argument."""
    packed = struct.pack("<8d", *[scale] * 8) + struct.pack("<q", blocks * kernel.block_bytes)
    return packed.ljust(CONSTANTS_BYTES, b"\0")


def sums(form: Form, content: bytes) -> list[float]:
    """What `read` added up, from its constants after the call: one sum for each lane of each chain."""
    count = READ_CHAINS * form.lanes
    return list(struct.unpack_from(f"<{count}d", content, _SUMS_OFFSET))


def _load_constants(form: Form, operation: str) -> bytes:
    if operation == "triad":
        return assembler.load(form, _SCALE_REGISTER, Memory(R9))
    return kernels.join(assembler.load(form, r, m) for r, m in _sums(form)) if operation == "read" else b""


def _store_sums(form: Form) -> bytes:
    return kernels.join(assembler.store(form, memory, register) for register, memory in _sums(form))


def _sums(form: Form) -> list[tuple[int, Memory]]:
    return [(chain, Memory(R9, _SUMS_OFFSET + chain * form.bytes)) for chain in range(READ_CHAINS)]


def _step(form: Form, operation: str, streaming: bool, prefetch: bool, position: int) -> bytes:
    offset = position * form.bytes
    if operation == "read":
        step = assembler.add(form, position, position, Memory(RDX, offset))
        ahead = prefetch and not offset % _CACHE_LINE
        return step + assembler.prefetch(Memory(RDX, offset + _READ_AHEAD)) if ahead else step
    step = assembler.load(form, position, Memory(RCX, offset))
    if operation == "triad":
        factor, scratch = _UNROLL + position, 2 * _UNROLL
        step += assembler.load(form, factor, Memory(R8, offset))
        step += kernels.multiply_add(form, position, factor, _SCALE_REGISTER, scratch)
    store = assembler.store_streaming if streaming else assembler.store
    return step + store(form, Memory(RDX, offset), position)


def _advance(pointers: tuple[int, ...], count: int) -> bytes:
    return kernels.join(assembler.add_immediate(pointer, count) for pointer in pointers)
