"""`roofline-agent run`: the command behaves as if it had been started without it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.run.rank_environment import (
    ONEDNN_SWITCHES,
    TIMESTAMP_SWITCHES,
    Naming,
    RecordedKernels,
    kept,
    rank_environment,
)
from roofline_agent.run.witness import TITLE
from roofline_agent.run.wrapper import NOT_SEEN
from roofline_step.packets import CALLS, KERNEL

from tests.fakes import FakeAgent, clean_environ, ended, wait_for

from .wrapped import NOTICE, PYTHON, RUN, in_terminal, python, run

LINE = (
    b"onednn_verbose,primitive,exec,cpu,convolution,jit:avx2,forward_training,"
    b"src_f32::blocked:acdb::f0 wei_f32::blocked:Acdb8a::f0 bia_f32::blocked:a::f0 dst_f32::blocked:acdb::f0,"
    b"attr-scratchpad:user ,alg:convolution_direct,"
    b"mb2_ic3oc8_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1,0.25\n"
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environ(ROOFLINE_SOCKET=str(tmp_path / "agent.sock"))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield agent


def start(environ: dict[str, str], *command: str, session: bool = False) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*RUN, "--", *command],
        env=environ,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=session,
    )


def is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_exit_status_is_the_commands(environ: dict[str, str], status: int) -> None:
    assert run(environ, "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("signals", [signal.SIG_IGN, signal.SIG_DFL])
def test_wrapper_whose_starter_ignores_its_children(
    environ: dict[str, str], signals: signal.Handlers
) -> None:
    code = "import signal, sys; print(signal.getsignal(signal.SIGCHLD).name); sys.exit(3)"
    done = subprocess.run(
        [*RUN, "--", PYTHON, "-c", code],
        env=environ,
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signals),
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, signals.name.encode() + b"\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
def test_death_by_a_signal_is_seen_by_the_parent(environ: dict[str, str], number: int) -> None:
    assert run(environ, "sh", "-c", f"kill -{int(number)} $$").returncode == -number


def test_command_that_opts_out_runs_as_without_a_wrapper(environ: dict[str, str]) -> None:
    done = run({**environ, "ROOFLINE_DISABLE": "1"}, "sh", "-c", "echo ${ROOFLINE_WRAPPED-unwrapped}; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"unwrapped\n", b"")
    assert run({**environ, "ROOFLINE_DISABLE": "1"}, "no-such-command").returncode == 127
    path = run({**environ, "ROOFLINE_DISABLE": "1"}, "sh", "-c", "echo $PYTHONPATH").stdout
    assert b"/hooks/inject" in path, "a training may import roofline_step from it"


def test_command_that_is_not_there(environ: dict[str, str]) -> None:
    done = run(environ, "/nonexistent/program")
    assert done.returncode == 127
    assert done.stderr == b"roofline-agent run: /nonexistent/program: no such command\n"


def test_command_that_cannot_be_run(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a program")
    done = run(environ, str(tmp_path / "text"))
    assert done.returncode == 126
    assert done.stderr.startswith(b"roofline-agent run: ") and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "data",
    [b"", b"no newline", b"\0\xff\xfe\n\r\n", b"onednn_verb", b"a\n" * 1000, bytes(range(256)) * 300],
    ids=["empty", "no-newline", "binary", "half-a-token", "lines", "bytes"],
)
def test_output_is_exact(environ: dict[str, str], tmp_path: Path, data: bytes) -> None:
    (tmp_path / "data").write_bytes(data)
    done = run(environ, "cat", str(tmp_path / "data"))
    assert done.stdout == data
    assert (done.returncode, done.stderr) == (0, NOTICE)


def test_fast_output_is_exact(environ: dict[str, str], tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    (tmp_path / "data").write_bytes(data)
    done = run(environ, "cat", str(tmp_path / "data"))
    assert len(done.stdout) == len(data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_stderr_and_stdin_are_the_commands_own(environ: dict[str, str], agent: FakeAgent) -> None:
    done = run(environ, "sh", "-c", "cat; cat <&0 >&2; printf err >&2", stdin=b"in\0put")
    assert (done.stdout, done.stderr) == (b"in\0put", b"err")


@pytest.mark.parametrize("into", ["2>&1 | cat", ">out 2>&1; cat out"])
def test_streams_that_are_one_file_keep_their_order(
    environ: dict[str, str], tmp_path: Path, into: str
) -> None:
    code = "import os\nfor k in range(2000): os.write(1 + k % 2, b'%d,' % k)"
    (tmp_path / "print.py").write_text(code)
    line = f"{' '.join(RUN)} -- {PYTHON} print.py {into}"
    done = subprocess.run(["bash", "-c", line], env=environ, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.stdout.replace(NOTICE, b"") == b"".join(b"%d," % k for k in range(2000))


def test_verbose_line_behind_a_progress_bar_is_taken_out(environ: dict[str, str], agent: FakeAgent) -> None:
    code = f"""
