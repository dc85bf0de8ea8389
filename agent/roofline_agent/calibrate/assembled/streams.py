"""The machine code that reads, copies and scales memory, with the bytes of one turn of its loop. Pure."""

from __future__ import annotations

import struct

from roofline_agent.calibrate.assembled import assembler, peaks
from roofline_agent.calibrate.assembled.assembler import R8, R9, R10, R11, RCX, RDI, RDX, RSI, Operand
from roofline_agent.calibrate.kernels import BYTES_OFFSET, SUMS_OFFSET, Form, StreamKernel

_POINTERS = {"read": (RDX,), "copy": (RDX, RCX), "triad": (RDX, RCX, R8)}
# Additions take up to 4 cycles and two start each cycle; 12 sums leave room in 16 registers.
READ_CHAINS = 12
_UNROLL = 4
_CACHE_LINE = 64
# The hardware prefetcher stops at each 4 KiB page, which costs one core reading one stream a fifth of its
# bandwidth; asked for this far ahead, the lines arrive in time. The triad's two streams gain nothing by it,
# and within the inner caches it only takes the place of loads.
_READ_AHEAD = 2048

_SCALE_REGISTER = 15


def stream_kernel(
    form: Form, operation: str, streaming: bool = False, prefetch: bool = False
) -> StreamKernel:
    """prefetch: lines are asked for ahead of reading; only `read` gains by it."""
    pointers = _POINTERS[operation]
    chains = READ_CHAINS if operation == "read" else _UNROLL
    block = chains * form.bytes
    turn = _turn(form, operation, streaming, prefetch)
    turn += peaks.join(assembler.add_immediate(pointer, block) for pointer in pointers)
    again = assembler.move(R11, RSI)
    rewind = peaks.join(assembler.subtract(pointer, R10) for pointer in pointers)
    head = assembler.move(R10, Operand(R9, BYTES_OFFSET))
    if operation == "triad":
        head += assembler.load(form, _SCALE_REGISTER, Operand(R9))
    elif operation == "read":
        head += peaks.join(assembler.load(form, register, memory) for register, memory in _sums(form))
    code = peaks.aligned(head, len(again))
    code += assembler.repeat(RDI, again + assembler.repeat(R11, turn) + rewind)
    if operation == "read":
        code += peaks.join(assembler.store(form, memory, register) for register, memory in _sums(form))
    else:
        # Until the fence, stored data may still wait in the CPU's write-combining buffers.
        code += assembler.SFENCE
    stores = "non-temporal stores, so nothing is read to be overwritten" if streaming else "normal stores"
    return StreamKernel(form, operation, streaming, code + peaks.leave(form), block, stores)


def sums(form: Form, content: bytes) -> list[float]:
    """What `read` added up, from its constants after the call: one sum for each lane of each chain."""
    count = READ_CHAINS * form.lanes
    return list(struct.unpack_from(f"<{count}d", content, SUMS_OFFSET))


def _sums(form: Form) -> list[tuple[int, Operand]]:
    return [(chain, Operand(R9, SUMS_OFFSET + chain * form.bytes)) for chain in range(READ_CHAINS)]


def _turn(form: Form, operation: str, streaming: bool, prefetch: bool) -> bytes:
    """A block of each array."""
    turn = b""
    if operation == "read":
        for position in range(READ_CHAINS):
            offset = position * form.bytes
            turn += assembler.add(form, position, position, Operand(RDX, offset))
            if prefetch and not offset % _CACHE_LINE:
                turn += assembler.prefetch(Operand(RDX, offset + _READ_AHEAD))
        return turn
    # All loads before the first store: one behind a store waits where both are alike in their last 12 bits.
    for position in range(_UNROLL):
        offset = position * form.bytes
        if operation == "triad" and peaks.has_fma(form):
            # Loading b by the multiply-add itself: one instruction less, by which the first level is bound.
            turn += assembler.load(form, position, Operand(R8, offset))
            turn += assembler.scale_and_add(form, position, _SCALE_REGISTER, Operand(RCX, offset))
            continue
        turn += assembler.load(form, position, Operand(RCX, offset))
        if operation == "triad":
            factor, scratch = _UNROLL + position, 2 * _UNROLL
            turn += assembler.load(form, factor, Operand(R8, offset))
            turn += peaks.multiply_add(form, position, factor, _SCALE_REGISTER, scratch)
    store = assembler.store_streaming if streaming else assembler.store
    for position in range(_UNROLL):
        turn += store(form, Operand(RDX, position * form.bytes), position)
    return turn
