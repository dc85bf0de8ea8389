"""The product as the only instrument: a server on this machine and an agent on every node."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nodes import HEAD, Node

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from services import COMMANDS, ServiceError, answers, free_port, measure_ceilings, started, wait_for  # noqa: E402

CONNECTED = "connected to"  # in an agent's log
SOCKET = "/run/roofline/agent.sock"  # where ranks look for an agent; each node has a /run of its own


class Instruments(NamedTuple):
    """folder: data, logs and results. server: its address; environ: what finds it."""

    folder: Path
    server: str
    environ: dict[str, str]
    nodes: dict[str, Node]

    def ask(self, *words: object) -> Any:
        """A question to roofline-client, answered as JSON. Raises ServiceError where there is no answer."""
        command = [str(COMMANDS / "roofline-client"), *map(str, words), "--format", "json"]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True)
        if done.returncode:
            raise ServiceError(f"{' '.join(command[1:])}: {done.stderr.strip()}")
        return json.loads(done.stdout)


@contextlib.contextmanager
def instruments(folder: Path, nodes: dict[str, Node], torch_python: Path) -> Iterator[Instruments]:
    """A server and agents until the block is left. What earlier runs recorded stays: it is gone on with.

    torch_python: whose launch overhead is a ceiling, too."""
    folder.mkdir(parents=True, exist_ok=True)
    measure_ceilings(folder, dict(os.environ), ["--python", torch_python])
    with contextlib.ExitStack() as all_of_them:
        # Nobody but these nodes has a way to this bridge.
        alone = all_of_them.enter_context(only_server(folder, HEAD))
        for node in nodes.values():
            all_of_them.enter_context(_agent(folder, alone.environ, node))
        for name in nodes:
            log = _log(folder, name)
            wait_for(lambda log=log: CONNECTED in log.read_text(), log)
        yield alone._replace(nodes=nodes)


@contextlib.contextmanager
def only_server(folder: Path, host: str = "127.0.0.1") -> Iterator[Instruments]:
    """A server that answers about what was recorded earlier, without nodes."""
    server = f"{host}:{free_port()}"
    environ = {**os.environ, "ROOFLINE_SERVER": server}
    listen = ["--listen", server, "--insecure", "--data", folder / "data", "--page", "off", "--http", "off"]
    with started("roofline-server", listen, folder, environ):
        wait_for(lambda: answers(server), folder / "roofline-server.log")
        yield Instruments(folder, server, environ, {})


@contextlib.contextmanager
def _agent(folder: Path, environ: dict[str, str], node: Node) -> Iterator[None]:
    state = folder / "nodes" / node.name
    state.mkdir(parents=True, exist_ok=True)
    _copy_ceilings(folder / "agent" / "ceilings.json", state / "ceilings.json", node)
    command = node.inside(
        COMMANDS / "roofline-agent", "--socket", SOCKET, "--interval", "0.2", "--state", state
    )
    with open(_log(folder, node.name), "w") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _log(folder: Path, name: str) -> Path:
    return folder / f"agent-{name}.log"


def _copy_ceilings(measured: Path, kept: Path, node: Node) -> None:
    """A node's CPUs are this machine's: what was measured here holds there."""
    if kept.exists() and kept.stat().st_mtime >= measured.stat().st_mtime:
        return
    shutil.copy(measured, kept)
    document = json.loads(measured.read_text())
    kept.write_text(json.dumps(document | {"host": node.name}))


def settle() -> None:
    """Until the agents' last batches are there."""
    time.sleep(2)
