"""`roofline-server` as a user runs it, and an agent that delivers to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from roofline.v1 import query_pb2, query_pb2_grpc

from tests.fakes import wait_for

from .builders import UNIX, S, rank, training
from .services import Agent

SERVER = [sys.executable, "-m", "roofline_server"]
# The minute before now, by the clock that the agent answers pings with.
SENT = training(
    [rank(index=0), rank(index=1, pid=101)],
    batches=60,
    batch_ns=S,
    sample_ns=S // 2,
    first_ns=time.time_ns() - UNIX - 60 * S,
    stepping=(0, 1),
)


class Process:
    """A running `roofline-server`."""

    def __init__(self, data: Path, *options: str) -> None:
        self.log = data.with_suffix(".log")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*SERVER, "--listen", "127.0.0.1:0", "--data", str(data), *options], stderr=log, stdout=log
            )
        self._before = self.log.read_text().count(" at 127.0.0.1:")
        self.address = wait_for(self._address, "the server's address")

    def _address(self) -> str:
        assert self._process.poll() is None, self.log.read_text()
        found = re.findall(r" at (127\.0\.0\.1:\d+),", self.log.read_text())
        return found[-1] if len(found) > self._before else ""

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.send_signal(number)
        return self._process.wait(30)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    with contextlib.ExitStack() as running:

        def begin(*options: str, data: Path = tmp_path / "data") -> Process:
            process = Process(data, *options)
            running.callback(lambda: (process._process.kill(), process._process.wait()))
            return process

        yield begin


def run(*options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SERVER, *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str], code: int, *says: str) -> None:
    assert done.returncode == code, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert line.startswith("roofline-server: ")
    for word in says:
        assert word in line
    assert done.stdout == ""


def report(address: str, job: str = "job") -> query_pb2.Report:
    asked = query_pb2.GetReportRequest(job=job, first_step=0)  # all steps, not the steady ones alone
    with grpc.insecure_channel(address) as channel:
        return query_pb2_grpc.QueryStub(channel).GetReport(asked, timeout=30)


def deliver(address: str, count: int = len(SENT)) -> int:
    """What an agent does: send what is not durable yet, keep it until it is; returns where it began."""

    async def stream() -> int:
        async with grpc.aio.insecure_channel(address) as channel, Agent(channel) as agent:
            welcome = agent.all("welcome")[0].acked
            await agent.send(*(one for one in SENT[:count] if one.sequence > welcome))
            await agent.until(lambda: max(agent.acked, welcome) >= count)
            return int(welcome)

    return asyncio.run(stream())
