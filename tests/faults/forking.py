"""Servers that start without importing everything again: a process that has done so forks them.

What `python -m tests.faults.forking` forks runs `python -m roofline_server ARGUMENTS` as a fresh process
does: no object of gRPC and no thread of Python exists before, signals have their defaults, standard output
and error are the log, and the child ends by the interpreter's own end. shim.c counts and kills in it as in
any other: its memory is shared. Not as in a fresh process: imports read no files, code is at the same
addresses each time, and the threads of numpy and pyarrow are made again by their own handlers of forks.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

REPOSITORY = Path(__file__).parents[2]
APART = "FAULTS_SEAL_APART"  # in the environment: "1": a process of its own does all sealings; "0": none


def _has_more(output: IO[bytes]) -> bool:
    """Whether something can be read at once."""
    look = select.poll()  # takes any descriptor; select() none above 1023
    look.register(output, select.POLLIN)
    return bool(look.poll(0))


class Process(Protocol):
    """As much of subprocess.Popen as is used of a server."""

    pid: int

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def kill(self) -> None: ...

    def send_signal(self, number: int, /) -> None: ...


class Forker:
    """A process that forks servers, one at a time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environ),
            cwd=REPOSITORY,
        )

    def start(self, arguments: Sequence[str], log: Path) -> Forked:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(log), *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        return Forked(self)

    def number(self, waits: bool) -> int | None:
        """The next that it says: a process id, then how that process ended. None: nothing yet."""
        output = self._process.stdout
        assert output is not None
        if not waits and not _has_more(output):
            return None
        # Eight bytes are written at once, and so are never read in parts.
        data = os.read(output.fileno(), 8)
        if not data:
            raise RuntimeError(f"what forks servers has ended with {self._process.wait()}")
        return int.from_bytes(data, "little", signed=True)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.kill()
        self._process.wait()


class Forked:
    """A server that was forked."""

    def __init__(self, forker: Forker) -> None:
        self._forker = forker
        self.pid = forker.number(waits=True) or 0
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forker.number(waits=False)
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._forker.number(waits=True)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


# -- the process that forks ----------------------------------------------------------------------------


def say(number: int) -> None:
    os.write(1, number.to_bytes(8, "little", signed=True))


def fork_for_ever() -> list[str] | None:
    """Fork for each line of standard input. Gives the line in a child, and None at its end."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            return [str(part) for part in json.loads(line)]
        say(pid)
        _, status = os.waitpid(pid, 0)
        say(os.waitstatus_to_exitcode(status))
    return None


def become(log: str, arguments: Sequence[str]) -> None:
    """Be a server."""
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, number)
    os.close(written)
    os.close(nothing)
    if apart := os.environ.get(APART):
        from roofline_server.store.sealing import process

        process.LARGE_BYTES = 0 if apart == "1" else sys.maxsize
    sys.argv = ["roofline-server", *arguments]
    runpy.run_module("roofline_server", run_name="__main__", alter_sys=True)


def import_all() -> None:
    """What servers import, also later."""
    import pydantic.type_adapter  # noqa: F401
    import roofline_server.cli
    import roofline_server.serve
    import roofline_server.store.check.reading
    import roofline_server.store.check.repair  # noqa: F401
    import sqlalchemy.dialects.sqlite  # noqa: F401


if __name__ == "__main__":
    import_all()
    asked = fork_for_ever()
    if asked is not None:
        become(asked[0], asked[1:])
