"""Start every rank of the example on this machine, wait for the chief, and leave no process behind.

Standard library only. Does here what a cluster's job controller does: hands each rank its `TF_CONFIG`,
ends the job when the chief ends, and ends it too when any other rank dies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.05
# Long compared with a step: in shorter stops the workers would find something to compute.
SLOW_SECONDS = 0.25
STOP_SECONDS = 10.0
TAIL_LINES = 20

Cluster = dict[str, list[str]]


class RankDied(Exception):
    """A parameter server or worker ended before the chief."""


class Stopped(Exception):
    """A signal asked the launcher to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Rank(NamedTuple):
    """A started process of the job."""

    role: str
    task: int
    process: subprocess.Popen[bytes]
    log: Path | None
    """Where its output goes; None for the chief, whose output is the launcher's."""


def main() -> int:
    arguments, train_arguments = parse_arguments()
    command = [*shlex.split(arguments.prefix), arguments.python, str(Path(__file__).with_name("train.py"))]
    command += train_arguments
    # Noted, not raised: an exception between starting a rank and remembering it would leave it behind.
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: signals.append(received))
    try:
        cluster = local_cluster(arguments.ps, arguments.workers)
        with log_directory(arguments.logs) as logs:
            return run_job(command, cluster, logs, signals, arguments.slow_ps)
    except Stopped as stopped:
        print(f"launch: stopped by {stopped}", file=sys.stderr)
        return 128 + stopped.number
    except (RankDied, OSError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 1


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description="Train on one machine with a chief, parameter servers and workers.",
        epilog="All other options go to train.py: --steps, --batch, --threads, --log-every, --sync, "
        "--slow-worker, --slow-seconds, --slow-input.",
    )
    parser.add_argument("--ps", type=int, default=1, help="number of parameter servers (default 1)")
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default 2)")
    parser.add_argument("--prefix", default="", help="wrapper put before each rank's command")
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow installed")
    parser.add_argument("--logs", type=Path, help="keep the output of ps and workers in this directory")
    parser.add_argument(
        "--slow-ps", type=int, metavar="I", help="stop parameter server I half of the time, for 250 ms"
    )
    arguments, train_arguments = parser.parse_known_args()
    for name in ("workers", "ps"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if arguments.slow_ps is not None and not 0 <= arguments.slow_ps < arguments.ps:
        parser.error(f"--slow-ps must name one of the parameter servers 0 to {arguments.ps - 1}")
    return arguments, train_arguments


def run_job(
    command: list[str], cluster: Cluster, logs: Path, signals: list[int], slow_ps: int | None = None
) -> int:
    """Start all ranks, wait for the chief, stop the others. Returns the chief's exit code."""
    tasks = [(role, task) for role, addresses in cluster.items() for task in range(len(addresses))]
    ranks: list[Rank] = []
    try:
        for role, task in tasks:
            ranks.append(start_rank(command, cluster, role, task, logs))
        slow = [rank for rank in ranks if (rank.role, rank.task) == ("ps", slow_ps)]
        return wait_for_chief(ranks, signals, slow)
    finally:
        stop(ranks)


def start_rank(command: list[str], cluster: Cluster, role: str, task: int, logs: Path) -> Rank:
    environment = rank_environment(cluster, role, task)
    log = None if role == "chief" else logs / f"{role}{task}.log"
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else None
        # A session of its own: Ctrl-C reaches the launcher alone, and a rank's children can be ended with it.
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )
    return Rank(role, task, process, log)


def rank_environment(cluster: Cluster, role: str, task: int) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": role, "index": task}}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    return {**quiet, **os.environ, "TF_CONFIG": json.dumps(config)}


def wait_for_chief(ranks: list[Rank], signals: list[int], slow: list[Rank]) -> int:
    """Raises RankDied when another rank ends first, Stopped when a signal arrived."""
    [chief] = [rank for rank in ranks if rank.role == "chief"]
    while (code := chief.process.poll()) is None:
        odd = int(time.monotonic() / SLOW_SECONDS) % 2
        signal_all(slow, signal.SIGSTOP if odd else signal.SIGCONT)
        if signals:
            raise Stopped(signals[0])
        for rank in ranks:
            if rank is not chief and rank.process.poll() is not None:
                raise RankDied(describe_death(rank))
        time.sleep(POLL_SECONDS)
    return exit_code(code)


def signal_all(ranks: list[Rank], number: signal.Signals) -> None:
    """Send a signal to ranks and to what they started (a wrapper's command, say)."""
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(rank.process.pid, number)


def describe_death(rank: Rank) -> str:
    code = exit_code(rank.process.returncode)
    text = rank.log.read_text(errors="replace") if rank.log else ""
    tail = "\n".join(text.splitlines()[-TAIL_LINES:])
    return f"{rank.role} {rank.task} ended early with exit code {code}; the end of its output:\n{tail}"


def stop(ranks: list[Rank]) -> None:
    """End every rank: ask, wait, then kill whatever is left of its session."""
    signal_all(ranks, signal.SIGCONT)  # one may be stopped just now, and would not hear
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for rank in ranks:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rank.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(rank.process.pid, signal.SIGKILL)
        rank.process.wait()


def local_cluster(servers: int, workers: int) -> Cluster:
    """A cluster on free loopback ports, held open together so that no two ranks get the same."""
    sizes = {"ps": servers, "worker": workers, "chief": 1}
    with contextlib.ExitStack() as stack:
        return {role: [free_address(stack) for _ in range(size)] for role, size in sizes.items()}


def free_address(stack: contextlib.ExitStack) -> str:
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def log_directory(wanted: Path | None) -> Iterator[Path]:
    """The directory asked for, or one that lasts as long as the job."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="tensorflow_ps-") as directory:
        yield Path(directory)


def exit_code(returncode: int) -> int:
    """As a shell reports it: 128 and the signal's number for a process that a signal ended."""
    return returncode if returncode >= 0 else 128 - returncode


if __name__ == "__main__":
    sys.exit(main())
