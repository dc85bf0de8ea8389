"""Copies of one agent's state directory, and old ones put back: nothing is lost. Real processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_client import ClientError, connect

from tests.fakes import AGENT, clean_environ, wait_for

pytestmark = pytest.mark.slow

STEPS = 150
TRAINING = f"""
import time, roofline_step
for step in range({STEPS} + 1):
    roofline_step.mark(step)
    time.sleep(0.02)
"""
SERVER = [sys.executable, "-m", "roofline_server"]


class Machines:
    """A server, agents by the names of their state directories, and trainings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = contextlib.ExitStack()
        self.address = "127.0.0.1:0"

    def close(self) -> None:
        self._stack.close()

    def start(self, name: str, command: list[str], **environ: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=clean_environ(**environ), stdout=log, stderr=log)
        self._stack.callback(lambda: (process.kill(), process.wait()))
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def server(self) -> subprocess.Popen[bytes]:
        data = str(self.folder / "data")
        server = self.start("server", [*SERVER, "--listen", self.address, "--data", data, "--seal", "0.5"])
        found = wait_for(lambda: re.findall(r" at (127\.0\.0\.1:\d+),", self.log("server")), "the server")
        self.address = found[-1]
        return server

    def agent(self, name: str) -> subprocess.Popen[bytes]:
        state, socket = str(self.folder / name), self.folder / f"{name}.sock"
        options = [
            "--server",
            self.address,
            "--state",
            state,
            "--socket",
            str(socket),
            "--sources",
            "process",
        ]
        agent = self.start(name, [*AGENT, *options])
        wait_for(lambda: socket.exists() and "agent " in self.log(name), f"agent {name}")
        return agent

    def train(self, agent: str, job: str) -> subprocess.Popen[bytes]:
        environ = {"ROOFLINE_SOCKET": str(self.folder / f"{agent}.sock"), "ROOFLINE_RANK": "0"}
        return self.start(job, [sys.executable, "-c", TRAINING], ROOFLINE_JOB=job, **environ)

    def steps(self, job: str) -> float:
        with contextlib.suppress(ClientError), connect(self.address, timeout=20) as client:
            return client.report(job, 0).ranks[0].summary.values["steps"].value or 0
        return 0

    def notes(self, job: str) -> str:
        with connect(self.address, timeout=20) as client:
            return "\n".join(client.report(job, 0).notes)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    made.close()


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_two_agents_of_one_copied_state_lose_nothing_and_are_told(machines: Machines) -> None:
    jobs = [f"{name}-{os.getpid()}" for name in ("before", "one", "two")]
    server = machines.server()
    first = machines.agent("a")
    assert machines.train("a", jobs[0]).wait(60) == 0
    wait_for(lambda: machines.steps(jobs[0]) == STEPS, "the steps before the copy")
    end(server)  # so that batches wait in the state that is copied
    wait_for(lambda: "batches wait" in machines.log("a"))
    end(first)
    shutil.copytree(machines.folder / "a", machines.folder / "b")
    agents = [machines.agent("a"), machines.agent("b")]
    machines.server()
    for name in ("a", "b", "server"):
        wait_for(lambda name=name: "two agents have the identity" in machines.log(name), name)  # type: ignore[misc]
    trainings = [machines.train("a", jobs[1]), machines.train("b", jobs[2])]
    assert [training.wait(60) for training in trainings] == [0, 0]
    for job in jobs:
        wait_for(lambda job=job: machines.steps(job) == STEPS, f"all steps of {job}")  # type: ignore[misc]
    for name in ("a", "b", "server"):
        assert "refused" not in machines.log(name)
    for agent in agents:
        end(agent)
    for job in jobs[1:]:
        assert "two agents have the identity" in machines.notes(job)
        assert "lost:" not in machines.notes(job)


def test_state_put_back_from_a_backup_loses_nothing(machines: Machines) -> None:
    jobs = [f"{name}-{os.getpid()}" for name in ("early", "late")]
    server = machines.server()
    agent = machines.agent("a")
    wait_for(lambda: "connected" in machines.log("a"))
    end(agent)
    shutil.copytree(machines.folder / "a", machines.folder / "backup")
    agent = machines.agent("a")
    assert machines.train("a", jobs[0]).wait(60) == 0
    end(agent)
    end(server)
    # The second series of batches has the numbers of the first, and waits when the server comes.
    shutil.copytree(machines.folder / "backup", machines.folder / "a", dirs_exist_ok=True)
    agent = machines.agent("a")
    assert machines.train("a", jobs[1]).wait(60) == 0
    machines.server()
    for job in jobs:
        wait_for(lambda job=job: machines.steps(job) == STEPS, f"all steps of {job}")  # type: ignore[misc]
    assert "refused" not in machines.log("a")
    assert "two agents" not in machines.log("server")
