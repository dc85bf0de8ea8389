"""Tells the hooks in a rank whether the wrapper wants notes of borders in the rank's output.

MKL's verbose lines carry no time; a note at each border lets the wrapper place them. A rank in which MKL
prints nothing is spared them: each takes a microsecond there, and has to be read here.
"""

from __future__ import annotations

import contextlib
import mmap
import os

from ..hooks import NOTES

ENOUGH = 1000  # notes without a line of MKL's between them


class Notes:
    """One byte that a rank's hooks look at; wanted until it is known that nobody needs them."""

    def __init__(self) -> None:
        self.environ: dict[str, str] = {}  # variables for the rank; without them it always notes
        self._byte: mmap.mmap | None = None
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.memfd_create("roofline-notes")
            os.write(self._file, b"\1")
            self._byte = mmap.mmap(self._file, 1)
            self.environ = {NOTES: f"/proc/{os.getpid()}/fd/{self._file}"}

    def want(self, alone: int) -> bool:
        """Say whether notes are wanted, `alone` of which came since MKL's last line; the answer."""
        wanted = self._byte is None or alone < ENOUGH
        if self._byte is not None:
            self._byte[0] = wanted
        return wanted

    def close(self) -> None:
        """The rank has ended."""
        if self._byte is not None:
            self._byte.close()
            os.close(self._file)
            self._byte = None
