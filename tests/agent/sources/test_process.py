"""CPU time, memory and storage of real processes, next to what psutil says of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from roofline_agent.records import Rank, SourceSettings
from roofline_agent.sources.process import METRICS, ProcessSource, Room, Waits, accounts_waits

from tests.fakes import ended, wait_for

from .trees import CLOCK, settings

BUSY = "import sys\nblock = bytearray(30 << 20)\nprint(flush=True)\nwhile True: sum(range(1000))"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)) as process:
        process.stdout.readline()
        yield process


@pytest.fixture
def source() -> Iterator[ProcessSource]:
    source = ProcessSource(settings())
    yield source
    source.close()


def row(source: ProcessSource, rank: Rank) -> dict[str, int]:
    CLOCK.advance(60)  # the last reading is not fresh any more
    (sample,) = source.sample([rank])
    return {metric.name: value for metric, value in zip(METRICS, sample.values, strict=True)}  # type: ignore


def rank_of(child: subprocess.Popen[bytes]) -> Rank:
    return Rank("j", "worker", 0, child.pid, 1)


def test_probe_works_here(source: ProcessSource) -> None:
    assert source.probe().works


def test_busy_child_is_seen_as_psutil_sees_it(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    peer = psutil.Process(child.pid)
    wait_for(lambda: sum(peer.cpu_times()[:2]) > 0.5)
    before = sum(peer.cpu_times()[:2])
    values = row(source, rank_of(child))
    after = sum(peer.cpu_times()[:2])
    assert 0.9 * before <= values["cpu_ns"] / 1e9 <= 1.1 * after + 0.02
    ticks = (values["cpu_user_ns"] + values["cpu_system_ns"]) / 1e9
    assert before <= ticks <= after
    assert values["rss_bytes"] == pytest.approx(peer.memory_info().rss, rel=0.05)
    assert values["rss_bytes"] > 30 << 20
    assert values["threads"] == 1
    assert values["minor_faults"] > 100


def test_cpu_time_is_finer_than_a_tick(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    rank = rank_of(child)
    values = [row(source, rank)["cpu_ns"]]
    # The kernel brings another process's clock up to date when it is rescheduled: at its own ticks.
    while len(values) < 20:
        values.append(
            wait_for(lambda: max(values[-1], row(source, rank)["cpu_ns"]) - values[-1]) + values[-1]
        )
    assert values == sorted(values)
    assert any(value % 1_000_000 for value in values)


def test_bytes_written_to_storage_are_counted(source: ProcessSource, tmp_path: Path) -> None:
    code = f"""
