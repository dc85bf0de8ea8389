"""Which lines of the product a sample of inputs reaches. Those that reach new ones are mutated further."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .mutate import mutated

SAMPLED = 0.02  # of all inputs; tracing makes one ten times as slow
FROM_CORPUS = 0.3  # of all inputs, as soon as there is one
MOST = 500  # inputs in a corpus
PRODUCT = tuple(f"{Path(__file__).parents[3] / name}/" for name in ("agent", "server", "proto"))
Line = tuple[str, int]


class Corpus:
    """Inputs that reached a line that no sampled one before them did."""

    def __init__(self) -> None:
        self.lines: set[Line] = set()
        self.inputs: list[list[bytes]] = []

    def make(self, make: Callable[[random.Random], list[bytes]], chance: random.Random) -> list[bytes]:
        """A new input, of the target or of one that is kept here."""
        if not self.inputs or chance.random() > FROM_CORPUS:
            return make(chance)
        parts = list(chance.choice(self.inputs))
        at = chance.randrange(len(parts))
        parts[at] = mutated(parts[at], parts, chance, most=2) or b"\0"
        return parts

    def feed(self, feed: Callable[[list[bytes]], None], parts: list[bytes]) -> None:
        """Feed it, and see what it reaches."""
        before = len(self.lines)
        sys.settrace(self._trace)
        try:
            feed(parts)
        finally:
            sys.settrace(None)
            if len(self.lines) > before and parts:
                self.inputs.append(parts)
                del self.inputs[:-MOST]

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename.startswith(PRODUCT) else None

    def _trace_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace_line
