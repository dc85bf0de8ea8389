"""Start every worker of the example on this machine, wait for all of them, and leave no process behind.

Standard library only. Does here what a cluster's job controller does: hands each worker its `TF_CONFIG`, and
ends the job when one of them fails: the others would wait for it forever.
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
import time
from pathlib import Path

POLL_SECONDS = 0.05
STOP_SECONDS = 10.0


def main() -> int:
    arguments, train_arguments = parse_arguments()
    command = [*shlex.split(arguments.prefix), arguments.python, str(Path(__file__).with_name("train.py"))]
    # Noted, not raised: an exception between starting a worker and remembering it would leave it behind.
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: signals.append(received))
    return run_job([*command, *train_arguments], free_addresses(arguments.workers), signals)


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description="Train on one machine with N workers that mirror each other's variables.",
        epilog="All other options go to train.py: --loop, --epochs, --steps, --batch, --threads, --validate, "
        "--slow-worker, --slow-seconds, --slow-input.",
    )
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default 2)")
    parser.add_argument("--prefix", default="", help="wrapper put before each worker's command")
    parser.add_argument("--python", default=sys.executable, help="interpreter with TensorFlow installed")
    arguments, train_arguments = parser.parse_known_args()
    if arguments.workers < 1:
        parser.error("--workers must be at least 1")
    return arguments, train_arguments


def run_job(command: list[str], addresses: list[str], signals: list[int]) -> int:
    """Returns 0 when all workers did, else the code of the first that failed."""
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(len(addresses)):
            environment = worker_environment(addresses, index)
            # A session of its own: Ctrl-C reaches the launcher alone, which ends all.
            workers.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
            )
        return wait_for_all(workers, signals)
    finally:
        stop(workers)


def worker_environment(addresses: list[str], index: int) -> dict[str, str]:
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    return {**quiet, **os.environ, "TF_CONFIG": json.dumps(config)}


def wait_for_all(workers: list[subprocess.Popen[bytes]], signals: list[int]) -> int:
    while not signals:
        codes = [worker.poll() for worker in workers]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            # As a shell reports it: 128 and the signal's number for a process that a signal ended.
            return 0 if not failed else failed[0] if failed[0] > 0 else 128 - failed[0]
        time.sleep(POLL_SECONDS)
    return 128 + signals[0]


def stop(workers: list[subprocess.Popen[bytes]]) -> None:
    """End every worker: ask, wait, then kill whatever is left of its session."""
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def free_addresses(count: int) -> list[str]:
    """Loopback ports, held open together so that no two workers get the same."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]


if __name__ == "__main__":
    sys.exit(main())
