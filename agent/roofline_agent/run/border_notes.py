"""Informs the hooks in a rank whether to print notes of step borders into the rank's output.

MKL's verbose lines carry no time; a note at each border lets the wrapper place them. A rank in which MKL
prints nothing is spared the notes: each takes a microsecond there, and has to be read here.
"""

from __future__ import annotations

import contextlib
import mmap
import os

from ..hooks import NOTES

ENOUGH = 1000  # notes without a line of MKL's between them


class BorderNotes:
    """One byte that a rank's hooks read: 1 while notes are wanted, which holds until they prove useless."""

    def __init__(self) -> None:
        self.environ: dict[str, str] = {}  # variables for the rank; without them its hooks always print notes
        self._byte: mmap.mmap | None = None
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.memfd_create("roofline-notes")
            os.write(self._file, b"\1")
            self._byte = mmap.mmap(self._file, 1)
            self.environ = {NOTES: f"/proc/{os.getpid()}/fd/{self._file}"}

    def update(self, unused: int) -> bool:
        """Switch notes off after many `unused` ones, printed since MKL's last line; whether they are on."""
        wanted = self._byte is None or unused < ENOUGH
        if self._byte is not None:
            self._byte[0] = wanted
        return wanted

    def close(self) -> None:
        """The rank has ended."""
        if self._byte is not None:
            self._byte.close()
            os.close(self._file)
            self._byte = None
