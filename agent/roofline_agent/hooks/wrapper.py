"""The wrapper that has started this rank (`roofline-agent run`), as hooks know it: the page of memory that it
writes (run/rank_page.py), and the rank's output, which it reads."""

from __future__ import annotations

import os
from typing import Any, Optional

from .signals import raise_again
from .tracing import NO_PAGE

try:
    from fcntl import fcntl
except ImportError:  # a Python built without it
    fcntl = None  # type: ignore[assignment]

# The wrapper sets this signal (F_SETSIG) on its pipe for the rank's output. The kernel would send the same
# one without it, so nothing changes, but F_GETSIG returns it for such a file only.
F_GETSIG, STREAM_SIGNAL = 11, 29  # of Linux; SIGIO

NOTES = "ROOFLINE_NOTES"  # names a file whose first byte is 0 while the wrapper wants no notes


class WrappedOutput:
    """The output of this process, in which lines for the wrapper may stand."""

    def __init__(self, stdout: str) -> None:
        """stdout: the wrapper's pipe, as "DEVICE:INODE"; "": nothing goes to a wrapper."""
        self.stdout = stdout

    def write(self, line: bytes) -> bool:
        """Write a line to the output, if that still goes to the wrapper; False: it was not written."""
        try:
            # A flag of the open file shows it soonest.
            ours = fcntl is not None and fcntl(1, F_GETSIG) == STREAM_SIGNAL
            if not ours and self.stdout:
                status = os.fstat(1)
                ours = "%d:%d" % (status.st_dev, status.st_ino) == self.stdout
            if ours:
                os.write(1, line)
            return ours
        except OSError:
            raise_again()
            self.stdout = ""
            return False


def mapped_page(path: Optional[str]) -> Any:
    """The bytes of the file at `path`, as they are whenever they are looked at; 1 where there is none."""
    try:
        import mmap

        file = os.open(path or "", os.O_RDONLY)
        try:
            return mmap.mmap(file, 0, prot=mmap.PROT_READ)
        finally:
            os.close(file)
    except Exception:
        raise_again()
        return b"\1" + NO_PAGE
