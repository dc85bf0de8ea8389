"""The clock that a core really had: dependent additions, one a cycle on every x86-64 CPU, timed in place.

They run in the same call as the kernel and right behind it, when a core that slowed down for wide vectors is
still slow (it takes about 0.7 ms to recover). So a virtual machine without counters sees its clock too. Time
is the time stamp counter's, whose own rate is measured against the system's clock over the calibration.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import closing

from roofline_agent.calibrate.assembled import assembler
from roofline_agent.calibrate.assembled.assembler import R9, R11, RCX, RSI, Operand
from roofline_agent.calibrate.kernels import CLOCK_ADDITIONS_A_TURN, CLOCK_TURNS, STAMPS_OFFSET
from roofline_agent.calibrate.memory import Buffer, Executable

NEEDED_FLAGS = frozenset({"tsc", "constant_tsc"})


def with_probe(code: bytes) -> bytes:
    """The kernel, followed by the additions and both their time stamps, which go to its block (r9)."""
    assert code.endswith(assembler.RET)
    chain = assembler.add_register(RSI, RCX) * CLOCK_ADDITIONS_A_TURN
    probe = assembler.move_immediate(R11, CLOCK_TURNS) + assembler.move(RSI, RCX)
    probe += assembler.store_time_stamp(Operand(R9, STAMPS_OFFSET)) + assembler.repeat(R11, chain)
    probe += assembler.store_time_stamp(Operand(R9, STAMPS_OFFSET + 8))
    return code.removesuffix(assembler.RET) + probe + assembler.RET


class TickRate:
    """Ticks of the time stamp counter in a second, better the longer ago it was made."""

    def __init__(self) -> None:
        self._begin = _now()

    def hz(self) -> float:
        (ticks, ns), (ticks_before, ns_before) = _now(), self._begin
        return (ticks - ticks_before) * 1e9 / (ns - ns_before)


def _now() -> tuple[int, int]:
    """Time stamp and ns at about the same moment: the closest of several pairs."""
    code = assembler.store_time_stamp(Operand(R9)) + assembler.RET
    shortest_ns, closest = 1 << 62, (0, 0)
    with closing(Executable(code)) as read, closing(Buffer(8)) as buffer:
        for _ in range(20):
            before = time.perf_counter_ns()
            read(0, 0, 0, 0, 0, buffer.address)
            after = time.perf_counter_ns()
            if after - before < shortest_ns:
                shortest_ns = after - before
                closest = ctypes.c_uint64.from_address(buffer.address).value, (before + after) // 2
    return closest
