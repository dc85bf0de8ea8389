"""Commands below `roofline-agent run`, started as a user does."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

from roofline_agent.run.wrapper import NO_AGENT

from tests.fakes import AGENT, ended

RUN = [*AGENT, "run", "--quiet"]
PYTHON = sys.executable
NOTICE = f"{NO_AGENT}\n".encode()


def run(
    environ: dict[str, str], *command: str, options: Sequence[str] = (), stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*RUN, *options, "--", *command], env=environ, input=stdin, capture_output=True, timeout=60
    )


def python(environ: dict[str, str], code: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    return run(environ, PYTHON, "-c", code, options=options)


def in_terminal(
    environ: dict[str, str], *command: str, size: tuple[int, int] = (33, 77), options: Sequence[str] = ()
) -> bytes:
    """What a command prints on a terminal of this size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
    child = subprocess.Popen(
        [*RUN, *options, "--", *command],
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    output = b""
    with ended(child):
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            output += part
        assert child.wait(20) == 0
    os.close(master)
    return output.replace(NOTICE.replace(b"\n", b"\r\n"), b"")
