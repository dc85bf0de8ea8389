"""How long processes were stopped by a signal or a debugger.

A process whose main thread ran, or was ready to run, all the time since it was asked last was not stopped:
the kernel's own account of that thread shows it, once a second. Only the others are looked at, some four
times a second, at jittered moments: a fixed beat would fall in with pulses that have one. A process that was
seen stopped is looked at ten times a second for a while. The time is that of the stretches between two looks;
a stretch that ends in a different state than it began counts half: right in the mean, within a tenth of a
second or two for each stop. A busy thread's first stop of less than a second may pass unseen.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable

SELDOM_S, OFTEN_S = (0.15, 0.35), (0.05, 0.15)  # between two looks
OFTEN_FOR_NS = 10_000_000_000  # after a stop
ASK_NS = 900_000_000  # a thread's account is asked so seldom
UNACCOUNTED, MOST_UNACCOUNTED_NS = 20, 100_000_000  # a part of the time, and so much at most, proves no stop

Key = tuple[int, int]  # pid, start


class _Watched:
    """One process, and since when it is in the state it was seen in last."""

    def __init__(self, directory: str, now_ns: int) -> None:
        """directory: of the main thread alone, which is stopped with the others: the kernel adds nothing
        up for it."""
        self._file = os.open(f"{directory}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._account = -1
        with contextlib.suppress(OSError):  # a kernel without it
            self._account = os.open(f"{directory}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self.stopped_ns, self._looked_ns = 0, now_ns
        self.often_until_ns = 0
        self.needs_looks = True
        try:
            self._stopped = self._is_stopped()
            self._asked_ns, self._accounted_ns = now_ns, self._account_ns()
        except BaseException:  # it has just ended
            self.close()
            raise

    def _is_stopped(self) -> bool:
        data = os.pread(self._file, 512, 0)
        return data[data.rindex(b")") + 2 :][:1] in (b"T", b"t")

    def _account_ns(self) -> int:
        """How long the thread ran, and was ready to run without a CPU; 0: this is not known."""
        if self._account < 0:
            return 0
        run, delay, _ = os.pread(self._account, 64, 0).split(b" ", 2)
        return int(run) + int(delay)

    def ask(self, now_ns: int) -> None:
        """Find out by its account whether it needs looks, if it was not asked just now."""
        elapsed = now_ns - self._asked_ns
        if elapsed < ASK_NS:
            return
        before, self._asked_ns, self._accounted_ns = self._accounted_ns, now_ns, self._account_ns()
        unaccounted = elapsed - (self._accounted_ns - before)
        needed_looks = self.needs_looks
        is_proven = unaccounted <= min(elapsed // UNACCOUNTED, MOST_UNACCOUNTED_NS)
        self.needs_looks = self.often_until_ns > now_ns or not is_proven
        if self.needs_looks and not needed_looks:
            self._looked_ns, self._stopped = now_ns, self._is_stopped()
            if self._stopped:  # it was busy until then
                self.stopped_ns += unaccounted
                self.often_until_ns = now_ns + OFTEN_FOR_NS

    def look(self, now_ns: int) -> None:
        stopped = self._is_stopped()
        if stopped or self._stopped:
            self.stopped_ns += (now_ns - self._looked_ns) * (stopped + self._stopped) // 2
            self.often_until_ns = now_ns + OFTEN_FOR_NS
        self._stopped, self._looked_ns = stopped, now_ns

    def close(self) -> None:
        os.close(self._file)
        if self._account >= 0:
            os.close(self._account)


class Stops:
    """Watches processes, in a thread of its own those that must be looked at."""

    def __init__(self, proc: str, clock: Callable[[], int], seed: int | None = None) -> None:
        self._proc, self._clock = proc, clock
        self._random = random.Random(seed)
        self._watched: dict[Key, _Watched] = {}
        self._lock = threading.Lock()
        self._end = False
        self._wake = threading.Event()  # somebody needs looks, or this is the end
        self._thread: threading.Thread | None = None
        self._all_due_ns = 0

    def watch(self, wanted: set[Key]) -> None:
        """From now on these processes and no others. To be called again, about once a second."""
        with self._lock:
            for key in self._watched.keys() - wanted:
                self._watched.pop(key).close()
            for key in wanted - self._watched.keys():
                try:
                    directory = f"{self._proc}/{key[0]}/task/{key[0]}"
                    self._watched[key] = _Watched(directory, self._clock())
                except (OSError, ValueError):
                    continue  # it has just gone
            for one in self._watched.values():
                with contextlib.suppress(OSError, ValueError):  # likewise
                    one.ask(self._clock())
            needed = any(one.needs_looks for one in self._watched.values())
        if needed and not self._wake.is_set():
            self._wake.set()
        if self._thread is None and self._watched:
            self._thread = threading.Thread(target=self._run, name="stops", daemon=True)
            self._thread.start()

    def stopped_ns(self, key: Key) -> int | None:
        """How long it was stopped since it is watched; None if it is not."""
        found = self._watched.get(key)
        return None if found is None else found.stopped_ns

    def look(self) -> float | None:
        """Look at those whose turn it is; seconds until the next look, None: nobody needs any."""
        now = self._clock()
        everyone = now >= self._all_due_ns
        if everyone:
            self._all_due_ns = now + int(self._random.uniform(*SELDOM_S) * 1e9)
        often = needed = False
        with self._lock:
            for one in self._watched.values():
                if not one.needs_looks:
                    continue
                needed = True
                if everyone or one.often_until_ns > now:
                    try:
                        one.look(self._clock())
                    except (OSError, ValueError):
                        continue  # it has gone; `watch` will say so
                often = often or one.often_until_ns > now
            if not needed:
                self._wake.clear()
                return None
        pause = (self._all_due_ns - now) / 1e9
        return min(pause, self._random.uniform(*OFTEN_S)) if often else pause

    def _run(self) -> None:
        while not self._end:
            pause = self.look()
            if pause is not None:
                time.sleep(pause)
            elif not self._end:  # set before it is woken
                self._wake.wait()

    def close(self) -> None:
        self._end = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.watch(set())