import os
for k in range(9):
    os.write(2, b"\\r%d" % k)
    os.write(1, {LINE!r})
"""
    done = subprocess.run(
        [*RUN, "--", PYTHON, "-c", code],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    assert done.stdout == b"".join(b"\r%d" % k for k in range(9))


def test_wrapper_never_takes_a_cpu_from_its_command(environ: dict[str, str]) -> None:
    script = (
        "import os, time\n"
        "end = time.monotonic() + 30\n"
        "while os.sched_getscheduler(os.getppid()) != os.SCHED_BATCH and time.monotonic() < end:\n"
        "    time.sleep(0.01)\n"
        "print(*map(os.sched_getscheduler, (0, os.getppid())))"
    )
    assert run(environ, PYTHON, "-c", script).stdout == b"%d %d\n" % (os.SCHED_OTHER, os.SCHED_BATCH)


def test_prompt_without_newline_is_shown_while_the_command_waits(environ: dict[str, str]) -> None:
    code = "import sys; print('on', end='', flush=True); sys.stdin.read(1)"  # "on" may become a token
    with ended(start(environ, PYTHON, "-c", code)) as wrapper:
        assert os.read(wrapper.stdout.fileno(), 10) in (b"on", b"o")
        wrapper.stdin.close()
        assert wrapper.wait(20) == 0


@pytest.mark.slow
def test_arguments_reach_the_command_untouched(environ: dict[str, str]) -> None:
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    words = ["--help", "--job", "x", "--", "-q", "", "a b"]
    assert json.loads(run(environ, PYTHON, "-c", code, *words).stdout) == words
    plain = subprocess.run([*RUN, PYTHON, "-c", code, *words], env=environ, capture_output=True, timeout=60)
    assert json.loads(plain.stdout) == words


COUNT = """
import signal, sys, time
got = []
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda n, _: got.append(n))
print("ready", flush=True)
while len(got) < int(sys.argv[1]): time.sleep(0.01)
time.sleep(0.2)
print(*got, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP])
def test_signal_reaches_the_command_once(environ: dict[str, str], number: int) -> None:
    with ended(start(environ, PYTHON, "-c", COUNT, "1")) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        wrapper.send_signal(number)
        assert wrapper.stdout.readline() == b"%d\n" % number
        assert wrapper.wait(20) == 0


def to_group(wrapper: subprocess.Popen[bytes], number: int) -> None:
    os.killpg(wrapper.pid, number)


def to_each(wrapper: subprocess.Popen[bytes], number: int) -> None:
    """As systemd and Slurm signal all processes of a cgroup."""
    tree = psutil.Process(wrapper.pid)
    for process in [tree, *tree.children(recursive=True)]:
        process.send_signal(number)


def as_timeout(wrapper: subprocess.Popen[bytes], number: int) -> None:
    wrapper.send_signal(number)
    os.killpg(wrapper.pid, number)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("send", [to_group, to_each, as_timeout])
