"""How far a command is: one line on a terminal, a few times a second; nothing elsewhere."""

from __future__ import annotations

import sys
import time

FIRST_S, NEXT_S = 1.0, 0.2


class ProgressLine:
    """Messages that are printed in between clear it first."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = time.monotonic() + FIRST_S
        self._drawn = False

    def show(self, text: str) -> None:
        if self._shown and time.monotonic() >= self._next:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._next, self._drawn = time.monotonic() + NEXT_S, True

    def clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False
