"""Ctrl-C in the first moments of any command: exit code 130, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .fakes import clean_environ

# SIGINT as one of the program's imports begins, by number.
PROGRAM = """
import builtins, os, signal, sys
sys.argv = [{module!r}, "--help"]
real, count = builtins.__import__, 0
def counting(*args, **kwargs):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*args, **kwargs)
import {module}
builtins.__import__ = counting
from {module}.__main__ import main
main()
"""


@pytest.mark.parametrize("at", [60, 200])
@pytest.mark.parametrize("module", ["roofline_agent", "roofline_server", "roofline_client"])
def test_interrupt_while_a_program_is_loaded(module: str, at: int) -> None:
    code = PROGRAM.format(module=module, at=at)
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environ(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "")