def test_signal_to_all_processes_reaches_the_command_once(
    environ: dict[str, str], send: Callable[[subprocess.Popen[bytes], int], None], number: int
) -> None:
    with ended(start(environ, PYTHON, "-c", COUNT, "1", session=True)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        send(wrapper, number)
        assert wrapper.stdout.readline() == b"%d\n" % number
        assert wrapper.wait(20) == 0


def test_signal_to_the_wrapper_alone_reaches_the_command_after_one_to_all(environ: dict[str, str]) -> None:
    code = COUNT.replace("got.append(n)", "(got.append(n), print('got', flush=True))")
    with ended(start(environ, PYTHON, "-c", code, "3", session=True)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        for send in (to_group, subprocess.Popen.send_signal, to_group):
            send(wrapper, signal.SIGUSR1)
            assert wrapper.stdout.readline() == b"got\n"
            time.sleep(0.1)  # two signals at once would be one
        assert wrapper.stdout.readline() == b"10 10 10\n"


def test_signal_to_a_group_that_the_command_has_left_is_forwarded(environ: dict[str, str]) -> None:
    code = f"import os; os.setsid()\n{COUNT}"
    with ended(start(environ, PYTHON, "-c", code, "1", session=True)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        os.killpg(wrapper.pid, signal.SIGTERM)
        assert wrapper.stdout.readline() == b"15\n"


def test_process_that_watches_signals_is_no_rank_and_ends_with_the_wrapper(environ: dict[str, str]) -> None:
    with ended(start({**environ, "RANK": "0"}, "sh", "-c", "echo ready; read line")) as wrapper:
        wrapper.stdout.readline()
        tree = psutil.Process(wrapper.pid)
        wait_for(lambda: any(child.environ() == {} for child in tree.children()))
        (witness,) = [child for child in tree.children() if child.environ() == {}]
        assert Path(f"/proc/{witness.pid}/cmdline").read_bytes().strip(b"\0") == TITLE
        wait_for(lambda: witness.num_fds() == 2, seconds=5)  # what it held open would not end
        wrapper.kill()
        wait_for(lambda: is_over(witness))


def test_lost_witness_is_said_once_and_the_command_goes_on(environ: dict[str, str]) -> None:
    with ended(start(environ, "sh", "-c", "echo ready; read line; exit 3")) as wrapper:
        wrapper.stdout.readline()
        tree = psutil.Process(wrapper.pid)
        wait_for(lambda: any(child.environ() == {} for child in tree.children()))
        (witness,) = [child for child in tree.children() if child.environ() == {}]
        witness.kill()
        said = next(line for line in iter(wrapper.stderr.readline, b"") if TITLE in line)
        assert b"has ended" in said and b"pid %d" % wrapper.pid in said
        wrapper.stdin.close()
        assert wrapper.wait(20) == 3
        assert TITLE not in wrapper.stderr.read()


OTHER_SIGNALS = [
    *(signal.SIGXCPU, signal.SIGABRT, signal.SIGPWR, signal.SIGIO, signal.SIGPROF, signal.SIGVTALRM),
    *(signal.SIGRTMIN, signal.SIGRTMIN + 7, signal.SIGRTMAX),
]
ECHO = f"""
import signal, sys
for number in {[int(number) for number in OTHER_SIGNALS]}:
    signal.signal(number, lambda n, _: print(n, flush=True))
print("ready", flush=True)
sys.stdin.read()
sys.exit(3)
"""


def test_signals_that_end_most_programs_reach_one_that_handles_them(environ: dict[str, str]) -> None:
    with ended(start(environ, PYTHON, "-c", ECHO)) as wrapper:
        assert wrapper.stdout.readline() == b"ready\n"
        for number in OTHER_SIGNALS:
            wrapper.send_signal(number)
            assert wrapper.stdout.readline() == b"%d\n" % number
        wrapper.stdin.close()
        assert wrapper.wait(20) == 3


def test_timer_of_the_step_log_reaches_no_command(environ: dict[str, str]) -> None:
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, [])); signal.pause()"
    command = [*RUN, "--step-regex", "step (?P<step>[0-9]+)", "--", PYTHON, "-u", "-c", code]
    with ended(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE)) as wrapper:
        assert wrapper.stdout.readline() == b"set()\n"
        wrapper.send_signal(signal.SIGVTALRM)
        wrapper.send_signal(signal.SIGXCPU)
        assert wrapper.wait(20) == -signal.SIGXCPU


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGXCPU, signal.SIGABRT, signal.SIGRTMIN])
def test_command_that_dies_of_a_forwarded_signal(environ: dict[str, str], number: int) -> None:
    with ended(start(environ, "sh", "-c", "echo ready; exec sleep 60")) as wrapper:
        wrapper.stdout.readline()
        wrapper.send_signal(number)
        assert wrapper.wait(20) == -number


def test_killed_wrapper_takes_the_command_along(environ: dict[str, str]) -> None:
    with ended(start(environ, "sh", "-c", "echo $$; exec sleep 60")) as wrapper:
        command = psutil.Process(int(wrapper.stdout.readline()))
        wrapper.kill()
        wait_for(lambda: is_over(command))


