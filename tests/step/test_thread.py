"""What the training thread had in a step: against loads that are planted, and of which steps it is known."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_step import _thread
from roofline_step._thread import ALWAYS, FEWER, LATE_NS, MANY, MOST, StepCounts, ThreadAccount, measured_in

SECOND = 1_000_000_000


@pytest.fixture
def account() -> ThreadAccount:
    """With a budget in which every step is measured."""
    return ThreadAccount({"ROOFLINE_OVERHEAD": "1.9"})


def spin(seconds: float) -> None:
    """Be on a CPU for so long."""
    until = time.thread_time_ns() + int(seconds * SECOND)
    while time.thread_time_ns() < until:
        pass


def now_of(account: ThreadAccount) -> int:
    now = time.monotonic_ns()
    return account.read(now) if account.on else now


def begin_step(account: ThreadAccount) -> None:
    """Step 1 begins, and that could be read."""
    while account._begin is None:
        account.over(0, now_of(account))


def known(found: StepCounts | None) -> dict[str, int]:
    assert found is not None
    return {
        name.removeprefix("thread."): count for name, count in zip(found.names, found.counts, strict=True)
    }


@contextmanager
def hogged(cpu: int) -> Iterator[None]:
    """Another process that would run all the time, and this thread, on one CPU."""
    before = os.sched_getaffinity(0)
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as hog:
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            os.sched_setaffinity(hog.pid, {cpu})
            os.sched_setaffinity(0, {cpu})
            yield
        finally:
            os.sched_setaffinity(0, before)
            hog.kill()


def test_time_on_a_cpu_and_asleep(account: ThreadAccount) -> None:
    begin_step(account)
    begin = now_of(account)
    spin(0.05)
    time.sleep(0.05)
    end = now_of(account)
    found = known(account.over(1, end))
    assert 50e6 - LATE_NS <= found["run.step"] <= 60e6
    # Together with the sleep, all of the time is accounted for.
    assert found["run.step"] + found["delay.step"] + 50e6 <= end - begin + 10e6
    assert found["gc"] == found["faults"] == 0


def test_thread_that_shares_its_cpu_is_delayed(account: ThreadAccount) -> None:
    with hogged(min(os.sched_getaffinity(0))):
        begin_step(account)
        begin = now_of(account)
        spin(0.1)
        end = now_of(account)
        found = known(account.over(1, end))
    assert found["delay.step"] >= 30e6
    assert found["run.step"] + found["delay.step"] == pytest.approx(end - begin, rel=0.05)


def test_parts_have_their_own(account: ThreadAccount) -> None:
    begin_step(account)
    for _ in range(2):
        account.begins("input", time.monotonic_ns())
        spin(0.01)
        account.begins("communicate", time.monotonic_ns())  # inside another part, to which it counts
        spin(0.01)
        account.ends(time.monotonic_ns())
        account.ends(time.monotonic_ns())
    account.begins("communicate", time.monotonic_ns())
    time.sleep(0.02)
    account.ends(time.monotonic_ns())
    account.begins("communicate", time.monotonic_ns())
    spin(0.01)
    account.ends(time.monotonic_ns(), False)  # it was none
    spin(0.01)
    found = known(account.over(1, now_of(account)))
    # A reading that came late stands for its moment as if the thread had run meanwhile.
    assert 40e6 - 2 * LATE_NS <= found["run.input"] <= 45e6
    assert found["run.communicate"] <= 5e6
    assert found["run.step"] >= 60e6 - LATE_NS


def test_part_that_begins_with_its_step_needs_no_reading_of_its_own(
    account: ThreadAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings, read = [], account._read
    monkeypatch.setattr(account, "_read", lambda now: readings.append(now) or read(now))
    monkeypatch.setattr(_thread, "PREEMPTED_NS", SECOND)  # a busy machine has nothing read again
    begin_step(account)
    border = account._moment
    readings.clear()
    assert account.begins("input", border + 1000) == border + 1000
    assert not readings
    spin(0.01)
    account.ends(time.monotonic_ns())
    found = known(account.over(1, now_of(account)))
    assert len(readings) == 2
    assert 10e6 - 1000 <= found["run.input"] <= 15e6
    # A moment later than that it is read: the thread may have slept meanwhile.
    border = account._moment
    assert account.begins("input", border + _thread.LATE_NS) >= border + _thread.LATE_NS
    assert len(readings) == 3


def test_step_that_ends_inside_a_part_is_not_known(account: ThreadAccount) -> None:
    begin_step(account)
    account.begins("input", time.monotonic_ns())
    assert account.over(1, now_of(account)) is None
    account.ends(time.monotonic_ns())
    assert "run.input" not in known(account.over(2, now_of(account)))


def test_garbage_collection_in_time_on_a_cpu(account: ThreadAccount) -> None:
    kept = [[number] for number in range(200_000)]
    begin_step(account)
    begin = time.thread_time_ns()
    gc.collect()
    took = time.thread_time_ns() - begin
    found = known(account.over(1, now_of(account)))
    assert found["gc"] == pytest.approx(took, rel=0.1)
    assert kept


def test_collection_of_another_thread_is_not_counted(account: ThreadAccount) -> None:
    begin_step(account)
    other = threading.Thread(target=gc.collect)
    other.start()
    other.join()
    assert known(account.over(1, now_of(account)))["gc"] == 0


def test_reads_that_waited_for_storage(account: ThreadAccount, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begin_step(account)
    assert known(account.over(1, now_of(account)))["blocks"] == 0  # said once
    assert "blocks" not in known(account.over(2, now_of(account)))
    path.read_bytes()
    found = known(account.over(3, now_of(account)))
    if "blocks" not in found:
        pytest.skip("this file system has no storage below it, or keeps what it was to drop")
    assert found["blocks"] >= (1 << 20) // 512


def test_border_that_could_not_be_read_in_time_leaves_both_steps_unknown(account: ThreadAccount) -> None:
    begin_step(account)
    assert account.over(1, time.monotonic_ns() - SECOND) is None
    assert account.over(2, now_of(account)) is None
    assert account.over(3, now_of(account)) is not None


def test_descriptor_that_the_training_closed_ends_it(account: ThreadAccount) -> None:
    begin_step(account)
    os.close(account._file)
    for number in range(1, 9):  # nothing is read where the CPU went elsewhere right before it
        assert account.over(number, time.monotonic_ns()) is None
    assert not account.on


def test_file_that_the_training_has_in_its_place_stays_open(account: ThreadAccount, tmp_path: Path) -> None:
    begin_step(account)
    ours = account._file
    with (tmp_path / "file").open("w") as file:
        os.dup2(file.fileno(), ours)
    account._reset()
    os.fstat(ours)
    os.close(ours)


def test_reading_that_fails_ends_it_and_raises_nothing(account: ThreadAccount) -> None:
    begin_step(account)
    os.close(account._file)
    assert account.read(5) == 5
    assert not account.on
    assert account.over(1, time.monotonic_ns()) is None and not account.on


def in_new_thread(call: Callable[[], None]) -> None:
    """Run it in a thread of its own, which mostly has the identity of the one before."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize("first", ["read", "begins"])
