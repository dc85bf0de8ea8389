"""What the processes of a run used and lacked of the machine, read from outside while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import psutil

from ..benchmarks import quiet
from .outside import Taken

EVERY_S = 0.4


class Watch:
    """Reads the ranks' CPU time and scheduler delay until it is ended, and which processes are this run's."""

    def __init__(self) -> None:
        self.cpu: dict[str, Taken] = {}
        self.delay: dict[str, Taken] = {}
        self.others = 0.0
        self._ours = {os.getpid()}
        self._pids: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def begin(self, pids: dict[str, int]) -> None:
        """pids: by rank."""
        self._pids = pids
        self.cpu = {rank: Taken([], []) for rank in pids}
        self.delay = {rank: Taken([], []) for rank in pids}
        self._before = quiet.usage()
        self._thread.start()

    def end(self) -> None:
        """While the run's processes are still there. others: the share of the machine that strangers took."""
        if not self._pids:
            return
        after = quiet.usage()
        self._over.set()
        self._thread.join()
        self.others = sum(quiet.noise(self._before, after, self._ours, os.cpu_count() or 1))

    def _read(self) -> None:
        while True:
            self._ours |= {process.pid for process in psutil.Process().children(recursive=True)}
            for rank, pid in self._pids.items():
                with contextlib.suppress(OSError):  # it has ended
                    _note(self.cpu[rank], quiet.cpu_ns(pid) / 1e9)
                    _note(self.delay[rank], delay_s(pid))
            if self._over.wait(EVERY_S):
                return


def delay_s(pid: int) -> float:
    """Seconds that threads of a process were runnable and had no CPU."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9


def _note(taken: Taken, seconds: float) -> None:
    taken.times_ns.append(time.monotonic_ns())
    taken.seconds.append(seconds)
