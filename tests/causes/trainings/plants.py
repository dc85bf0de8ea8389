"""What holds a rank up, planted inside its own process, with what it really took. Standard library only."""

from __future__ import annotations

import gc
import mmap
import os
import random
import time
from pathlib import Path

GC_EVERY = 4  # steps between two collections: each takes so many times the amount
FILE_BYTES, READ_BYTES = 64 << 20, 128 << 10


class Plant:
    """Nothing planted; the others do more. taken: seconds of each step."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._now = 0.0

    def load(self) -> None:
        """Called where a batch is made."""

    def step(self) -> None:
        """Called between a batch and its forward pass."""

    def end_step(self) -> None:
        self.taken.append(self._now)
        self._now = 0.0

    def _sleep(self, seconds: float) -> None:
        begin = time.perf_counter()
        time.sleep(seconds)
        self._now += time.perf_counter() - begin


class SleepInput(Plant):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def load(self) -> None:
        self._sleep(self.amount)


class SleepStep(Plant):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def step(self) -> None:
        self._sleep(self.amount)


class Python(Plant):
    """The same number of turns of a loop in each step."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        trial = 20_000
        self.turns = int(trial * amount / min(self._spin(trial) for _ in range(7)))

    def step(self) -> None:
        self._now += self._spin(self.turns)

    @staticmethod
    def _spin(turns: int) -> float:
        begin, number = time.thread_time(), 1
        for _ in range(turns):
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        return time.thread_time() - begin


class Garbage(Plant):
    """A heap of so many objects that a full collection every GC_EVERY steps takes the amount a step."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        bare = self._collected()
        self.heap = [[] for _ in range(100_000)]
        for _ in range(2):  # the second time from a heap of about the right size
            each = max(1e-9, (self._collected() - bare) / len(self.heap))
            self.heap = [[] for _ in range(max(1, int((amount * GC_EVERY - bare) / each)))]

    def step(self) -> None:
        if len(self.taken) % GC_EVERY == 0:
            self._now += self._collected()

    @staticmethod
    def _collected() -> float:
        begin = time.thread_time()
        gc.collect()
        return time.thread_time() - begin


class Disk(Plant):
    """Reads past the page cache where batches are made, until the amount is over."""

    def __init__(self, amount: float, folder: Path) -> None:
        super().__init__()
        self.amount = amount
        path = folder / "read"
        with open(path, "wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        self.file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, READ_BYTES)  # aligned, as O_DIRECT asks

    def load(self) -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.amount:
            # Fewer bytes where less time is left: one read takes a fraction of a millisecond and more.
            place = random.randrange(FILE_BYTES // READ_BYTES) * READ_BYTES
            os.preadv(self.file, [self.buffer], place)
        self._now += time.perf_counter() - begin


def plant(cause: str, amount: float, folder: Path) -> Plant:
    """What a rank has; of causes that come from outside or are in the data nothing."""
    if cause == "disk":
        return Disk(amount, folder)
    kinds = {"sleep_input": SleepInput, "sleep_step": SleepStep, "python": Python, "gc": Garbage}
    return kinds[cause](amount) if cause in kinds else Plant()
