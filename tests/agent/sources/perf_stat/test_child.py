"""A running perf: real ones with software events, and scripts for what real ones do seldom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from roofline_agent.sources.perf_stat.child import Interval, PerfProcess
from roofline_agent.sources.perf_stat.probe import PER_PROCESS, tried

from tests.fakes import ended, wait_for

from ..fake_tools import script

COMMAND = ["perf", "stat", "-x", ";", "-e", "task-clock,page-faults"]


def real_perf() -> None:
    try:
        works = tried("perf", PER_PROCESS, "page-faults").complete
    except (OSError, subprocess.SubprocessError):
        works = False
    if not works:
        pytest.skip("perf does not count software events here")


def collect(child: PerfProcess, count: int) -> list[Interval]:
    found: list[Interval] = []
    wait_for(lambda: (found.extend(child.take()), len(found) >= count)[1], f"{count} intervals")
    return found


@pytest.fixture
def idle() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen(["sleep", "600"])) as process:
        yield process


def test_intervals_of_a_real_perf_are_complete_and_in_order() -> None:
    real_perf()
    child = PerfProcess([*COMMAND, "-I", "20", "-p", str(os.getpid())], 2)
    try:
        found = collect(child, 6)
    finally:
        child.end()
    assert all(len(interval.readings) == 2 for interval in found)
    assert all(a.time_ns < b.time_ns for a, b in pairwise(found))
    assert child.returncode is not None


def test_time_of_an_interval_is_when_perf_printed_it() -> None:
    """Whoever reads late, the anchor is that of the first line, and never before perf was started."""
    real_perf()
    before = time.monotonic_ns()
    child = PerfProcess([*COMMAND, "-I", "40", "-p", str(os.getpid())], 2)
    try:
        wait_for(lambda: child.has_printed, "the first line")
        arrived = time.monotonic_ns()
        time.sleep(0.2)  # a late reader
        found = collect(child, 1)
    finally:
        child.end()
    assert child.anchor_ns is not None
    assert before < child.anchor_ns < arrived
    assert found[0].time_ns <= arrived


def test_warning_before_the_first_reading_is_no_anchor(tmp_path: Path) -> None:
    body = (
        "echo 'print interval < 100ms. Please proceed with caution.'; sleep 0.1; echo '5.0;1;;a;1;100.00;;'"
    )
    child = PerfProcess([str(script(tmp_path, f"exec >&2; {body}; exec sleep 60"))], 1)
    try:
        (interval,) = collect(child, 1)
    finally:
        child.end()
    assert interval.time_ns <= time.monotonic_ns()
    assert "caution" in child.complaint


def test_last_interval_is_kept_when_perf_is_ended() -> None:
    real_perf()
    child = PerfProcess([*COMMAND, "-I", "500", "-p", str(os.getpid())], 2)
    first, *_ = collect(child, 1)
    *_, last = child.end()
    assert [reading.event for reading in last.readings] == ["task-clock", "page-faults"]
    assert last.time_ns > first.time_ns


def test_perf_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = PerfProcess(
        [str(script(tmp_path, "trap '' INT; echo '1.0;1;;a;1;100.00;;' >&2; exec sleep 60"))], 1
    )
    collect(child, 1)
    assert child.end() == []
    assert child.returncode == -signal.SIGKILL


def test_interval_closes_with_the_next_where_its_size_is_not_known(tmp_path: Path) -> None:
    lines = "".join(f"{t}.0;S{s};1;5;;a;1;100.00;;\\n" for t in (1, 2, 3) for s in (0, 1))
    child = PerfProcess([str(script(tmp_path, f"printf '{lines}' >&2; exec sleep 60"))])
    try:
        found = collect(child, 3)
    finally:
        child.end()
    assert [len(interval.readings) for interval in found] == [2, 2, 2]
    assert [b.time_ns - a.time_ns for a, b in pairwise(found)] == [10**9, 10**9]


def test_line_cut_in_two_is_one_line(tmp_path: Path) -> None:
    body = "printf '1.0;12' >&2; sleep 0.1; printf '34;;a;1;100.00;;\\n' >&2; exec sleep 60"
    child = PerfProcess([str(script(tmp_path, body))], 1)
    try:
        (interval,) = collect(child, 1)
    finally:
        child.end()
    assert interval.readings[0].value == 1234


PARENT = """
import sys, time
from roofline_agent.sources.perf_stat.child import PerfProcess
child = PerfProcess(sys.argv[1:])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_perf_dies_with_an_agent_killed_by_sigkill(
    tmp_path: Path, quiet: bool, idle: subprocess.Popen[bytes]
) -> None:
    # A perf that prints would die of its closed pipe; one that prints nothing needs the kernel's help.
    real_perf()
    interval = "60000" if quiet else "20"
    command = [*COMMAND, "-I", interval, "-p", str(idle.pid)]
    agent = subprocess.Popen([sys.executable, "-c", PARENT, *command], stdout=subprocess.PIPE)
    with ended(agent):
        assert agent.stdout is not None
        perf = psutil.Process(int(agent.stdout.readline()))
        wait_for(lambda: perf.name() == "perf", "perf behind the helper")
        agent.kill()
        agent.wait()
        wait_for(lambda: not perf.is_running() or perf.status() == psutil.STATUS_ZOMBIE, "the end of perf")


def test_tool_is_not_taken_for_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "TF_CONFIG", "OMPI_COMM_WORLD_RANK", "PERF_CONFIG"):
        monkeypatch.setenv(name, "1")
    child = PerfProcess([str(script(tmp_path, "env >&2"))], 1)
    wait_for(lambda: child.returncode is not None)
    child.end()
    names = {line.partition("=")[0] for line in child.complaint.splitlines()}
    assert names & {"RANK", "WORLD_SIZE", "TF_CONFIG", "OMPI_COMM_WORLD_RANK"} == set()
    assert "PERF_CONFIG=/dev/null" in child.complaint and "LC_ALL=C" in child.complaint
