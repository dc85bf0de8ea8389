"""A server that comes back over a slow link: new batches are there before the backlog, and all of it once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.proxy import Mode, Proxy

from .conftest import COMMANDS, Site, wait_until

ALONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def can_be_alone() -> bool:
    try:
        return subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_be_alone(), reason="needs PID namespaces (unshare), as root"),
]

TRAINING = """
import os, sys, time, roofline_step
folder, step = sys.argv[1], 0
while not os.path.exists(folder + "/stop"):
    for _ in range(30 if os.path.exists(folder + "/fast") else 1):
        roofline_step.mark(step)
        step += 1
    time.sleep(0.05)
with open(folder + "/steps", "w") as file:
    file.write(str(step - 1))
"""


class Link:
    """A proxy in a thread of its own."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        self._proxy = Proxy(lambda: self._target)
        async with self._proxy.running():
            self._ready.set()
            await self._over.wait()

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        self._thread.start()
        self._ready.wait()
        try:
            yield self._proxy.address
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()
            self._loop.close()

    def turn(self, mode: Mode) -> None:
        self._proxy.mode = mode
        if mode is Mode.REFUSE:
            self._loop.call_soon_threadsafe(self._proxy.reset)


def start_alone(site: Site, folder: Path, job: str) -> subprocess.Popen[bytes]:
    """An agent and a training that see no other processes: where ranks of other tests end, new batches wait
    for the backlog. Lasts until there is a file `over`."""
    script = folder / "training.py"
    script.write_text(TRAINING)
    agent = f"{COMMANDS / 'roofline-agent'} --interval 1 --state {site.folder / 'agent'}"
    rank = f"ROOFLINE_JOB={job} ROOFLINE_RANK=0 {sys.executable} {script} {folder}"
    listens = f"until [ -S {site.socket} ]; do sleep 0.1; done"
    over = f"until [ -e {folder / 'over'} ]; do sleep 0.1; done"
    both = f"{agent} & {listens}; {rank}; {over}; kill -TERM $!; wait $!"
    return site.start([*ALONE, "sh", "-c", both], "training.log")


def kept(site: Site) -> tuple[int, str]:
    """The highest batch that the server has of the agent, and which it lacks below."""
    with contextlib.closing(sqlite3.connect(site.folder / "data" / "inbox.db")) as inbox:
        found = inbox.execute("select sequence, gaps from acked").fetchall()
    return found[0] if found else (0, "")


def counted(site: Site, job: str) -> float:
    return sum(rank.get("steps") or 0 for rank in site.seen(job).values())


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def waiting(site: Site) -> int:
    with contextlib.closing(sqlite3.connect(site.folder / "agent" / "spool.db")) as spool:
        return int(spool.execute("select coalesce(sum(length(data)), 0) from batch").fetchone()[0])


def test_new_batches_are_there_before_the_backlog_and_all_of_it_once(site: Site, tmp_path: Path) -> None:
    job = f"backlog-{os.getpid()}"
    link = Link(site.address)
    with link.running() as address:
        site.environ["ROOFLINE_SERVER"] = address
        site.server("--seal", "0.5")
        training = start_alone(site, tmp_path, job)
        wait_until(lambda: counted(site, job), what="the first steps")
        link.turn(Mode.REFUSE)
        (tmp_path / "fast").touch()
        wait_until(lambda: waiting(site) > 200_000, what="a backlog")
        (tmp_path / "fast").unlink()
        link.turn(Mode.TRICKLE)
        highest, gaps = wait_until(lambda: kept(site) if kept(site)[1] else None, what="a new batch is there")
        assert int(gaps.partition("-")[0]) < highest
        assert waiting(site) > 100_000
        link.turn(Mode.PASS)
        (tmp_path / "stop").touch()
        steps = int(wait_until(lambda: text_of(tmp_path / "steps"), what="the end of the training"))
        wait_until(lambda: counted(site, job) == steps, what="all steps")
        assert kept(site)[1] == ""
        (tmp_path / "over").touch()
        training.wait(30)
        report = site.known(job)
        assert report and not [note for note in report.notes if "lost" in note or "dropped" in note]