def test_reader_that_leaves_ends_the_command(environ: dict[str, str]) -> None:
    line = f"{' '.join(RUN)} -- yes | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, timeout=60)
    plain = subprocess.run(
        ["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"], env=environ, capture_output=True, timeout=60
    )
    assert done.stdout == plain.stdout
    assert b"Traceback" not in done.stderr


def pair_of_sockets() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


@pytest.mark.parametrize("opened", [os.pipe, pty.openpty, pair_of_sockets])
@pytest.mark.parametrize("one_file", [False, True])
def test_command_that_is_ended_ends_though_nobody_reads_what_it_prints(
    environ: dict[str, str], opened: Callable[[], tuple[int, int]], one_file: bool
) -> None:
    reader, writer = opened()
    code = "import os\nos.write(3, b'.')\nwhile True: os.write(1, b'x' * 99)"
    command = [*RUN, "--", "sh", "-c", f'exec 3>&0; exec {PYTHON} -c "$0"', code]
    began, to_us = os.pipe()
    with ended(
        subprocess.Popen(
            command,
            env=environ,
            stdin=to_us,
            stdout=writer,
            stderr=writer if one_file else subprocess.PIPE,
            start_new_session=True,
        )
    ) as wrapper:
        assert os.read(began, 1) == b"."
        wait_for(lambda: not select.select([], [writer], [], 0)[1])
        wrapper.terminate()
        assert wrapper.wait(20) == -signal.SIGTERM
        if not one_file:
            assert b"bytes that the command printed could not be written" in wrapper.stderr.read()
    for descriptor in (reader, writer, began, to_us):
        os.close(descriptor)


@pytest.mark.parametrize("stderr", ["2>&1", ""])
def test_full_disk_does_not_end_the_command(environ: dict[str, str], tmp_path: Path, stderr: str) -> None:
    script = f"for k in 1 2 3; do echo $k; sleep 0.1; done; echo over >{tmp_path}/over; exit 5"
    line = f"{' '.join(RUN)} -- sh -c '{script}' >/dev/full {stderr}; echo $?"
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, timeout=60)
    assert (done.stdout, (tmp_path / "over").read_text()) == (b"5\n", "over\n")
    said = done.stderr.replace(NOTICE, b"").decode().splitlines()
    if not stderr:
        assert [line.partition(": ")[2] for line in said] == [
            "what the command prints cannot be written and is lost for now: No space left on device",
            "6 bytes that the command printed could not be written",
        ]


def test_command_ends_though_something_it_started_goes_on(environ: dict[str, str], tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    with ended(
        start(environ, "sh", "-c", f"(read x <{go}; printf 'later\\n') & printf now; exit 3")
    ) as wrapper:
        assert wrapper.wait(20) == 3
        with go.open("wb") as fifo:
            fifo.write(b"\n")
        assert wrapper.stdout.read() == b"nowlater\n"


def test_last_byte_of_something_left_behind_is_passed(environ: dict[str, str], tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    with ended(start(environ, "sh", "-c", f"(read x <{go}; printf hello) & exit 0")) as wrapper:
        assert wrapper.wait(20) == 0
        with go.open("wb") as fifo:
            fifo.write(b"\n")
        assert wrapper.stdout.read() == b"hello"


def test_command_ends_though_something_it_started_keeps_printing(environ: dict[str, str]) -> None:
    script = "(while sleep 0.02; do echo x; done) & echo $!; exit 3"
    with ended(start(environ, "sh", "-c", script)) as wrapper:
        chatty = psutil.Process(int(wrapper.stdout.readline()))
        try:
            lines = [wrapper.stdout.readline() for _ in range(60)]  # long after the command ended
            assert lines[-1] == b"x\n"
            assert wrapper.wait(60) == 3
        except subprocess.TimeoutExpired:
            pytest.fail("the wrapper goes on")
        finally:
            chatty.kill()


def test_command_on_a_terminal_sees_a_terminal_of_its_size(environ: dict[str, str]) -> None:
    code = "import os; print(os.isatty(1), os.isatty(0), *os.get_terminal_size(1))"
    assert in_terminal(environ, PYTHON, "-c", code) == b"True True 77 33\r\n"


def test_streams_on_one_terminal_keep_their_order(environ: dict[str, str]) -> None:
    """As tqdm.write beside a progress bar needs it."""
    code = f"import os\nfor k in range(300): os.write(1 + k % 2, b'\\r%d' % k)\nos.write(1, {LINE!r})"
    assert in_terminal(environ, PYTHON, "-c", code) == b"".join(b"\r%d" % k for k in range(300))


def test_without_kernels_the_command_has_the_very_terminal(environ: dict[str, str]) -> None:
    """So it can switch that to single keys."""
    code = "import os; print(*{os.ttyname(stream) for stream in (0, 1, 2)} - {os.ttyname(0)}, 'same')"
    assert in_terminal(environ, PYTHON, "-c", code, options=["--no-kernels"]) == b"same\r\n"


def test_command_on_a_terminal_is_told_of_its_new_size(environ: dict[str, str], tmp_path: Path) -> None:
    """Not only by the signal that comes to all processes before its terminal has that size."""
    (tmp_path / "code.py").write_text("""
import os, pathlib, signal
def resized(*_):
    pathlib.Path("told").touch()
    print(os.get_terminal_size(1).columns, flush=True)
signal.signal(signal.SIGWINCH, resized)
print("ready", flush=True)
while True: signal.pause()
""")
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execvpe(RUN[0], [*RUN, "--", PYTHON, "code.py"], environ)
    output = b""
    try:
        while b"ready" not in output:
            output += os.read(master, 4096)
        os.kill(pid, signal.SIGSTOP)  # as if the command were faster
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 30, 132, 0, 0))
        wait_for((tmp_path / "told").exists)
        os.kill(pid, signal.SIGCONT)
        while b"132" not in output:
            output += os.read(master, 4096)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def test_terminal_output_is_translated_once(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"a\nb\r\nc\x1b[0m")
    assert in_terminal(environ, "cat", str(tmp_path / "data")) == b"a\r\nb\r\r\nc\x1b[0m"


