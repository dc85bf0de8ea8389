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
from roofline_agent.sources.stops import ASK_NS, OFTEN_FOR_NS, OFTEN_S, SELDOM_S, Stops

from tests.fakes import ended, wait_for

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

    def account(self, run_ns: int, delay_ns: int = 0) -> None:
        """What the kernel counts of its main thread."""
        self._stat.with_name("schedstat").write_text(f"{run_ns} {delay_ns} 7\n")

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


@pytest.fixture
def proven(process: Process, stops: Stops) -> Stops:
    """Watches a process whose thread was busy for a second, by its account."""
    process.account(0)
    stops.watch(set())
    stops.watch({ME})
    assert stops.look() is not None, "nothing is known of it yet"
    process.now_ns += 1000 * MS
    process.account(900 * MS, 80 * MS)
    stops.watch({ME})
    return stops


def test_process_whose_thread_was_busy_or_waited_for_a_cpu_needs_no_looks(
    proven: Stops, process: Process
) -> None:
    assert proven.look() is None
    process.now_ns += ASK_NS - MS
    proven.watch({ME})
    assert proven.look() is None, "asked again too early"


def test_process_whose_thread_was_idle_is_looked_at_until_it_is_busy(proven: Stops, process: Process) -> None:
    process.now_ns += 1000 * MS
    process.account(1700 * MS, 80 * MS)
    proven.watch({ME})
    assert proven.look() is not None
    process.now_ns += 1000 * MS
    process.account(2700 * MS, 80 * MS)
    proven.watch({ME})
    assert proven.look() is None
    assert proven.stopped_ns(ME) == 0


def test_busy_process_that_is_found_stopped_was_so_for_the_time_its_account_lacks(
    proven: Stops, process: Process
) -> None:
    process.now_ns += 1000 * MS
    process.account(1600 * MS, 80 * MS)
    process.state = "T"
    proven.watch({ME})
    assert proven.stopped_ns(ME) == 300 * MS
    process.now_ns += 100 * MS
    assert proven.look() is not None
    assert proven.stopped_ns(ME) == 400 * MS
    process.state = "R"
    process.now_ns += 1000 * MS
    process.account(2700 * MS, 80 * MS)
    proven.watch({ME})
    assert proven.look() is not None, "for a while after a stop"


def test_account_over_a_minute_proves_no_more_than_a_tenth_of_a_second(
    proven: Stops, process: Process
) -> None:
    process.now_ns += 60_000 * MS
    process.account(60_700 * MS, 80 * MS)
    proven.watch({ME})
    assert proven.look() is not None


def test_thread_sleeps_while_nobody_needs_looks_and_ends(tmp_path: Path, process: Process) -> None:
    process.account(0)
    stops = Stops(str(tmp_path), process.clock, seed=1)
    stops.watch({ME})
    process.now_ns += 1000 * MS
    process.account(1000 * MS)
    stops.watch({ME})
    wait_for(lambda: not stops._wake.is_set())
    process.now_ns += 1000 * MS
    process.state = "T"
    stops.watch({ME})
    assert stops.stopped_ns(ME) == 1000 * MS
    process.now_ns += 100 * MS
    wait_for(lambda: stops.stopped_ns(ME) == 1100 * MS)
    stops.close()


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
