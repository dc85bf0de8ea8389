"""How long processes were stopped by a signal or a debugger: their state, looked at some four times a second.

At jittered moments: a fixed beat would fall in with pulses that have one. A process that was seen stopped is
looked at ten times a second for a while. The time is that of the stretches between two looks, half of one
that ends in another state than it began: right in the mean, within a tenth of a second or two for each stop.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

SELDOM_S, OFTEN_S = (0.15, 0.35), (0.05, 0.15)  # between two looks
OFTEN_FOR_NS = 10_000_000_000  # after a stop

Key = tuple[int, int]  # pid, start


class _Watched:
    """One process, and since when it is in the state it was seen in last."""

    def __init__(self, path: str, now_ns: int) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.stopped_ns, self._looked_ns = 0, now_ns
        self.often_until_ns = 0
        try:
            self._stopped = self._is_stopped()
        except BaseException:  # it has just ended
            self.close()
            raise

    def _is_stopped(self) -> bool:
        data = os.pread(self._file, 512, 0)
        return data[data.rindex(b")") + 2 :][:1] in (b"T", b"t")

    def look(self, now_ns: int) -> None:
        stopped = self._is_stopped()
        if stopped or self._stopped:
            self.stopped_ns += (now_ns - self._looked_ns) * (stopped + self._stopped) // 2
            self.often_until_ns = now_ns + OFTEN_FOR_NS
        self._stopped, self._looked_ns = stopped, now_ns

    def close(self) -> None:
        os.close(self._file)


class Stops:
    """Watches processes in a thread of its own, from the first that it is given."""

    def __init__(self, proc: str, clock: Callable[[], int], seed: int | None = None) -> None:
        self._proc, self._clock = proc, clock
        self._random = random.Random(seed)
        self._watched: dict[Key, _Watched] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._all_due_ns = 0

    def watch(self, wanted: set[Key]) -> None:
        """From now on these processes and no others."""
        if wanted == self._watched.keys():
            return
        with self._lock:
            for key in self._watched.keys() - wanted:
                self._watched.pop(key).close()
            for key in wanted - self._watched.keys():
                try:
                    # Of the main thread alone, which is stopped with the others: the kernel adds nothing up.
                    path = f"{self._proc}/{key[0]}/task/{key[0]}/stat"
                    self._watched[key] = _Watched(path, self._clock())
                except (OSError, ValueError):
                    continue  # it has just gone
        if self._thread is None and self._watched:
            self._thread = threading.Thread(target=self._run, name="stops", daemon=True)
            self._thread.start()

    def stopped_ns(self, key: Key) -> int | None:
        """How long it was stopped since it is watched; None if it is not."""
        found = self._watched.get(key)
        return None if found is None else found.stopped_ns

    def look(self) -> float:
        """Look at those whose turn it is; seconds until the next look."""
        now = self._clock()
        everyone = now >= self._all_due_ns
        if everyone:
            self._all_due_ns = now + int(self._random.uniform(*SELDOM_S) * 1e9)
        often = False
        with self._lock:
            for one in self._watched.values():
                if everyone or one.often_until_ns > now:
                    try:
                        one.look(self._clock())
                    except (OSError, ValueError):
                        continue  # it has gone; `watch` will say so
                often = often or one.often_until_ns > now
        pause = (self._all_due_ns - now) / 1e9 if self._watched else 1.0
        return min(pause, self._random.uniform(*OFTEN_S)) if often else pause

    def _run(self) -> None:
        while not self._end.wait(self.look()):
            pass

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.watch(set())
