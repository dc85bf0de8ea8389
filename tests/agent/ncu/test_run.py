"""`roofline-agent run --ncu STEPS` with a made-up ncu and a made-up CUDA runtime: what the command, the agent
and the user see."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.run.wrapper import NO_AGENT
from roofline_step.packets import CALLS, FACT, KERNEL

from tests.fakes import AGENT, FakeAgent, clean_environ, decode_mark, ended, wait_for

from .fake_ncu import install

PYTHON = sys.executable
RUN = [*AGENT, "run", "--quiet"]
NOTICE = f"{NO_AGENT}\n"
RUNTIME = """
#include <stdio.h>
#include <stdlib.h>
static void note(const char *text) {
  FILE *file = fopen(getenv("CALLS_OF_CUDA"), "a");
  fputs(text, file);
  fclose(file);
}
int cudaProfilerStart(void) { note("start "); return 0; }
int cudaProfilerStop(void) { note("stop "); return 0; }
"""
# Steps as hooks would mark them, in a training that has the CUDA runtime loaded.
TRAINING = """
import ctypes, os, sys, time
ctypes.CDLL(os.environ["CUDA_LIBRARY"])
import roofline_step
for step in range(6):
    with roofline_step.step(step):
        time.sleep(0.01)
print("trained", flush=True)
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libcudart that notes what is asked of it."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "cudart.c").write_text(RUNTIME)
    library = folder / "libcudart.so.12"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "cudart.c"], check=True)
    return library


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return clean_environ(
        ROOFLINE_SOCKET=str(tmp_path / "agent.sock"),
        ROOFLINE_NCU=str(install(tmp_path)),
        FAKE_NCU_ROWS="6",
        CALLS_OF_CUDA=str(tmp_path / "cuda"),
        TMPDIR=str(tmp_path / "tmp"),
    )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield agent


def run(environ: dict[str, str], *command: str, steps: str = "2-3,5") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "--ncu", steps, "--", *command], env=environ, capture_output=True, text=True, timeout=60
    )


def train(environ: dict[str, str], cuda: Path, steps: str = "2-3,5") -> subprocess.CompletedProcess[str]:
    return run({**environ, "CUDA_LIBRARY": str(cuda)}, PYTHON, "-c", TRAINING, steps=steps)


def test_kernels_of_the_steps_asked_for_reach_the_agent(
    environ: dict[str, str], cuda: Path, agent: FakeAgent, tmp_path: Path
) -> None:
    done = train(environ, cuda)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr == (
        "roofline-agent: ncu profiled 6 kernels of steps 2, 3, 5; these steps ran slower, so their own times "
        "mean nothing; where kernels are short ncu slows the others too\n"
    )
    assert (tmp_path / "cuda").read_text().split() == ["start", "stop"] * 3
    packets = [data for _, data in agent.poll(0.5)]
    marks = [decode_mark(0, data) for data in packets if data[:1] == b"M"]
    steps = {(mark.step, mark.kind): mark.time_ns for mark in marks}
    covered = []
    for data in packets:
        if data[:1] == b"C" and CALLS.unpack_from(data)[1]:
            _, count, begin, through = CALLS.unpack_from(data)
            covered.append((begin, through))
            starts = struct.unpack(f"<{3 * count}q", data[CALLS.size :])[count : 2 * count]
            assert count == 2
            assert all(begin - 10**6 <= start <= through for start in starts)
    assert covered == [(steps[n, 1], steps[n, 2]) for n in (2, 3, 5)], "just these steps are known completely"
    facts = [data for data in packets if data.startswith(FACT) and b"ncu.steps" in data]
    assert facts[-1] == FACT + b"ncu.steps=2-3,5", "their times are told to mean nothing"
    (shape, *_) = [json.loads(data[KERNEL.size :]) for data in packets if data[:1] == b"K"]
    assert shape[:2] == ["cuda", "gemm_0"]
    assert shape[9] == 4096


def test_exit_is_reported_while_ncu_still_works(
    environ: dict[str, str], cuda: Path, agent: FakeAgent
) -> None:
    """Later the agent would have forgotten the rank: seen on an H100."""
    assert train({**environ, "FAKE_NCU": "lingers"}, cuda).returncode == 0
    packets = [data for _, data in agent.poll(0.5)]
    exits = [at for at, data in enumerate(packets) if data.startswith(FACT + b"exit=0 ")]
    kernels = [at for at, data in enumerate(packets) if data[:1] == b"C" and CALLS.unpack_from(data)[1]]
    assert len(exits) == 1 and len(kernels) == 3
    assert exits[0] < kernels[0]
    assert len(packets[exits[0]].split()) == 3, "with the process of the command, for the wrapper's is ncu"


@pytest.mark.slow
def test_rank_is_introduced_while_it_lives_but_no_kernels_are_claimed(
    environ: dict[str, str], agent: FakeAgent
) -> None:
    environ = {**environ, "FAKE_NCU_ROWS": "0"}
    command = [*RUN, "--ncu", "9", "--", PYTHON, "-c", "import sys; sys.stdin.read()"]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe)) as wrapper:
        packets = [data for _, data in agent.receive(2) if data[:1] != b"M"]
        assert wrapper.poll() is None
        ncu = psutil.Process(WRAPPED.unpack(packets[0])[1])
        assert "ncu" in " ".join(ncu.cmdline())
        assert {CALLS.unpack_from(data)[1] for data in packets[1:]} == {0}
        assert all(begin == through for _, _, begin, through in map(CALLS.unpack_from, packets[1:]))
        wrapper.stdin.close()
        assert wrapper.wait(20) == 0
        assert b"none of steps 9 was profiled" in wrapper.stderr.read()


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", -9)])
def test_exit_status_is_the_commands(environ: dict[str, str], script: str, status: int) -> None:
    assert run(environ, "sh", "-c", script).returncode == status


