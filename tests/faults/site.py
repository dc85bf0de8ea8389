"""A server as a process that is started again and again on one data directory, and the senders it serves."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .forking import APART, Forker, Process
from .power import cut
from .sender import Sender
from .shim import Control

log = logging.getLogger(__name__)

PATIENCE_S = 40.0
STARTED = re.compile(r"roofline-server \S+ at (\S+:\d+)")
TRACEBACK = "Traceback (most recent call last)"
PAUSE_S = 0.02  # between two batches of a sender


class StillNot(Exception):
    """Something did not come true in time; the text says what."""


async def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises StillNot."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise StillNot(f"after {seconds:.0f} s still not so: {what}")
        await asyncio.sleep(0.01)


class Site:
    """One folder, one server at a time."""

    def __init__(
        self,
        folder: Path,
        library: Path | None,
        seal_s: float = 0.1,
        power: random.Random | None = None,
        forks: bool = False,
        seals_apart: bool | None = None,
    ) -> None:
        """library: of shim.py; None: no call is ever touched. power: before each start the power was cut;
        None: it never is. forks: servers are forked (forking.py) instead of started afresh; of these
        alone, seals_apart: all sealings are done by a process of its own, or none; None: the large ones."""
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        self.folder, self.data, self.address = folder, folder / "data", ""
        self.control = Control(folder / "control", library) if library else None
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOFLINE_")}
        if seals_apart is not None:
            self.environ[APART] = str(int(seals_apart))
        self.environ["ROOFLINE_PAGE"] = "off"
        self._seal_s = seal_s
        self._power, self._journal = power, folder / "journal"
        if power is not None:
            self._journal.touch()
            self.environ |= {"ROOFLINE_JOURNAL": str(self._journal), "ROOFLINE_JOURNALED": str(self.data)}
        self._log = folder / "server.log"
        self.undone = 0  # writes and renames that power cuts took back
        self._server: Process | None = None
        self._forker = Forker(self._all_environ()) if forks else None

    def _all_environ(self) -> dict[str, str]:
        return {**self.environ, **(self.control.environ if self.control else {})}

    @property
    def server(self) -> Process:
        assert self._server is not None
        return self._server

    @property
    def is_dead(self) -> bool:
        return self.server.poll() is not None

    def spawn(self) -> None:
        """Start the server without waiting for it. Its port is a new one each time."""
        self.address = ""
        self.begin("--listen", "127.0.0.1:0", "--data", str(self.data), "--seal", str(self._seal_s))

    def begin(self, *arguments: str) -> None:
        """Start `roofline-server` with these arguments without waiting for it."""
        if self._power is not None:
            self.undone += cut(self._journal, self._power)
        self._log.touch()
        self._logged = self._log.stat().st_size
        if self._forker is not None:
            self._server = self._forker.start(arguments, self._log)
            return
        command = [sys.executable, "-m", "roofline_server", *arguments]
        with open(self._log, "ab") as log:
            self._server = subprocess.Popen(
                command, env=self._all_environ(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def has_started(self) -> bool:
        found = STARTED.search(self.new_log())
        if found:
            self.address = found[1]
        return bool(found)

    async def start(self) -> None:
        """Start the server. Raises StillNot when it ends instead, or says nothing."""
        self.spawn()
        await until(lambda: self.has_started() or self.is_dead, "the server answers")
        if self.is_dead:
            raise StillNot(
                f"the server came back: it ended with {self.server.returncode}; {self.last_line()}"
            )

    async def ended(self, what: str) -> int:
        """Wait until the server has ended; its exit code. Raises StillNot."""
        await until(lambda: self.is_dead, what)
        return self.server.wait()

    async def kill(self) -> None:
        self.server.kill()
        await self.ended("the killed server is gone")

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.server.send_signal(signal.SIGTERM)
        return await self.ended("the server stops at SIGTERM")

    def new_log(self) -> str:
        """What the last process that was started has logged."""
        with open(self._log, "rb") as file:
            file.seek(self._logged)
            return file.read().decode(errors="replace")

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def last_line(self) -> str:
        return (self.log().splitlines() or [""])[-1]

    @property
    def tracebacks(self) -> int:
        return self.log().count(TRACEBACK)

    def traced(self) -> Iterator[str]:
        """Each traceback, from the line before it until the next line of the log."""
        lines = self.log().splitlines()
        for at, line in enumerate(lines):
            if line.startswith(TRACEBACK):
                more = itertools.takewhile(lambda one: not one[:4].isdigit(), lines[at + 1 :])
                yield "\n".join([*lines[max(0, at - 1) : at + 1], *more])

    def clean_up(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.kill()
            self._server.wait()
        if self._forker is not None:
            self._forker.close()
            self._forker = None


@contextlib.asynccontextmanager
async def sending(
    senders: Sequence[Sender], pause_s: float = PAUSE_S, shall_make: Callable[[], bool] = lambda: True
) -> AsyncIterator[Callable[[], None]]:
    """Senders that are connected and make batches; what is given ends the making, not the sending."""
    making = asyncio.create_task(_make(senders, pause_s, shall_make))
    running = [asyncio.create_task(sender.run()) for sender in senders]
    try:
        yield making.cancel
    finally:
        tasks = {making, *running}
        while tasks:  # one that was just giving up its call takes a cancellation for that
            for task in tasks:
                task.cancel()
            done, tasks = await asyncio.wait(tasks, timeout=1)
            for task in done:
                if not task.cancelled() and task.exception():
                    log.error("a sender failed", exc_info=task.exception())


async def _make(senders: Sequence[Sender], pause_s: float, shall_make: Callable[[], bool]) -> None:
    due = time.monotonic()
    while True:
        if shall_make():
            for sender in senders:
                sender.make()
        due = max(due + pause_s, time.monotonic() - 1)  # no burst after a long stop
        await asyncio.sleep(max(0.0, due - time.monotonic()))
