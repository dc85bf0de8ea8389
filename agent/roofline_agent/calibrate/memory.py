"""Anonymous private memory with a known address: buffers to stream through, and machine code to call."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

from roofline_agent.calibrate.errors import CalibrationError

_MOST_ARGUMENTS = 6  # as many as the calling convention passes in registers


class Buffer:
    """Zeroed memory from the kernel, page-aligned; no page is there before it is first touched."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Python's default is MAP_SHARED, whose pages are seldom huge.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        try:
            self._mapping = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        except (OSError, OverflowError) as error:
            raise CalibrationError(
                f"no memory for a buffer of {size} bytes ({error}); free some or raise the limit (ulimit -v)"
            ) from error
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))

    def close(self) -> None:
        self._mapping.close()

    def write(self, content: bytes) -> None:
        self._mapping[: len(content)] = content

    def read(self, size: int) -> bytes:
        return self._mapping[:size]

    def ask_for_huge_pages(self) -> None:
        """With 4 KiB pages the triad would measure the page walker too."""
        # A kernel without them answers EINVAL.
        with contextlib.suppress(OSError):
            self._mapping.madvise(mmap.MADV_HUGEPAGE)

    def fill(self, byte: int) -> None:
        """Touch every page. On a NUMA machine the pages come to lie at the CPU that this runs on."""
        ctypes.memset(self.address, byte, self.size)


class Executable(Buffer):
    """Machine code to call with whole numbers and addresses. A call releases Python's global lock.

    The memory is never writable and executable at once. Raises CalibrationError where the system forbids
    executable memory altogether.
    """

    def __init__(self, code: bytes) -> None:
        super().__init__(len(code))
        self.write(code)
        try:
            make_executable(self.address, self.size)
        except OSError as error:
            self.close()
            raise CalibrationError(
                f"the measuring code may not be made executable ({error.strerror}): a security policy of "
                "this system forbids it (SELinux execmem, systemd MemoryDenyWriteExecute, a seccomp filter); "
                "calibrate outside that policy, for example from a shell, and keep the saved result"
            ) from error
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * _MOST_ARGUMENTS)
        self._function = prototype(self.address)

    def __call__(self, *arguments: int) -> None:
        self._function(*arguments, *[0] * (_MOST_ARGUMENTS - len(arguments)))


def make_executable(address: int, size: int) -> None:
    """mprotect(address, size, PROT_READ | PROT_EXEC); raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
