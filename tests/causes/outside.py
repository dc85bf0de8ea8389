"""What is planted from outside of a rank, and other load on the machine; each keeps what it really took.

A plant is begun once the processes of the ranks are known and ended before the result is read.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

HOG_CYCLE_S, STOP_CYCLE_S, QUOTA_PERIOD_US = 0.02, 0.2, 20_000
READ_EVERY_S = 0.1
BURN = """
import os, random, sys, time
low, high, pause_low, pause_high, seed = map(float, sys.argv[1:])
draw, parent = random.Random(seed), os.getppid()
while os.getppid() == parent:  # also where the benchmark was killed
    end = time.thread_time() + draw.uniform(low, high)
    while time.thread_time() < end: sum(range(200))
    time.sleep(draw.uniform(pause_low, pause_high))
"""
SWEEP = """
import os
mine, other, parent = bytearray(64 << 20), bytearray(64 << 20), os.getppid()
while os.getppid() == parent: mine[:] = other
"""


class Taken(NamedTuple):
    """Seconds taken so far, at times of CLOCK_MONOTONIC in ns."""

    times_ns: list[int]
    seconds: list[float]

    def between(self, begin_ns: int, end_ns: int) -> float:
        return self._at(end_ns) - self._at(begin_ns)

    def _at(self, time_ns: int) -> float:
        """Between two readings in proportion."""
        after = bisect.bisect_left(self.times_ns, time_ns)
        if after == 0 or not self.times_ns:
            return 0.0
        if after == len(self.times_ns):
            return self.seconds[-1]
        t0, t1 = self.times_ns[after - 1 : after + 1]
        s0, s1 = self.seconds[after - 1 : after + 1]
        return s0 + (s1 - s0) * (time_ns - t0) / max(1, t1 - t0)


class Outside:
    """Nothing; the others do more. A thread of its own reads or does something until the end."""

    def __init__(self) -> None:
        self.taken = Taken([], [])
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, pid: int) -> None:
        """pid: of the rank that the plant is on."""

    def end(self) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def note(self, seconds: float) -> None:
        self.taken.times_ns.append(time.monotonic_ns())
        self.taken.seconds.append(seconds)

    def run(self, work: threading.Thread) -> None:
        self._thread = work
        work.start()


class Burner(Outside):
    """A process that computes for some time and sleeps for some, by turns; on one core or on any."""

    def __init__(
        self, burn: tuple[float, float], pause: tuple[float, float], core: int | None, seed: int
    ) -> None:
        super().__init__()
        self.words = [*map(str, (*burn, *pause, seed))]
        self.core = core
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, pid: int) -> None:
        # A session of its own, as other people's programs have.
        self.process = subprocess.Popen([sys.executable, "-c", BURN, *self.words], start_new_session=True)
        if self.core is not None:
            os.sched_setaffinity(self.process.pid, {self.core})
        self.run(threading.Thread(target=self._read, args=(self.process.pid,)))

    def _read(self, pid: int) -> None:
        while not self._over.wait(READ_EVERY_S):
            self.note(time.clock_gettime_ns((~pid << 3) | 2) / 1e9)  # the kernel's number of its CPU clock

    def end(self) -> None:
        super().end()
        if self.process:
            self.process.kill()
            self.process.wait()


class Sweeper(Burner):
    """A process that copies memory all the time, on a core that no rank has."""

    def begin(self, pid: int) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", SWEEP], start_new_session=True)
        os.sched_setaffinity(self.process.pid, {max(os.sched_getaffinity(0))})
        self.run(threading.Thread(target=self._read, args=(self.process.pid,)))


class Stops(Outside):
    """SIGSTOP for a share of the time, in stretches at irregular times."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self.share = share
        self.draw = random.Random(seed)

    def begin(self, pid: int) -> None:
        self.run(threading.Thread(target=self._pulse, args=(pid,)))

    def _pulse(self, pid: int) -> None:
        total = 0.0
        with contextlib.suppress(ProcessLookupError):
            while not self._over.wait((1 - self.share) * STOP_CYCLE_S * self.draw.uniform(0.5, 1.5)):
                self.note(total)
                begin = time.monotonic()
                os.kill(pid, signal.SIGSTOP)
                try:
                    time.sleep(self.share * STOP_CYCLE_S * self.draw.uniform(0.5, 1.5))
                finally:
                    os.kill(pid, signal.SIGCONT)
                total += time.monotonic() - begin
                self.note(total)


class Quota(Outside):
    """A control group with a part of a core, of either version. cores: that it may use."""

    def __init__(self, cores: float) -> None:
        super().__init__()
        first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self.is_first = first.exists()
        self.group = (first if self.is_first else second) / f"roofline-causes-{os.getpid()}"
        self.cores = cores

    def begin(self, pid: int) -> None:
        self.group.mkdir()
        quota = max(1000, round(self.cores * QUOTA_PERIOD_US))
        if self.is_first:
            (self.group / "cpu.cfs_period_us").write_text(str(QUOTA_PERIOD_US))
            (self.group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.group / "cpu.max").write_text(f"{quota} {QUOTA_PERIOD_US}")
        (self.group / "cgroup.procs").write_text(str(pid))
        self.run(threading.Thread(target=self._read))

    def _read(self) -> None:
        while not self._over.wait(READ_EVERY_S):
            words = (self.group / "cpu.stat").read_text().split()
            stat = dict(zip(words[::2], words[1::2], strict=True))
            self.note(
                int(stat["throttled_time"]) / 1e9 if self.is_first else int(stat["throttled_usec"]) / 1e6
            )

    def end(self) -> None:
        super().end()
        if not self.group.exists():
            return
        deadline = time.monotonic() + 10
        while (left := (self.group / "cgroup.procs").read_text().split()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(OSError):  # it has ended
                    (self.group.parent / "cgroup.procs").write_text(pid)
            time.sleep(0.05)
        self.group.rmdir()


def crowd(seed: int) -> list[Burner]:
    """Other people's work: two programs that compute in bursts on whichever core is free."""
    return [Burner((0.05, 0.4), (0.1, 0.6), None, seed + number) for number in range(2)]


def outside(cause: str, severity: float, core: int, cores_used: float, seed: int) -> Outside:
    """What comes from outside for a cause. core: of the rank; cores_used: what it used on average without
    any plant. The rest of a cycle is the training's own, so a share of x/(1+x) makes steps 1+x as long."""
    share = severity / (1 + severity)
    if cause == "hog":
        burn, pause = share * HOG_CYCLE_S, (1 - share) * HOG_CYCLE_S
        return Burner((0.7 * burn, 1.3 * burn), (0.7 * pause, 1.3 * pause), core, seed)
    if cause in ("stops", "ps_stops"):
        return Stops(share, seed)
    if cause in ("quota", "ps_quota"):
        return Quota(cores_used * (1 - share))
    return Sweeper((0, 0), (0, 0), None, seed) if cause == "memory" else Outside()
