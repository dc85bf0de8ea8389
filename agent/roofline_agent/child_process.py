"""A tool as a child: it dies with this process, even by SIGKILL, and is never taken for a rank.

The kernel sends a signal of the child's choice when the *thread* that started it ends (prctl(2),
PR_SET_PDEATHSIG). The child asks for that itself, before it becomes the command: Python's preexec_fn would
run between fork and exec of a program with threads, which can deadlock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

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


def leashed(command: Sequence[str]) -> list[str]:
    """The same command on a leash. It costs the start of a bare interpreter, about 20 ms of CPU, once."""
    if not sys.executable:
        return [*command]
    return [sys.executable, "-I", "-S", "-c", _ASK, str(os.getpid()), *command]
