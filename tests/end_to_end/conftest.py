"""Real servers, agents and ranks as processes, each test in a folder and on ports of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline.answers.report import Report
from roofline_client import ClientError, connect

from tests.fakes import free_port

COMMANDS = Path(sys.executable).parent
TRAINING = Path(__file__).with_name("training.py")
REPOSITORY = Path(__file__).parents[2]


def wait_until(condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
    """The first true result of `condition`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"still not so after {seconds} s: {what or condition}")


class Site:
    """One head node and one training node, on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self.socket = folder / "agent.sock"
        self.environ = {
            **{
                k: v for k, v in os.environ.items() if not k.startswith(("ROOFLINE_", "ONEDNN_", "TF_CONFIG"))
            },
            "ROOFLINE_PAGE": "off",
            "ROOFLINE_SERVER": self.address,
            "ROOFLINE_SOCKET": str(self.socket),
            "PYTHONPATH": str(REPOSITORY / "agent"),
        }
        self._running: list[subprocess.Popen[Any]] = []

    def start(self, command: list[Any], log: str, **environ: str) -> subprocess.Popen[bytes]:
        with open(self.folder / log, "ab") as file:
            process = subprocess.Popen(
                [str(part) for part in command],
                env={**self.environ, **environ},
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )
        self._running.append(process)
        return process

    def server(self, *options: str) -> subprocess.Popen[bytes]:
        process = self.start(
            [
                COMMANDS / "roofline-server",
                "--listen",
                self.address,
                "--data",
                self.folder / "data",
                *options,
            ],
            "server.log",
        )
        wait_until(self.answers, what="the server answers")
        return process

    def agent(self, interval: float = 0.1) -> subprocess.Popen[bytes]:
        state = self.folder / "agent"
        process = self.start(
            [COMMANDS / "roofline-agent", "--interval", str(interval), "--state", state], "agent.log"
        )
        wait_until(self.listens, what="the agent listens")
        return process

    def rank(
        self, role: str, index: int, *arguments: Any, job: str = "42", script: Path = TRAINING
    ) -> subprocess.Popen[bytes]:
        cluster = {"ps": ["h:1"], "worker": ["h:2", "h:3"]}
        config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        wrap = [COMMANDS / "roofline-agent", "run", "--job", job, "--"]
        command = [*wrap, sys.executable, script, *arguments]
        return self.start(command, f"{role}{index}.log", TF_CONFIG=config)

    def serving_rank(self, job: str = "42") -> subprocess.Popen[bytes]:
        config = json.dumps({"cluster": {"ps": ["h:1"]}, "task": {"type": "ps", "index": 0}})
        wrap = [COMMANDS / "roofline-agent", "run", "--job", job, "--"]
        return self.start([*wrap, "sleep", "600"], "ps0.log", TF_CONFIG=config)

    def answers(self) -> bool:
        host, port = self.address.split(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return True
        return False

    def listens(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def ask(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        command = [str(part) for part in (COMMANDS / "roofline-client", *arguments)]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=60)

    def report(self, job: str = "42") -> dict[str, Any]:
        done = self.ask("report", "--job", job, "--steps", "all", "--format", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def steps(self, rank: str, job: str = "42") -> float:
        """Steps of a rank the server knows of; 0 before it knows the rank."""
        return self.seen(job).get(rank, {}).get("steps") or 0

    def worked(self, rank: str, steps: float, job: str = "42") -> bool:
        """Whether so many steps of a rank are known, and work in them: kernels come after the marks."""
        seen = self.seen(job).get(rank, {})
        return seen.get("steps") == steps and seen.get("flops_per_step") is not None

    def seen(self, job: str = "42") -> dict[str, dict[str, float | None]]:
        """rank -> metric -> number, as the server has it now; nothing before it knows the job."""
        ranks = known.ranks if (known := self.known(job)) else []
        return {r.rank: {name: v.value for name, v in r.summary.values.items()} for r in ranks}

    def known(self, job: str = "42") -> Report | None:
        """What the server has now; None before it knows the job.

        Asked by this process: waiting with a process for each question takes the machine from the ranks.
        """
        try:
            with connect(self.address, timeout=20) as client:
                return client.report(job, 0)  # all steps, warm-up too
        except ClientError:
            return None

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()

    def stop(self) -> None:
        for process in reversed(self._running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def values(report: dict[str, Any], rank: str) -> dict[str, Any]:
    """Metric -> number of one rank of a report in JSON."""
    found = next(r for r in report["ranks"] if r["rank"] == rank)
    return {name: v["value"] for name, v in found["summary"]["values"].items()}