def test_terminal_that_closes_ends_the_command(environ: dict[str, str]) -> None:
    pid, master = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.execvpe(RUN[0], [*RUN, "--", "sh", "-c", "echo $$ pid; exec sleep 60"], environ)
    output = b""
    while b" pid" not in output:
        output += os.read(master, 4096)
    command = psutil.Process(int(output.split(b" pid")[0].split()[-1]))
    os.close(master)
    try:
        wait_for(lambda: is_over(command), seconds=20)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_agent_receives_the_command_and_its_kernels(environ: dict[str, str], agent: FakeAgent) -> None:
    code = (
        f"import os,sys; sys.stdout.buffer.write(b'before\\n' + {LINE!r} + b'after\\n'); print(os.getpid())"
    )
    with ended(start(environ, PYTHON, "-c", code)) as wrapper:
        wrapper.stdin.close()
        out = wrapper.stdout.read()
        assert wrapper.stderr.read() == b""
        assert wrapper.wait(20) == 0
    before, after, pid = out.splitlines()
    assert (before, after) == (b"before", b"after"), "the lines we asked for are not the user's"
    packets = [data for _, data in agent.poll(0.5)]
    assert WRAPPED.unpack(packets[0]) == (b"W", int(pid))
    (kernel,) = [p for p in packets if p[:1] == b"K"]
    assert KERNEL.unpack_from(kernel) == (b"K", 0)
    shape = json.loads(kernel[KERNEL.size :])
    assert shape[:4] == ["onednn", "convolution", "forward_training", "f32"]
    calls = [CALLS.unpack_from(p) for p in packets if p[:1] == b"C"]
    assert sum(count for _, count, _, _ in calls) == 1
    assert all(a[3] == b[2] for a, b in pairwise(calls)), "coverage has no holes"
    (one,) = [p for p in packets if p[:1] == b"C" and CALLS.unpack_from(p)[1]]
    assert struct.unpack("<3q", one[CALLS.size :])[2] == 250_000


def test_no_kernels_are_claimed_once_the_command_has_closed_its_stdout(
    environ: dict[str, str], agent: FakeAgent
) -> None:
    """It may compute for hours after it has redirected that: its lines go elsewhere."""
    with ended(start(environ, "sh", "-c", "exec 1>&-; sleep 1.5")) as wrapper:
        assert wrapper.wait(20) == 0
        over_ns = time.monotonic_ns()
    claims = [CALLS.unpack_from(data)[3] for _, data in agent.poll(0.5) if data[:1] == b"C"]
    assert claims and max(claims) < over_ns - 1_000_000_000


