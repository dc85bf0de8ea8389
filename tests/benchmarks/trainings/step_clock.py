"""The step clock of a training under test: the times of steps' ends, in a file that others read."""

from __future__ import annotations

import argparse
import math
import mmap
import struct
import time
from collections.abc import Callable

CAPACITY = 1 << 20  # steps
_TIME = struct.Struct("<q")  # CLOCK_MONOTONIC in ns; slot 0 holds how many follow


class StepClock:
    """Writes to memory alone, so that it costs a training nothing."""

    def __init__(self, path: str) -> None:
        with open(path, "wb+") as file:
            file.truncate(_TIME.size * (1 + CAPACITY))
            self._map = mmap.mmap(file.fileno(), 0)
        self._count = 0

    def tick(self) -> None:
        """A step has ended now."""
        if self._count < CAPACITY:
            self._count += 1
            _TIME.pack_into(self._map, _TIME.size * self._count, time.monotonic_ns())
            _TIME.pack_into(self._map, 0, self._count)


def read_clock(path: str) -> list[int]:
    """When each step so far has ended (monotonic ns); empty before the first."""
    try:
        with open(path, "rb") as file:
            count = _TIME.unpack(file.read(_TIME.size) or bytes(_TIME.size))[0]
            return list(struct.unpack(f"<{count}q", file.read(_TIME.size * count)))
    except FileNotFoundError:
        return []


def options(description: str | None) -> argparse.ArgumentParser:
    """What each training takes: where to write its clock, and its batch or the step time to find one for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--clock", help="file of the step clock; without it, only the batch is looked for")
    parser.add_argument("--turns", help="file that says in which turns hooks are on (profiled_turns.py)")
    parser.add_argument("--batch", type=int, default=8, help="examples of a step")
    parser.add_argument("--find", type=float, metavar="MS", help="print the batch with steps of so long")
    return parser


TRIALS, CORRECTIONS = (4, 32), 2  # batches; trials of what was found


def find_batch(milliseconds: float, seconds_of: Callable[[int], float]) -> int:
    """The batch with steps of so long, or a little longer. seconds_of: tries a batch."""
    batch = batch_for(milliseconds, {one: seconds_of(one) for one in TRIALS})
    for _ in range(CORRECTIONS):  # steps are not quite in proportion to their batch
        batch = max(1, math.ceil(batch * milliseconds / 1e3 / seconds_of(batch)))
    return batch


def batch_for(milliseconds: float, trials: dict[int, float]) -> int:
    """The batch with steps of so long, as a line through two trials: batch -> seconds of a step."""
    (small, short), (large, long) = sorted(trials.items())
    slope = max((long - short) / (large - small), 1e-9)
    return max(1, round(small + (milliseconds / 1e3 - short) / slope))
