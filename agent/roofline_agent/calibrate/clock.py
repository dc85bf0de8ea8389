"""The clock that a core really had: dependent additions, one a cycle on every x86-64 CPU, timed in place.

They run in the same call as the kernel and right behind it, when a core that slowed down for wide vectors is
still slow (it takes about 0.7 ms to recover). So a virtual machine without counters sees its clock too. Time
is the time stamp counter's, whose own rate is measured against the system's clock over the calibration.
"""

from __future__ import annotations

import ctypes
import struct
import time
from contextlib import closing

from roofline_agent.calibrate import assembler
from roofline_agent.calibrate.assembler import R9, R11, RCX, RSI, Memory
from roofline_agent.calibrate.memory import Executable
from roofline_agent.calibrate.memory import Memory as Buffer

NEEDED_FLAGS = frozenset({"tsc", "constant_tsc"})
METHOD = "clock by a chain of dependent additions right after each run"
BLOCK_BYTES = 128  # at the kernel's last argument (r9)
_BEGIN, _END = 72, 80  # where in it the time stamps go
_TURNS, _ADDITIONS = 800, 64  # some 20 us


def with_probe(code: bytes) -> bytes:
    """The kernel, followed by the additions and both their time stamps, which go to r9 + 72 and r9 + 80."""
    assert code.endswith(assembler.RET)
    chain = assembler.add_register(RSI, RCX) * _ADDITIONS
    probe = assembler.move_immediate(R11, _TURNS) + assembler.move(RSI, RCX)
    probe += assembler.store_time_stamp(Memory(R9, _BEGIN)) + assembler.repeat(R11, chain)
    probe += assembler.store_time_stamp(Memory(R9, _END))
    return code.removesuffix(assembler.RET) + probe + assembler.RET


def cycles_per_tick(block: bytes) -> float | None:
    """Core cycles in a tick of the time stamp counter, from what a probe left; None: it never ran."""
    begin, end = struct.unpack_from("<QQ", block, _BEGIN)
    return _TURNS * _ADDITIONS / (end - begin) if end > begin else None


class TickRate:
    """Ticks of the time stamp counter in a second, better the longer ago it was made."""

    def __init__(self) -> None:
        self._begin = _now()

    def hz(self) -> float:
        (ticks, ns), (ticks_before, ns_before) = _now(), self._begin
        return (ticks - ticks_before) * 1e9 / (ns - ns_before)


def _now() -> tuple[int, int]:
    """Time stamp and ns at about the same moment: the closest of several pairs."""
    code = assembler.store_time_stamp(Memory(R9)) + assembler.RET
    with closing(Executable(code)) as read, closing(Buffer(8)) as buffer:
        return min((_pair(read, buffer) for _ in range(20)), key=lambda pair: pair[1])[0]


def _pair(read: Executable, buffer: Buffer) -> tuple[tuple[int, int], int]:
    before = time.perf_counter_ns()
    read(0, 0, 0, 0, 0, buffer.address)
    after = time.perf_counter_ns()
    ticks = ctypes.c_uint64.from_address(buffer.address).value
    return (ticks, (before + after) // 2), after - before
