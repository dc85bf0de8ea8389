"""`roofline-client` as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from roofline_client import cli

from ..in_process import run_here
from .fake_server import Asked

COMMAND = [sys.executable, "-m", "roofline_client"]
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith("ROOFLINE_") and k != "FORCE_COLOR"}


def run(*arguments: Any, **environ: str) -> subprocess.CompletedProcess[str]:
    return run_here(cli.main, "roofline-client", *map(str, arguments), environ={**PLAIN, **environ})


def asking(site: Asked, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return run(*arguments, "--server", site.address)


def run_process(*arguments: Any, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env={**PLAIN, **environ}, capture_output=True, text=True, timeout=60)


def one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("roofline-client: ")
    assert all(word in done.stderr for word in words), done.stderr
