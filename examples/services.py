"""A server and an agent of this machine's own, for the demo and the pictures.

They are started in order and stopped in any case; their data and logs are in one folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = Path(sys.executable).parent
READY_S = 30
BUSY = 6  # exit code of `roofline-agent calibrate` where a training runs


class ServiceError(Exception):
    """Something could not be started or failed; the text says what and where to look."""


class Services(NamedTuple):
    """A running server and agent. environ: what finds them; folder: their data and logs; page: the address of
    the server's live page, "": it has none."""

    folder: Path
    environ: dict[str, str]
    page: str

    def ask(self, *arguments: str | Path) -> int:
        """Run roofline-client; returns its exit code."""
        return subprocess.run([COMMANDS / "roofline-client", *arguments], env=self.environ).returncode

    def train(self, command: Sequence[str | Path], **environ: str) -> None:
        """Run a training to its end. Raises ServiceError when it fails."""
        process = subprocess.Popen(command, env={**self.environ, **environ})
        try:
            status = process.wait()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        if status:
            raise ServiceError(f"the training failed with exit code {status}: {' '.join(map(str, command))}")


@contextlib.contextmanager
def running(folder: Path, calibrate: Sequence[str | Path] = ()) -> Iterator[Services]:
    """Services that run until the block is left; what earlier ones kept in the folder is removed, but the
    ceilings. calibrate: options for `roofline-agent calibrate`, which runs once."""
    # A job's number is used once; the data of the last time would become part of it.
    shutil.rmtree(folder / "data", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    server = f"127.0.0.1:{free_port()}"
    environ = {**os.environ, "ROOFLINE_SERVER": server, "ROOFLINE_SOCKET": str(folder / "agent.sock")}
    measure_ceilings(folder, environ, calibrate)
    with contextlib.ExitStack() as both:
        say("starting roofline-server and roofline-agent (10 samples a second)")
        page = f"127.0.0.1:{free_port()}" if importlib.util.find_spec("starlette") else "off"
        listen = ["--listen", server, "--data", folder / "data", "--page", page]
        both.enter_context(started("roofline-server", listen, folder, environ))
        wait_for(lambda: answers(server), folder / "roofline-server.log")
        state = ["--interval", "0.1", "--state", folder / "agent"]
        both.enter_context(started("roofline-agent", state, folder, environ))
        wait_for(lambda: (folder / "agent.sock").exists(), folder / "roofline-agent.log")
        yield Services(folder, environ, "" if page == "off" else f"http://{page}")


def main(name: str, work: Callable[[], int]) -> int:
    """Run the work of a program; its exit code. SIGTERM and Ctrl-C stop everything first."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return work()
    except KeyboardInterrupt:
        print(f"{name}: interrupted, everything is stopped", file=sys.stderr)
        return 130
    except ServiceError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def measure_ceilings(folder: Path, environ: dict[str, str], options: Sequence[str | Path]) -> None:
    """Measure the ceilings, unless that was done before while no training ran on this machine."""
    state = folder / "agent"
    beside = state / "calibrated-beside-a-training"
    if (state / "ceilings.json").exists() and not beside.exists():
        say(f"ceilings of this machine: measured before, kept in {folder.name}/agent")
        return
    say("measuring the ceilings of this machine, once: roofline-agent calibrate")
    command = [COMMANDS / "roofline-agent", "--state", state, "calibrate", *options]
    status = subprocess.run(command, env=environ).returncode
    if status == BUSY:
        say("a training runs on this machine: its ceilings are measured in about 2 s, and may be too low")
        status = subprocess.run([*command, "--force", "--quick"], env=environ).returncode
        state.mkdir(parents=True, exist_ok=True)
        beside.touch()
    else:
        beside.unlink(missing_ok=True)
    if status:
        raise ServiceError("the ceilings could not be measured")


@contextlib.contextmanager
def started(
    name: str, arguments: Sequence[str | Path], folder: Path, environ: dict[str, str]
) -> Iterator[None]:
    """A service that runs until the block is left, and then ends by SIGTERM. Its log is NAME.log."""
    with open(folder / f"{name}.log", "w") as log:
        # A session of its own: Ctrl-C is for this program, which then stops the services in order.
        process = subprocess.Popen(
            [COMMANDS / name, *arguments], stderr=log, stdout=log, env=environ, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(server: str) -> bool:
    host, _, port = server.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def wait_for(ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not ready():
        if time.monotonic() > deadline:
            raise ServiceError(f"a service did not start; see {log}:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