def test_agent_that_starts_later_gets_kernels_from_then_on(environ: dict[str, str], tmp_path: Path) -> None:
    code = f"import sys\nfor line in sys.stdin: sys.stdout.buffer.write({LINE!r}); print('ok', flush=True)"
    with ended(start(environ, PYTHON, "-c", code)) as wrapper:
        wrapper.stdin.write(b"1\n")
        wrapper.stdin.flush()
        assert wrapper.stdout.readline() == b"ok\n"
        with FakeAgent(tmp_path / "agent.sock") as agent:
            assert agent.receive(1)[0][1][:1] == b"W"
            wrapper.stdin.write(b"2\n")
            wrapper.stdin.flush()
            wait_for(lambda: any(d[:1] == b"C" and CALLS.unpack_from(d)[1] for _, d in agent.poll(0.1)))
        wrapper.stdin.close()
        assert wrapper.wait(20) == 0
        assert wrapper.stderr.read() == NOTICE


def test_without_an_agent_there_is_one_notice(environ: dict[str, str]) -> None:
    text = b"roofline-agent: no agent runs on this node, nothing is recorded until one is started\n"
    assert run(environ, "sleep", "0.3").stderr == text


def test_names_given_reach_the_command(environ: dict[str, str]) -> None:
    code = (
        "import os; print(*(os.environ['ROOFLINE_' + k] for k in ('JOB', 'ROLE', 'RANK', 'NAME', 'WRAPPED')))"
    )
    done = python(environ, code, "--job", "j7", "--role", "ps", "--rank", "0", "--name", "left")
    assert done.stdout == b"j7 ps 0 left 1\n"


def test_switches_are_set_for_the_command() -> None:
    environ = rank_environment(
        {"A": "b"}, Naming(), Path("/hooks"), "1:2", kernels=RecordedKernels("all"), steps=True
    )
    assert all(environ[name] == "1" for name in (*ONEDNN_SWITCHES, "MKL_VERBOSE", "ONEDNN_VERBOSE_TIMESTAMP"))
    assert (environ["PYTHONPATH"], environ["ROOFLINE_STDOUT"], environ["A"]) == ("/hooks", "1:2", "b")
    assert not {"ROOFLINE_JOB", "ROOFLINE_ROLE", "ROOFLINE_RANK", "ROOFLINE_NAME"} & environ.keys()


def test_nothing_is_switched_on_that_was_not_asked_for() -> None:
    environ = rank_environment(
        {}, Naming(), Path("/hooks"), "1:2", kernels=RecordedKernels("none"), steps=False
    )
    assert environ == {"ROOFLINE_WRAPPED": "1"}


@pytest.mark.parametrize("name", ONEDNN_SWITCHES)
@pytest.mark.parametrize("value", ["0", "2"])
def test_users_own_switch_stays_alone(name: str, value: str) -> None:
    user = {name: value}
    environ = rank_environment(
        user, Naming(), Path("/hooks"), "1:2", kernels=RecordedKernels("all"), steps=True
    )
    assert {n: environ[n] for n in ONEDNN_SWITCHES if n in environ} == user
    assert kept(user) == (True, False)
    assert kept({"MKL_VERBOSE": "1"}) == (False, True)


# Not as they are: the wrapper would take a verbose line out.
SHOW = "import os; print(*sorted(name.lower() for name in os.environ if 'VERBOSE' in name))"
SET_BY_US = sorted(name.lower() for name in (*ONEDNN_SWITCHES, *TIMESTAMP_SWITCHES, "MKL_VERBOSE"))


