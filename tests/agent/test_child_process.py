"""A child process: its lines, the bounds on its silence and time, its end, and its environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from roofline_agent.child_process import ChildProcess, Exit, bare_environment, ending_with_us

from tests.fakes import ended, wait_for


def shell(script: str, **options: bool) -> ChildProcess:
    return ChildProcess(["sh", "-c", script], **options)  # type: ignore[arg-type]


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_lines_come_until_the_end_without_one_that_was_not_completed() -> None:
    with shell("echo one; echo two >&2; printf 'thr'; exit 3") as child:
        assert list(child.lines()) == ["one"]
        assert child.exit == Exit(3, "two")
        assert child.exit.reason == "two" and child.exit.signal == ""


def test_standard_error_can_be_what_is_read() -> None:
    with shell("echo one; echo two >&2", reads_stderr=True) as child:
        assert list(child.lines()) == ["two"]
        assert child.exit == Exit(0, "") and child.exit.reason == "it gave no reason"


def test_silence_is_bounded_and_renewed_by_each_line() -> None:
    with shell("echo one; exec sleep 600") as child:
        lines = child.lines(silence_s=0.2)
        assert next(lines) == "one"
        with pytest.raises(TimeoutError):
            next(lines)


@pytest.mark.parametrize("script", ["while true; do echo; sleep 0.05; done", "exec >&-; exec sleep 600"])
def test_whole_time_is_bounded_whatever_it_writes(script: str) -> None:
    with shell(script) as child, pytest.raises(TimeoutError):
        list(child.lines(total_s=0.3))


def test_lines_so_far_wait_for_none() -> None:
    with shell("read line; echo $line; exec sleep 600", takes_input=True) as child:
        assert child.lines_so_far() == []
        child.write_line("here")
        assert wait_for(child.lines_so_far) == ["here"]


def test_one_with_an_input_ends_with_it() -> None:
    with shell("cat", takes_input=True) as child:
        child.close_input()
        child.stop(None, 60.0)
        assert child.exit.status == 0


def test_one_that_ignores_its_signal_is_killed() -> None:
    with shell("trap '' INT; echo ready; while true; do sleep 0.1; done") as child:
        next(child.lines())
        child.stop(signal.SIGINT, 0.1)
        assert child.exit.signal == "SIGKILL" and child.returncode == -signal.SIGKILL


def test_closing_kills_what_it_started_too() -> None:
    with shell("sleep 600 & echo $!; wait") as child:
        started = int(next(child.lines()))
    wait_for(lambda: is_gone(child.pid) and is_gone(started), "the end of both")


PARENT = """
import sys, time
from roofline_agent.child_process import ChildProcess
child = ChildProcess(["sh", "-c", "echo started; exec sleep 600"])
next(child.lines())
print(child.pid, flush=True)
time.sleep(600)
"""


def test_child_dies_with_a_parent_killed_by_sigkill() -> None:
    with ended(subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        wait_for(lambda: is_gone(pid), "the end of the child")


def test_program_that_is_not_there_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        ChildProcess(["/nowhere/perf"])
    with pytest.raises(FileNotFoundError):
        ChildProcess(["/nowhere/perf"], takes_input=True)


def test_command_whose_program_goes_meanwhile_says_so() -> None:
    done = subprocess.run(ending_with_us(["/nowhere/perf"]), capture_output=True, text=True)
    assert done.returncode == 127
    assert done.stderr == "/nowhere/perf: No such file or directory\n"


def test_command_whose_parent_is_gone_does_not_start(tmp_path: Path) -> None:
    command = ending_with_us(["touch", str(tmp_path / "started")])
    command[command.index(str(os.getpid()))] = "1" if os.getppid() != 1 else "2"
    assert subprocess.run(command).returncode == 1
    assert not (tmp_path / "started").exists()


def test_environment_of_a_tool_has_its_own_variables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LIKWID_FORCE"):
        monkeypatch.setenv(name, "1")
    assert bare_environment("LIKWID_")["LIKWID_FORCE"] == "1"
    assert not {"RANK", "LIKWID_FORCE"} & bare_environment().keys()
    assert bare_environment(PERF_CONFIG="/dev/null")["PERF_CONFIG"] == "/dev/null"


def test_exit_by_an_unknown_signal_has_its_number() -> None:
    assert Exit(-63, "").signal == "signal 63"
