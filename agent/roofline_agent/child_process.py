"""Programs as children of this one: they end with it, even by SIGKILL, and are never taken for ranks.

`ChildProcess` starts one, reads its lines with a bound on its silence, and says how it ended.

The kernel sends a signal of the child's choice when the *thread* that started it ends (prctl(2),
PR_SET_PDEATHSIG). The child asks for that itself, before it becomes the command: Python's preexec_fn would
run between fork and exec of a program with threads, which can deadlock.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

# Arguments: the parent's pid, then the command. The parent may be gone before prctl was called.
_ASK = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{sys.argv[2]}: {error.strerror}\\n".encode())
    os._exit(127)
"""


_PASSED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "PERF_EXEC_PATH")
_CLOSE_S = 10.0  # a process in the middle of a driver's call dies only after it
_STDERR_BYTES = 4000  # of its end, which gives the reason


def bare_environment(prefix: str = "", **others: str) -> dict[str, str]:
    """What a tool needs of our environment, and others.

    The agent may run inside a job: RANK and its like would make its tools look like ranks. prefix: of the
    tool's own variables, if it has any.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or (prefix and name.startswith(prefix))
    }
    return {**kept, "LC_ALL": "C", **others}


def ending_with_us(command: Sequence[str]) -> list[str]:
    """The same command, sent SIGTERM when the thread that starts it ends.

    It costs the start of a bare interpreter, about 20 ms of CPU, once.
    """
    if not sys.executable:
        return [*command]
    return [sys.executable, "-I", "-S", "-c", _ASK, str(os.getpid()), *command]


class Exit(NamedTuple):
    """How a process ended."""

    status: int  # as subprocess gives it: negative for a signal
    stderr: str  # the end of what it wrote there

    @property
    def signal(self) -> str:
        """The name of the signal that killed it; "": none did."""
        if self.status >= 0:
            return ""
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"

    @property
    def reason(self) -> str:
        """The last line on standard error."""
        return self.stderr.splitlines()[-1] if self.stderr else "it gave no reason"


class ChildProcess:
    """A running program, whose lines are read as they come. `close` it, or use it as a context.

    It runs in a session of its own: an interrupt from the terminal is for us, who then end it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        reads_stderr: bool = False,
        takes_input: bool = False,
    ) -> None:
        """Raises OSError where it cannot be started.

        reads_stderr: its lines are those of standard error; else of standard output, and standard error goes
        to a file: a pipe that nobody reads could fill up and block the child.
        takes_input: it has an input, and ends by itself when that does, as it does however we end. Else the
        kernel ends it with the thread that called this.
        """
        if not takes_input:
            # Behind the helper a missing program would be a child that ended with status 127.
            if shutil.which(command[0], path=(environment or os.environ).get("PATH")) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
            command = ending_with_us(command)
        self._stderr: IO[bytes] | None = None
        if not reads_stderr:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=directory,
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if reads_stderr else subprocess.PIPE,
                stderr=subprocess.PIPE if reads_stderr else self._stderr,
                start_new_session=True,
            )
        except OSError:
            if self._stderr:
                self._stderr.close()
            raise
        pipe = self._process.stderr if reads_stderr else self._process.stdout
        assert pipe is not None
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)
        self._incomplete = b""  # the beginning of a line

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative: the signal that killed it."""
        return self._process.poll()

    def fileno(self) -> int:
        """File descriptor of the pipe that its lines come from."""
        return self._pipe.fileno()

    def write_line(self, line: str) -> None:
        """To its input. Raises OSError where it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def close_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def lines(self, silence_s: float = math.inf, total_s: float = math.inf) -> Iterator[str]:
        """Its lines until it has ended; one that it did not complete is left out.

        Raises TimeoutError when no line came for `silence_s`, or when it has not ended after `total_s`.
        """
        end = time.monotonic() + total_s
        deadline = min(end, time.monotonic() + silence_s)
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            if not poll.poll(None if left_s == math.inf else math.ceil(left_s * 1000)):
                raise TimeoutError
            data = os.read(self._pipe.fileno(), 1 << 16)
            if not data:
                break
            lines = self._completed(data)
            if lines:
                deadline = min(end, time.monotonic() + silence_s)
            yield from lines
        left_s = max(0.1, deadline - time.monotonic())
        try:
            self._process.wait(None if left_s == math.inf else left_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def lines_so_far(self) -> list[str]:
        """Its lines since the last call; waits for none."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                data += part
        return self._completed(data)

    def _completed(self, data: bytes) -> list[str]:
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def stop(self, number: signal.Signals | None, grace_s: float) -> None:
        """Have it end by a signal, or by itself if None; kill it where it has not after `grace_s`."""
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            # One that the kernel does not let go is left behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)

    def kill(self) -> None:
        """Kill it and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def exit(self) -> Exit:
        """How it ended; asked when it has."""
        text = ""
        if self._stderr:
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_BYTES))
            text = self._stderr.read().decode("utf-8", "replace").strip()
        return Exit(self._process.returncode or 0, text)

    def close(self, wait_s: float = _CLOSE_S) -> None:
        """Kill what is left of it, and close all that it was read by."""
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        self.close_input()
        self._pipe.close()
        if self._stderr:
            self._stderr.close()
