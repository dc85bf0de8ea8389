from __future__ import annotations

import struct
from contextlib import closing

import pytest
from roofline_agent.calibrate.assembled import assembler, clock
from roofline_agent.calibrate.assembled.clock import TickRate, with_probe
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernels import BLOCK_BYTES, cycles_per_stamp
from roofline_agent.calibrate.memory import Buffer, Executable


def require_constant_ticks() -> None:
    try:
        missing = clock.NEEDED_FLAGS - this_hardware().flags
    except CalibrationError as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")


def test_cycles_are_additions_over_ticks() -> None:
    block = struct.pack("<72xQQ", 1_000, 1_000 + 25_600)
    assert cycles_per_stamp(block) == 51_200 / 25_600


def test_probe_that_never_ran_tells_no_clock() -> None:
    assert cycles_per_stamp(b"\0" * BLOCK_BYTES) is None


def test_probe_of_a_real_core_tells_a_clock_of_some_gigahertz() -> None:
    require_constant_ticks()
    ticks = TickRate()
    seen = []
    with closing(Executable(with_probe(assembler.RET))) as run, closing(Buffer(BLOCK_BYTES)) as block:
        for _ in range(200):
            run(0, 0, 0, 0, 0, block.address)
            cycles = cycles_per_stamp(block.read(BLOCK_BYTES))
            assert cycles is not None
            seen.append(cycles * ticks.hz())
    # A stolen CPU makes some too low, nothing makes one too high; a chain that was shortened while registers
    # are renamed would give several times what a core can have.
    assert 0.5e9 < max(seen) < 8e9


def test_probe_keeps_what_the_kernel_did() -> None:
    require_constant_ticks()
    kernel = assembler.move_to_memory(assembler.Operand(assembler.RDX), assembler.RDI) + assembler.RET
    with closing(Executable(with_probe(kernel))) as run, closing(Buffer(256)) as memory:
        run(42, 0, memory.address, 0, 0, memory.address + 128)
        assert struct.unpack_from("<Q", memory.read(8)) == (42,)
