from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path

import pytest
from roofline_agent.calibrate import memory
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.memory import Buffer, Executable


def mode_at(address: int) -> str:
    """The protection of the page at an address, as in /proc/self/maps."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, mode = line.split()[:2]
        low, high = (int(end, 16) for end in extent.split("-"))
        if low <= address < high:
            return mode
    raise LookupError(hex(address))


def test_code_is_not_writable_once_it_is_executable() -> None:
    with closing(Executable(b"\xc3")) as run:
        assert mode_at(run.address) == "r-xp"


def test_buffers_are_private_so_that_the_kernel_may_give_huge_pages() -> None:
    with closing(Buffer(4096)) as buffer:
        buffer.ask_for_huge_pages()
        assert mode_at(buffer.address) == "rw-p"


def test_fill_reaches_every_byte() -> None:
    with closing(Buffer(10_000)) as buffer:
        buffer.fill(0x3F)
        assert buffer.read(10_000) == b"\x3f" * 10_000


def test_forbidden_executable_memory_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real policies (SELinux, seccomp) can't be set for one test.
    def forbid(address: int, size: int) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(memory, "make_executable", forbid)
    with pytest.raises(CalibrationError, match=r"Permission denied.*SELinux.*MemoryDenyWriteExecute"):
        Executable(b"\xc3")


def test_failing_mprotect_raises_its_errno() -> None:
    with closing(Buffer(4096)) as buffer, pytest.raises(OSError, match="Invalid argument"):
        memory.make_executable(buffer.address + 1, 10)


def test_buffer_larger_than_the_address_space_is_explained() -> None:
    with pytest.raises(CalibrationError, match="no memory for a buffer"):
        Buffer(1 << 62)