@pytest.mark.slow
def test_output_and_input_are_the_commands_own(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [*RUN, "--ncu", "5", "--", "sh", "-c", "cat; echo problem >&2"],
        env=environ,
        input=b"in\0put",
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"in\0put"
    assert b"problem\n" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_command_and_profiler(environ: dict[str, str], number: int) -> None:
    environ = {**environ, "FAKE_NCU": "deaf"}
    command = [
        *RUN,
        "--ncu",
        "5",
        "--",
        PYTHON,
        "-c",
        "import time; print('ready', flush=True); time.sleep(60)",
    ]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        below = psutil.Process(wrapper.pid).children(recursive=True)
        assert len(below) == 4, "ncu, the program between, the command, the witness of signals"
        wrapper.send_signal(number)
        # Python makes an exception of SIGINT and ends by the signal all the same.
        assert wrapper.wait(20) == -number
        assert not psutil.wait_procs(below, 10)[1]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "sign"), [("", b"ready"), ("slow", b"starting")])
def test_keys_at_the_terminal_end_all(environ: dict[str, str], mode: str, sign: bytes) -> None:
    """Ctrl-C goes to the whole group at once. Before ncu has started the command, that then never runs."""
    pid, master = pty.fork()
    if pid == 0:
        command = [*RUN, "--ncu", "5", "--", "sh", "-c", "echo ready; exec sleep 60"]
        os.execvpe(command[0], command, {**environ, "FAKE_NCU": mode})
    output = b""
    while sign not in output:
        output += os.read(master, 4096)
    os.write(master, b"\x03")
    try:
        done: list[int] = []
        wait_for(lambda: done or done.extend(n for n in os.waitpid(pid, os.WNOHANG) if n), seconds=60)
        assert os.WIFSIGNALED(done[1]) and os.WTERMSIG(done[1]) == signal.SIGINT
    finally:
        os.close(master)


@pytest.mark.slow
def test_killed_wrapper_takes_everything_along(environ: dict[str, str]) -> None:
    command = [
        *RUN,
        "--ncu",
        "5",
        "--",
        PYTHON,
        "-c",
        "import time; print('ready', flush=True); time.sleep(60)",
    ]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        below = psutil.Process(wrapper.pid).children(recursive=True)
        wrapper.kill()
        assert not psutil.wait_procs(below, 10)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (
            "denied",
            "the command runs without ncu: the driver refuses its performance counters (ERR_NVGPUCTRPERM)",
        ),
        ("busy", "dcgmi profile --pause"),
        ("dies", "ncu ended before it started the command, which now runs without it"),
    ],
)
def test_command_runs_without_ncu_when_that_cannot_be_used(
    environ: dict[str, str], cuda: Path, mode: str, says: str, tmp_path: Path
) -> None:
    done = train({**environ, "FAKE_NCU": mode}, cuda)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "cuda").exists(), "no range is opened"


@pytest.mark.slow
def test_command_runs_without_an_ncu_that_is_not_there(environ: dict[str, str], tmp_path: Path) -> None:
    done = run(
        {**environ, "ROOFLINE_NCU": str(tmp_path / "none")}, "sh", "-c", "echo $ONEDNN_VERBOSE; exit 4"
    )
    assert (done.returncode, done.stdout) == (4, "1\n"), "library kernels are recorded then as ever"
    assert "Nsight Compute (ncu) is not on this node" in done.stderr


def test_training_outlives_its_profiler(environ: dict[str, str]) -> None:
    done = run({**environ, "FAKE_NCU": "killed"}, "sh", "-c", "sleep 0.5; echo fine; exit 6")
    assert (done.returncode, done.stdout) == (6, "fine\n")


@pytest.mark.slow
def test_refusal_in_the_middle_is_one_notice(environ: dict[str, str], cuda: Path) -> None:
    done = train({**environ, "FAKE_NCU": "late", "FAKE_NCU_ROWS": "0"}, cuda)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("ERR_NVGPUCTRPERM") == 1


@pytest.mark.slow
def test_command_that_ncu_ended_is_not_passed_off_as_its_own_failure(
    environ: dict[str, str], cuda: Path
) -> None:
    done = train({**environ, "FAKE_NCU": "shuts", "FAKE_NCU_ROWS": "0"}, cuda)
    assert done.returncode == -signal.SIGKILL
    assert "ncu ended the command" in done.stderr and "ERR_NVGPUCTRPERM" in done.stderr


@pytest.mark.slow
def test_command_that_does_not_exist_fails_as_without_ncu(environ: dict[str, str]) -> None:
    done = run(environ, "/nonexistent/program")
    assert (done.returncode, done.stderr) == (
        127,
        "roofline-agent run: /nonexistent/program: no such command\n",
    )


@pytest.mark.slow
def test_steps_that_are_none_are_a_usage_error(environ: dict[str, str]) -> None:
    done = run(environ, "true", steps="0")
    assert done.returncode == 2
    assert "step 0 cannot be profiled" in " ".join(done.stderr.split())
    done = subprocess.run(
        [*RUN, "--ncu", "3", "--no-steps", "--", "true"], env=environ, capture_output=True, timeout=60
    )
    assert done.returncode == 2


def test_nothing_is_left_behind(environ: dict[str, str], cuda: Path, tmp_path: Path) -> None:
    train(environ, cuda)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert tempfile.gettempdir() != environ["TMPDIR"]
