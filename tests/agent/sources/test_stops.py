"""How long a process was stopped, by looks at jittered moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_agent.sources.stops import OFTEN_FOR_NS, OFTEN_S, SELDOM_S, Stops

from tests.fakes import ended

MS = 1_000_000
ME = (7, 1)


class Process:
    """A /proc with one process, and a clock."""

    def __init__(self, proc: Path) -> None:
        self.now_ns = 0
        self._stat = proc / "7" / "task" / "7" / "stat"
        self._stat.parent.mkdir(parents=True)
        self.state = "S"

    @property
    def state(self) -> str:
        return ""

    @state.setter
    def state(self, letter: str) -> None:
        self._stat.write_text(f"7 (a ) T name) {letter} 1 7 7 0")

    def clock(self) -> int:
        return self.now_ns


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


@pytest.fixture
def stops(tmp_path: Path, process: Process, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stops]:
    """Without a thread: `look` is called by the test."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    monkeypatch.setattr(threading.Thread, "join", lambda self: None)
    made = Stops(str(tmp_path), process.clock, seed=1)
    made.watch({ME})
    yield made
    made.close()


def test_stretches_between_looks_are_added_up(stops: Stops, process: Process) -> None:
    assert stops.stopped_ns(ME) == 0
    process.now_ns += int(1000 * stops.look()) * MS
    process.state = "T"
    begin = process.now_ns
    for _ in range(40):
        pause = stops.look()
        process.now_ns += int(pause * 1e9)
    stopped = stops.stopped_ns(ME)
    assert stopped is not None
    assert stopped == pytest.approx(process.now_ns - begin, abs=SELDOM_S[1] * 1e9)


def test_share_of_pulses_is_right_whatever_their_beat(stops: Stops, process: Process) -> None:
    until, period = 300_000 * MS, 100 * MS
    while process.now_ns < until:
        process.state = "t" if process.now_ns % period < 0.3 * period else "R"
        process.now_ns += int(1e9 * stops.look())
    assert stops.stopped_ns(ME) == pytest.approx(0.3 * until, rel=0.1)


def test_process_that_was_stopped_is_looked_at_often_for_a_while(stops: Stops, process: Process) -> None:
    process.now_ns += MS
    assert SELDOM_S[0] <= stops.look() <= SELDOM_S[1]
    process.now_ns += 1000 * MS
    process.state = "T"
    assert stops.look() <= OFTEN_S[1]
    process.state = "S"
    process.now_ns += 100 * MS
    assert stops.look() <= OFTEN_S[1]
    process.now_ns += 2 * OFTEN_FOR_NS
    assert stops.look() >= SELDOM_S[0]


def test_process_that_has_gone_is_not_known(stops: Stops) -> None:
    stops.watch({ME, (8, 1)})
    assert stops.stopped_ns((8, 1)) is None
    stops.watch(set())
    assert stops.stopped_ns(ME) is None


@pytest.mark.slow
def test_planted_pulses() -> None:
    dice = random.Random(1)
    with ended(subprocess.Popen([sys.executable, "-c", "while True: pass"])) as child:
        stops = Stops("/proc", time.monotonic_ns)
        key, stopped, begin = (child.pid, 1), 0, time.monotonic_ns()
        stops.watch({key})
        while time.monotonic_ns() - begin < 4e9:
            child.send_signal(signal.SIGSTOP)
            since = time.monotonic_ns()
            time.sleep(dice.uniform(0.05, 0.2))
            stopped += time.monotonic_ns() - since
            os.kill(child.pid, signal.SIGCONT)
            time.sleep(dice.uniform(0.1, 0.4))
        found = stops.stopped_ns(key)
        stops.close()
    assert found == pytest.approx(stopped, rel=0.5)


def test_process_that_ends_as_it_is_first_looked_at_leaves_no_file_open(stops: Stops, tmp_path: Path) -> None:
    stat = tmp_path / "8" / "task" / "8" / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text("")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        stops.watch({ME, (8, 1)})
    assert len(os.listdir("/proc/self/fd")) == before
    assert stops.stopped_ns((8, 1)) is None
    assert stops.stopped_ns(ME) is not None