def test_thread_with_the_identity_of_one_that_has_ended_is_followed_anew(
    account: ThreadAccount, first: str
) -> None:
    found = []

    def train() -> None:
        number = account._number + 1
        now = time.monotonic_ns()
        if first == "read":
            now = account.read(now) if account.on else now
        elif account.on:
            account.begins("input", now)
        found.append(account.over(number, now))
        while found[-1] is None and len(found) < 100:
            number += 1
            found.append(account.over(number, now_of(account)))

    for _ in range(3):
        in_new_thread(train)
    assert found.count(None) < 100, "of each thread something is known"
    assert len(found) - found.count(None) == 3


def test_step_that_ends_in_another_thread_is_not_known(account: ThreadAccount) -> None:
    begin_step(account)
    found: list[StepCounts | None] = []
    in_new_thread(lambda: found.append(account.over(1, time.monotonic_ns())))
    assert found == [None]


def test_without_schedstat_the_delays_are_not_reported(tmp_path: Path) -> None:
    account = ThreadAccount({}, proc=str(tmp_path))
    begin_step(account)
    found = known(account.over(1, now_of(account)))
    assert "run.step" in found
    assert not any(name.startswith("delay") for name in found)


def test_forked_child_follows_its_own_thread(account: ThreadAccount) -> None:
    begin_step(account)
    spin(0.2)
    pid = os.fork()
    if pid == 0:
        found = None
        for number in range(1, 9):  # the first readings of a new process may take too long
            found = account.over(number, now_of(account)) or found
        os._exit(found is None or found.counts[0] > 0.1 * SECOND)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert account.over(1, now_of(account)) is not None


def test_short_steps_are_measured_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    # Measuring a step takes some 15 us, three looks at the clock, of steps of 1 ms: half of 0.5 %
    # allow one in eight.
    measured = steps_measured(2000, monkeypatch)
    assert measured[: ALWAYS - 1] == [1, 2, 3]
    late = [number for number in measured if number >= 1000]
    assert len(late) == 1000 / 8
    # No beat: the distances differ.
    assert len({b - a for a, b in pairwise(late)}) > 2


def test_once_many_steps_are_known_fewer_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = steps_measured(8000, monkeypatch)
    assert 7.5 * MANY < measured[MANY - 1] < 8 * MANY
    assert len([number for number in measured if number >= 4000]) == 4000 / (8 * FEWER)


def test_what_a_measured_step_costs_hooks_counts_as_the_readings_do(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = steps_measured(2000, monkeypatch)
    beside = steps_measured(2000, monkeypatch, beside_ns=20_000)
    assert len(beside) == pytest.approx(len(alone) / 2, rel=0.1)


def steps_measured(count: int, monkeypatch: pytest.MonkeyPatch, beside_ns: int = 0) -> list[int]:
    """Of so many steps of 1 ms, where a look at the clock takes 5 us."""
    now = [0]

    def clock() -> int:
        now[0] += 5000
        return now[0]

    monkeypatch.setattr(_thread, "_clock", clock)
    monkeypatch.setattr(_thread, "_thread_time", lambda: now[0])
    account, measured = ThreadAccount({"ROOFLINE_OVERHEAD": "0.005"}), []
    account.beside_ns = beside_ns
    for number in range(count):
        now[0] += 1_000_000
        end = account.read(clock()) if account.on else clock()
        if account.over(number, end) is not None:
            measured.append(number)
    return measured


def test_numbers_may_begin_anew() -> None:
    account = ThreadAccount({"ROOFLINE_OVERHEAD": "1e-6"})
    for _ in range(2):
        found = [account.over(number, now_of(account)) is not None for number in range(ALWAYS)]
        assert any(found)


@given(st.integers(0, 1 << 20), st.integers(0, MOST.bit_length() - 2))
def test_measured_steps_lie_in_their_lot_and_those_of_a_longer_period_are_among_them(
    lot: int, power: int
) -> None:
    period = 2**power
    assert lot * period <= measured_in(lot, period) < (lot + 1) * period
    rare = measured_in(lot, 2 * period)
    assert rare == measured_in(rare // period, period)