def test_switches_are_not_for_what_prints_into_a_file(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    show = f"{PYTHON} {tmp_path}/show.py"
    done = run(
        environ, "sh", "-c", f"{show}; {show} >{tmp_path}/log; RANK=0 {show} | cat; {show} >&-; {show}"
    )
    assert [line.split() for line in done.stdout.decode().splitlines()] == [SET_BY_US] * 3
    assert (tmp_path / "log").read_text() == "\n", "nobody would take the lines out of it"


@pytest.mark.parametrize(
    ("command", "switch"),
    [
        ("exec {python}", b"1"),
        ("{python} | cat", b"-"),
        ("echo $({python})", b"-"),
        ("RANK=0 {python} | cat", b"1"),
        ("SLURM_STEP_ID=3 {python} | cat", b"-"),
        ("RANK=0 {python} >file; cat file", b"-"),
    ],
)
def test_switches_are_for_what_prints_to_the_wrapper(
    environ: dict[str, str], tmp_path: Path, command: str, switch: bytes
) -> None:
    (tmp_path / "code.py").write_text("import os; print(os.environ.get('MKL_VERBOSE', '-'))")
    command = f"cd {tmp_path}; {command.format(python=f'{PYTHON} code.py')}"
    assert run({**environ, "SLURM_STEP_ID": "2"}, "sh", "-c", command).stdout == switch + b"\n"


def test_switches_are_not_for_a_training_that_moves_its_stdout(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "torch.py").touch()
    code = f"""
import os, sys
sys.path.append({str(tmp_path)!r})
os.dup2(os.open({str(tmp_path / "log")!r}, os.O_CREAT | os.O_WRONLY), 1)
import torch
print(os.environ.get("MKL_VERBOSE"), file=sys.stderr)
"""
    assert run(environ, PYTHON, "-c", code, options=["--kernels", "all"]).stderr == NOTICE + b"None\n"


def test_switches_are_for_what_prints_to_the_terminal(environ: dict[str, str]) -> None:
    assert in_terminal(environ, PYTHON, "-c", SHOW).split() == [name.encode() for name in SET_BY_US]


def test_users_own_switches_are_for_all_their_files(environ: dict[str, str], tmp_path: Path) -> None:
    mine = {**environ, "MKL_VERBOSE": "1", "DNNL_VERBOSE": "1"}
    (tmp_path / "show.py").write_text(SHOW)
    run(mine, "sh", "-c", f"{PYTHON} {tmp_path}/show.py >{tmp_path}/log")
    assert (tmp_path / "log").read_text().split() == ["dnnl_verbose", "mkl_verbose"]
    run({**environ, "MKL_VERBOSE": "1"}, "sh", "-c", f"{PYTHON} {tmp_path}/show.py >{tmp_path}/log")
    assert (tmp_path / "log").read_text().split() == ["mkl_verbose"]


def test_lines_the_user_asked_for_stay_in_the_output(environ: dict[str, str], agent: FakeAgent) -> None:
    code = f"import os,sys; sys.stdout.buffer.write({LINE!r}); print(os.environ['ONEDNN_VERBOSE'])"
    done = python({**environ, "ONEDNN_VERBOSE": "2"}, code)
    assert done.stdout == LINE + b"2\n"
    assert any(d[:1] == b"K" for _, d in agent.poll(0.5)), "and are recorded all the same"


@pytest.mark.parametrize(
    ("options", "more"), [(["--no-kernels"], {}), ([], {"ONEDNN_VERBOSE": "0", "MKL_VERBOSE": "0"})], ids=str
)
def test_what_is_not_recorded_is_not_claimed(
    environ: dict[str, str], agent: FakeAgent, options: list[str], more: dict[str, str]
) -> None:
    run({**environ, **more}, "sleep", "0.3", options=options)
    assert [d for _, d in agent.poll(0.5) if d[:1] == b"C"] == []


@pytest.mark.parametrize(("status", "quiet", "says"), [(1, False, True), (1, True, False), (0, False, False)])
def test_command_that_fails_before_the_agent_saw_it_may_not_be_recorded(
    environ: dict[str, str], agent: FakeAgent, status: int, quiet: bool, says: bool
) -> None:
    command = [word for word in RUN if quiet or word != "--quiet"]
    done = subprocess.run(
        [*command, "--", "sh", "-c", f"exit {status}"], env=environ, capture_output=True, timeout=60
    )
    assert (NOT_SEEN.encode() in done.stderr, done.returncode) == (says, status)


def test_users_path_and_sitecustomize_still_count(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.users_own = __name__\n")
    (tmp_path / "mine.py").write_text("x = 5\n")
    code = (
        "import sys, mine, sitecustomize, os; print(mine.x, sys.users_own, sitecustomize.__file__); "
        "print('Roofline' in str(sys.meta_path[0]), [p for p in sys.path if 'inject' in p])"
    )
    done = python({**environ, "PYTHONPATH": str(tmp_path)}, code)
    first, second = done.stdout.decode().splitlines()
    assert first == f"5 sitecustomize {tmp_path}/sitecustomize.py"
    assert second == "True []"
    assert done.stderr == NOTICE


def test_users_broken_sitecustomize_fails_as_it_would_without_us(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    done = python({**environ, "PYTHONPATH": str(tmp_path)}, "print('runs')")
    plain = subprocess.run(
        [PYTHON, "-c", "print('runs')"],
        env={**environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == plain.stdout
    assert b"ZeroDivisionError" in done.stderr


def test_import_error_in_users_sitecustomize_is_shown(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import nonexistent_module\n")
    script = f"PYTHONPATH=$PYTHONPATH:{tmp_path} exec {PYTHON} -c 'print(5)'"
    done = run(environ, "sh", "-c", script)
    assert done.stdout == b"5\n"
    assert b"nonexistent_module" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["-S", "-I", "-E", "-s", "-B"])
def test_python_starts_with_any_flag(environ: dict[str, str], flag: str) -> None:
    done = run(environ, PYTHON, flag, "-W", "error", "-c", "print('runs')")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"runs\n", NOTICE)


OTHERS = sorted(Path.home().glob(".pyenv/versions/3.[89]*/bin/python")) + sorted(
    Path.home().glob(".pyenv/versions/3.1*/bin/python")
)


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS, ids=lambda p: p.parts[-3])
def test_other_pythons_start_with_hooks_and_marks(
    environ: dict[str, str], agent: FakeAgent, other: Path
) -> None:
    code = "import sys, roofline_step; roofline_step.mark(7); print('_roofline_hooks' in sys.modules)"
    done = run(environ, str(other), "-W", "error", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True\n", b"")
    assert any(d[:1] == b"M" for _, d in agent.poll(0.5))


OLD = [path for old in ("2.7", "3.6") for path in Path.home().glob(f".pyenv/versions/{old}*/bin/python")]


@pytest.mark.slow
@pytest.mark.parametrize("old", OLD, ids=lambda p: p.parts[-3])
def test_old_pythons_start_without_hooks(environ: dict[str, str], tmp_path: Path, old: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('own')\n")
    (tmp_path / "torch.py").write_text("print('torch')\n")
    # Only for the command: the wrapper is another Python, which would print it, too.
    own = f"PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PYTHONPATH:{tmp_path}"
    script = f"{own} exec {old} -c 'import torch'"
    done = run(environ, "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"own\ntorch\n", NOTICE)


def test_hooks_that_cannot_load_are_not_noticed(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "roofline_step.py").write_text("raise RuntimeError\n")
    # Only for the command: the wrapper needs its own.
    script = f"PYTHONPATH=$PYTHONPATH:{tmp_path} exec {PYTHON} -c 'print(5)'"
    done = run(environ, "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"5\n", NOTICE)


WATCHED = """
import os, sys
from roofline_agent.run import wrapper
from roofline_agent.run.rank_environment import RecordedKernels, Naming

class Good:
    environ = {"WATCHED": "here"}
    looks = 0
    def look(self):
        self.looks += 1
        return [("engine.allreduce", self.looks, self.looks + 1, None, 1)]
    def close(self): print("closed after a look:", self.looks > 1, file=sys.stderr)

class Bad(Good):
    def look(self): raise RuntimeError("no file")

class Strange(Good):
    def look(self): return [("engine.allreduce", 10**300, 10**301, None, 1)]
    def close(self): raise RuntimeError("cannot close")

class Worst(Good):
    def look(self): return []
    def close(self): raise RuntimeError("cannot close")

command = ["sh", "-c", "echo $WATCHED; exec 1>&-; sleep 0.6; exit 3"]
notify = lambda text: print(text, file=sys.stderr)
watchers = [Bad(), Strange(), Good(), Worst()]
sys.exit(wrapper.run(command, Naming(), dict(os.environ), notify, watchers=watchers, quiet=True))
"""


def test_watchers_are_looked_at_until_the_command_ends(environ: dict[str, str], agent: FakeAgent) -> None:
    """Though its stdout has ended long before; and one that fails costs only itself."""
    done = subprocess.run([PYTHON, "-c", WATCHED], env=environ, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, b"here\n")
    assert done.stderr.splitlines() == [
        b"roofline-agent: Bad failed and is given up: no file",
        done.stderr.splitlines()[1],
        b"closed after a look: True",
        b"roofline-agent: the command goes on, a part is not recorded: RuntimeError in close: cannot close",
    ]
    assert b"Strange failed and is given up" in done.stderr.splitlines()[1]
    spans = [data for _, data in agent.poll(0.5) if data[:1] == b"S"]
    assert len(spans) >= 3 and all(b"engine.allreduce" in data for data in spans)
