"""A page of memory that a wrapped rank's hooks read: whether they should print notes of step borders, what
the wrapper and the agent cost, so that the hooks keep the whole within the budget, whether the agent asks for
kernels of fewer steps, and which steps the framework's profiler should record (hooks/tracing.py).

MKL's verbose lines carry no time; a note at each border lets the wrapper place them. A rank in which MKL
prints nothing is spared the notes: each takes a microsecond there, and has to be read here.
"""

from __future__ import annotations

import contextlib
import mmap
import os

from ..hooks import NOTES
from ..hooks.kernel_switch import FEWER_AT, LINES_AT, OTHERS, OTHERS_AT
from ..hooks.tracing import LENGTH_AT, MOST_REQUEST, REQUEST_AT, SERIAL_AT

ENOUGH = 1000  # notes without a line of MKL's between them


class RankPage:
    """Written here, read by the hooks. Notes are wanted until they prove useless."""

    def __init__(self) -> None:
        self.environ: dict[str, str] = {}  # variables for the rank; without them its hooks always print notes
        self._page: mmap.mmap | None = None
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.memfd_create("roofline-rank")
            os.ftruncate(self._file, mmap.PAGESIZE)
            self._page = mmap.mmap(self._file, mmap.PAGESIZE)
            self._page[0] = self._page[LINES_AT] = True
            self.environ = {NOTES: f"/proc/{os.getpid()}/fd/{self._file}"}

    def want_notes(self, unused: int, reads: bool = True) -> bool:
        """Switch notes off after many `unused` ones, printed since MKL's last line, and for as long as nobody
        `reads` such lines; whether they are on."""
        wanted = self._page is None or (reads and unused < ENOUGH)
        if self._page is not None:
            self._page[0] = wanted
        return wanted

    def show_cost(self, share: float) -> None:
        """The share of the time that the wrapper and the agent take."""
        if self._page is not None:
            OTHERS.pack_into(self._page, OTHERS_AT, min(round(1e6 * share), 10**6))

    def ask_for_fewer(self, times: int) -> None:
        """Kernels of so many times fewer steps; 1: of as many as they cost."""
        if self._page is not None:
            OTHERS.pack_into(self._page, FEWER_AT, times)

    def want_lines(self, wanted: bool) -> None:
        """Whether lines of kernels are read that hooks do not switch by steps."""
        if self._page is not None:
            self._page[LINES_AT] = wanted

    def ask_for_trace(self, request: str) -> bool:
        """Have steps recorded, as hooks/tracing.py reads it; False: hooks cannot be asked."""
        text = request.encode()
        if self._page is None or len(text) > MOST_REQUEST:
            return False
        self._page[REQUEST_AT : REQUEST_AT + len(text)] = text
        self._page[LENGTH_AT : LENGTH_AT + 2] = len(text).to_bytes(2, "little")
        self._page[SERIAL_AT] = self._page[SERIAL_AT] % 255 + 1  # last: from here on it is seen
        return True

    def withdraw_trace(self) -> None:
        """Nobody waits for it any more: the command may start other processes that mark steps."""
        self.ask_for_trace("")

    def close(self) -> None:
        """The rank has ended."""
        if self._page is not None:
            self._page.close()
            os.close(self._file)
            self._page = None
