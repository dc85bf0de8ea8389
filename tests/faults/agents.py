"""A real agent, and a training next to it that marks steps."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from .shim import Control
from .site import until

MARKING = Path(__file__).with_name("marking.py")
JOB = "faults-agent"
STOP_S = 30.0


class Node:
    """One agent at a time, and one training."""

    def __init__(self, folder: Path, server: str, library: Path | None = None) -> None:
        """server: HOST:PORT. library: of shim.py, None: none of the agent's calls is touched."""
        self._folder = folder
        self.may_lack = 0  # steps that may be missing: the agent was killed
        self._socket = folder / "agent.sock"
        self.control = Control(folder / "agent-control", library) if library else None
        self._environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOFLINE_")}
        self._environ |= {"ROOFLINE_SERVER": server, "ROOFLINE_SOCKET": str(self._socket)}
        self._agent: subprocess.Popen[bytes] | None = None
        self._training: subprocess.Popen[bytes] | None = None

    @property
    def agent(self) -> subprocess.Popen[bytes]:
        assert self._agent is not None
        return self._agent

    async def start_agent(self) -> None:
        state = self._folder / "agent-state"
        command = [sys.executable, "-m", "roofline_agent", "--interval", "0.1", "--state", str(state)]
        shim = self.control.environ if self.control else {}
        with open(self._folder / "agent.log", "ab") as log:
            self._agent = subprocess.Popen(
                command, env={**self._environ, **shim}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await until(self._listens, "the agent listens")

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def start_training(self) -> None:
        names = {"ROOFLINE_JOB": JOB, "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "0"}
        self._training = subprocess.Popen(
            [sys.executable, str(MARKING)],
            env={**self._environ, **names},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def end_training(self) -> int:
        """How many steps it marked. Raises StillNot where it does not end well."""
        training = self._training
        assert training is not None and training.stdin is not None and training.stdout is not None
        training.stdin.close()
        await until(lambda: training.poll() is not None, "the training ends")
        with training.stdout as output:
            steps = output.read()
        assert training.returncode == 0, f"the training ended with {training.returncode}"
        return int(steps)

    async def stop_agent(self) -> int:
        """SIGTERM; the exit code."""
        self.agent.send_signal(signal.SIGTERM)
        await until(lambda: self.agent.poll() is not None, "the agent stops at SIGTERM", STOP_S)
        return self.agent.wait()

    def log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / "agent.log").read_text(errors="replace")
        return ""

    def clean_up(self) -> None:
        for process in (self._training, self._agent):
            if process is None:
                continue
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
