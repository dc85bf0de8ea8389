"""CPU time, memory and threads of known amounts."""

from __future__ import annotations

import mmap
import threading
import time

from ..spinning import spin
from .done import Amount, Quantities, amounts

SPIN_NS, SLEEP_S = 500_000_000, 0.5
MEMORY_BYTES, THREADS = 64 << 20, 6
_MADV_NOHUGEPAGE = getattr(mmap, "MADV_NOHUGEPAGE", None)


def spin_once() -> Quantities:
    return {"cpu_ns": spin(SPIN_NS)}


def sleep() -> Quantities:
    """No CPU time, of as much as passed."""
    begin = time.perf_counter_ns()
    time.sleep(SLEEP_S)
    return {"cpu_ns": Amount(0.0, float(time.perf_counter_ns() - begin))}


class MemoryWork:
    """Pages that are touched for the first time, and threads that wait."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._threads: list[threading.Thread] = []
        self._end = threading.Event()

    def prepare(self) -> bool:
        """Give back what is there."""
        had = self._memory is not None
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._threads, self._end = [], threading.Event()
        return had

    def do(self) -> Quantities:
        # Huge pages would make one fault of 512.
        self._memory = mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if _MADV_NOHUGEPAGE is not None:
            self._memory.madvise(_MADV_NOHUGEPAGE)
        for at in range(0, MEMORY_BYTES, mmap.PAGESIZE):
            self._memory[at] = 1
        self._threads = [threading.Thread(target=self._end.wait, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()
        faults = MEMORY_BYTES // mmap.PAGESIZE
        return amounts(memory_bytes=MEMORY_BYTES, faults=faults, threads=THREADS)