import os
f = open({str(tmp_path / "x")!r}, "wb"); f.write(os.urandom(8 << 20)); f.flush(); os.fsync(f.fileno())
print(flush=True); input()"""
    command = [sys.executable, "-c", code]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
        child.stdout.readline()
        written = row(source, rank_of(child))["storage_written_bytes"]
        if psutil.Process(child.pid).io_counters().write_bytes == 0:
            pytest.skip("this file system is not storage")
        assert written == psutil.Process(child.pid).io_counters().write_bytes >= 8 << 20


def test_files_are_read_once_a_second_and_the_clock_always(source: ProcessSource) -> None:
    me = Rank("j", "worker", 1, os.getpid(), 1)
    (first,), (second,) = source.sample([me]), source.sample([me])
    assert None not in first.values
    assert second.values[1:-3] == (None,) * (len(METRICS) - 4)
    assert second.values[0] > first.values[0]
    assert None not in second.values[-3:]


def test_ended_process_has_no_row(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    rank = rank_of(child)
    assert len(source.sample([rank])) == 1
    child.kill()
    child.wait()
    assert source.sample([rank]) == []


def test_zombie_has_no_row(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    rank = rank_of(child)
    child.kill()
    wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert source.sample([rank]) == []


def test_one_that_has_gone_costs_the_others_nothing(source: ProcessSource) -> None:
    me = Rank("j", "worker", 1, os.getpid(), 1)
    rows = source.sample([Rank("j", "worker", 0, 2**22 + 5, 1), me])
    assert [r.rank for r in rows] == [me]


def test_files_of_ranks_that_left_are_closed(child: subprocess.Popen[bytes]) -> None:
    source = ProcessSource(settings())
    before = len(os.listdir("/proc/self/fd"))
    source.sample([rank_of(child)])
    assert len(os.listdir("/proc/self/fd")) == before + 6, (
        "stat and schedstat of one thread twice, statm and io"
    )
    source.sample([])
    assert len(os.listdir("/proc/self/fd")) == before
    source.close()


def test_storage_is_absent_where_io_is_hidden(tmp_path: Path) -> None:
    directory = tmp_path / str(os.getpid())
    directory.mkdir()
    for name in ("stat", "statm"):
        (directory / name).write_bytes(Path("/proc/self", name).read_bytes())
    source = ProcessSource(SourceSettings(proc=str(tmp_path)))
    (sample,) = source.sample([Rank("j", "worker", 0, os.getpid(), 1)])
    source.close()
    values = dict(zip((metric.name for metric in METRICS), sample.values, strict=True))
    assert (values["storage_read_bytes"], values["storage_written_bytes"]) == (None, None)
    assert values["rss_bytes"] != 0


# Two threads of C on one CPU: about half of the time each is ready to run and may not.
RIVALS = """
import hashlib, os, sys, threading, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
def work():
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until: hashlib.sha256(bytes(1 << 20))
threads = [threading.Thread(target=work) for _ in range(2)]
for one in threads: one.start()
print(flush=True)
for one in threads: one.join()
print(flush=True); sys.stdin.read()
"""


@pytest.fixture
def rivals() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", RIVALS, "1.5"]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as process:
        process.stdout.readline()
        yield process


@pytest.mark.slow
def test_time_without_a_cpu_is_seen_and_outlives_its_thread(
    source: ProcessSource, rivals: subprocess.Popen[bytes]
) -> None:
    if not accounts_waits("/proc"):
        pytest.skip("this kernel keeps no schedstat")
    rank = rank_of(rivals)
    seen = [row(source, rank)["cpu_wait_ns"]]
    wait_for(lambda: seen.append(row(source, rank)["cpu_wait_ns"]) or seen[-1] > 800_000_000)  # type: ignore
    rivals.stdout.readline()
    wait_for(lambda: row(source, rank)["threads"] == 1)
    seen.append(row(source, rank)["cpu_wait_ns"])
    assert seen == sorted(seen)
    assert 800_000_000 < seen[-1] < 6_000_000_000


def test_wait_of_threads_is_absent_where_the_kernel_keeps_none(tmp_path: Path) -> None:
    directory = tmp_path / "self"
    directory.mkdir()
    assert not accounts_waits(str(tmp_path))
    (directory / "schedstat").write_text("0 0 0\n")
    assert not accounts_waits(str(tmp_path))
    (directory / "schedstat").write_text("101540 0 2\n")
    assert accounts_waits(str(tmp_path))
    status = ProcessSource(SourceSettings(proc=str(tmp_path / "nothing"))).probe()
    assert status.works and "no cpu_wait_ns" in status.reason


def test_stopped_process_is_reported(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    rank = rank_of(child)
    assert row(source, rank)["stopped"] == 0
    child.send_signal(signal.SIGSTOP)
    wait_for(lambda: row(source, rank)["stopped"] == 1)
    child.send_signal(signal.SIGCONT)
    wait_for(lambda: row(source, rank)["stopped"] == 0)


def test_busiest_thread_and_its_want_of_a_cpu(source: ProcessSource, child: subprocess.Popen[bytes]) -> None:
    if not accounts_waits("/proc"):
        pytest.skip("this kernel keeps no schedstat")
    rank = rank_of(child)
    first = row(source, rank)
    wait_for(lambda: row(source, rank)["busiest_run_ns"] > 200_000_000 + first["busiest_run_ns"])
    last = row(source, rank)
    # Its only thread is the busiest.
    assert last["busiest_run_ns"] - first["busiest_run_ns"] == pytest.approx(
        last["cpu_ns"] - first["cpu_ns"], rel=0.1
    )
    assert last["busiest_delay_ns"] - first["busiest_delay_ns"] == pytest.approx(
        last["cpu_wait_ns"] - first["cpu_wait_ns"], rel=0.1, abs=10e6
    )


def test_counters_of_the_busiest_thread_go_on_with_another_one(tmp_path: Path) -> None:
    tasks = tmp_path / "task"

    def threads(**numbers: str) -> None:
        for name, text in numbers.items():
            (tasks / name[1:]).mkdir(parents=True, exist_ok=True)
            (tasks / name[1:] / "schedstat").write_text(text)

    threads(t1="1000 10 5", t2="500 0 5")
    now = [0]
    waits = Waits(str(tasks), lambda: now[0])
    assert waits.busiest() == (None, None)
    assert waits.total_ns() == 10
    assert waits.busiest() == (0, 0), "what was before nobody saw"
    now[0] = 8000
    threads(t1="1600 15 5", t2="600 0 5")
    assert waits.busiest() == (600, 5)
    threads(t2="5000 100 5")
    assert waits.busiest() == (600, 5)
    assert waits.total_ns() == 115
    assert waits.busiest() == (4500, 100), "the second thread had more all the time"
    now[0] += 1000
    threads(t1="1700 15 5", t2="5300 120 5")
    assert waits.busiest() == (4800, 120)
    threads(t2="5300 28000000000 5")
    assert waits.busiest() == (4800, 120), "half a minute did not pass"
    waits.close()


def test_threads_have_no_more_files_than_there_is_room_for(tmp_path: Path) -> None:
    """Without a file left the agent could not look whether a process lives."""
    tasks, room = tmp_path / "task", Room(3)
    for name in ("1", "2"):
        (tasks / name).mkdir(parents=True)
        (tasks / name / "schedstat").write_text("100 7 5")
    one, other = (Waits(str(tasks), lambda: 0, room) for _ in range(2))
    assert (one.total_ns(), other.total_ns()) == (14, None)
    one.close()
    assert other.total_ns() == 14 and room.left == 1
    other.close()
