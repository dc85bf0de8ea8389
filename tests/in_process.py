"""Runs a program's `main` within the test's own process: starting Python for it takes ten times as long.

Where a pipe, a signal, a terminal or the start itself is what is tested, a process it must be.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from unittest import mock


def run_here(
    main: Callable[[], None], program: str, *arguments: str, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """What a process with these arguments and this whole environment would print and return."""
    command = [program, *arguments]
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environ, clear=True),
        mock.patch.object(sys, "argv", command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
