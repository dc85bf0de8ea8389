"""Where the agents of one test live."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.fakes import AGENT, clean_environ, wait_for


class Place:
    """Where one agent lives, and the agents started there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.socket = root / "agent.sock"
        self.log = root / "log"

    def arguments(self, *more: str) -> list[str]:
        return [*AGENT, "--state", str(self.root / "state"), "--socket", str(self.socket), *more]

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        log = self.log.open("wb")
        with log:
            agent = subprocess.Popen(self.arguments(*more), env=clean_environ(), stderr=log)
        wait_for(lambda: self.socket.exists() or agent.poll() is not None, "the agent's socket")
        return agent

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return run(*self.arguments(*arguments)[len(AGENT) :], **environ)


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, *arguments], env=clean_environ(**environ), capture_output=True, text=True, timeout=60
    )
