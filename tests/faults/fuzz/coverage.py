"""Which lines of the product a sample of inputs reaches. Those that reach new ones are mutated further."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from .kept import keep, kept_in, unpacked
from .mutate import mutated

SAMPLED = 0.02  # of all inputs; tracing makes one ten times as slow
FROM_CORPUS = 0.3  # of all inputs, as soon as there is one
MOST = 500  # inputs in a corpus
PRODUCT = tuple(f"{Path(__file__).parents[3] / name}/" for name in ("agent", "server", "proto"))
LINES = "lines.json"
Line = tuple[str, int]
T = TypeVar("T")


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

    def feed(self, feed: Callable[[list[bytes]], T], parts: list[bytes]) -> T:
        """Feed it, and see what it reaches."""
        before = len(self.lines)
        sys.settrace(self._trace)
        try:
            return feed(parts)
        finally:
            sys.settrace(None)
            if len(self.lines) > before and parts:
                self.inputs.append(parts)
                del self.inputs[:-MOST]

    def load(self, folder: Path, code: str, feed: Callable[[list[bytes]], Any], seconds: float) -> None:
        """Take up what `save` has left. code: version of the product. Of another one what the inputs reach is
        looked at again, for so long."""
        inputs = [unpacked(path.read_bytes()) for path in kept_in(folder)][-MOST:]
        known = json.loads((folder / LINES).read_text()) if (folder / LINES).exists() else {}
        if known.get("code") == code:
            self.lines, self.inputs = {(file, number) for file, number in known["lines"]}, inputs
            return
        end = time.monotonic() + seconds
        for parts in inputs:
            if time.monotonic() > end:
                break
            with contextlib.suppress(Exception):  # what fails is found again
                self.feed(feed, parts)

    def save(self, folder: Path, code: str) -> None:
        for parts in self.inputs:
            keep(folder, parts)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LINES).write_text(json.dumps({"code": code, "lines": sorted(self.lines)}))

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename.startswith(PRODUCT) else None

    def _trace_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace_line
