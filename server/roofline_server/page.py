"""The live page next to the server: a process of roofline_client's, which asks the server as any client does.

It has no rights of its own: a visitor brings a token, if the server asks for one."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from roofline.listening import at_all_addresses, is_all

from .errors import ConfigError, Unavailable

log = logging.getLogger(__name__)

DEFAULT_PAGE = "127.0.0.1:7645"
NEEDS = ("roofline_client", "starlette", "uvicorn", "sse_starlette", "jinja2", "plotly", "python_multipart")
AGAIN_S, MOST_AGAIN_S = 2.0, 300.0  # before it is started again, at first and at most
END_S = 5.0
FREE_S, TRY_S = 3.0, 0.1  # for the page of a killed server to end


def check_page() -> None:
    """Raises ConfigError where the page is not installed."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the page needs {missing[0]}, which is not installed: pip install 'roofline-profiler[page]'"
        )


def check_free(listen: str, within_s: float = 0.0) -> None:
    """Raises Unavailable where the port is taken, as by the page of another server, and does not become free
    within that time."""
    end = time.monotonic() + within_s
    while (why := _problem(listen)) and time.monotonic() < end:
        time.sleep(TRY_S)
    if why:
        raise Unavailable(f"{listen} is not available: {why}; --page HOST:PORT chooses another")


def _problem(listen: str) -> str:
    """Why nobody can listen there; "": one can."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    try:
        if is_all(host):
            at_all_addresses(int(port)).close()
            return ""
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def command(listen: str, server: str, identity: Sequence[Path]) -> list[str]:
    """What starts it. identity: certificate and key, of a page that others reach; else nothing."""
    words = [sys.executable, "-m", "roofline_client", "page", "--tokens", "--until-stdin-ends"]
    words += ["--server", server, "--listen", listen]
    if identity:
        certificate, key = identity
        words += ["--certificate", str(certificate), "--key", str(key)]
    return words


async def keep_page(words: Sequence[str], again_s: float = AGAIN_S) -> None:
    """Have it run until cancelled; started again when it ends by itself, ever more seldom."""
    while True:
        # Its stdin ends with this process, however that ends.
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            last = await _log_lines(process)
            status = await process.wait()
        finally:
            await _end(process)
        # systemd sends SIGTERM to all processes of a unit that it stops.
        level = logging.INFO if status == -signal.SIGTERM else logging.WARNING
        log.log(level, "the live page ended with %d (%s); it is started again in %g s", status, last, again_s)
        await asyncio.sleep(again_s)
        again_s = min(2 * again_s, MOST_AGAIN_S)


async def _log_lines(process: asyncio.subprocess.Process) -> str:
    """What it says, to the log; the last line."""
    last = ""
    assert process.stderr is not None
    while line := await process.stderr.readline():
        last = line.decode(errors="replace").strip().removeprefix("roofline-client: ")
        log.info("%s", last)
    return last


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except (TimeoutError, asyncio.TimeoutError):
        process.kill()
        await process.wait()
