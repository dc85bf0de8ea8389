"""Real servers, agents and streams for benchmarks, in a folder that goes away."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import machine_pb2

from tests.fakes import free_port

COMMANDS = Path(sys.executable).parent
REPOSITORY = Path(__file__).parents[2]
SECOND = 1_000_000_000  # ns


class Result(NamedTuple):
    """One line: what was measured, its budget, the figure, and what it stands beside."""

    what: str
    budget: str
    measured: str
    met: bool
    beside: str


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise TimeoutError("the benchmark's process did not get ready")


class Node(NamedTuple):
    """What runs on this machine for one benchmark."""

    folder: Path
    address: str
    environ: dict[str, str]

    def start(self, *command: Any, **environ: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [str(c) for c in command], env={**self.environ, **environ}, stdout=log, stderr=log
            )

    @contextlib.contextmanager
    def running(self, *command: Any, **environ: str) -> Iterator[psutil.Process]:
        """A process that is ended with the block."""
        process = self.start(*command, **environ)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    @contextlib.contextmanager
    def server(self) -> Iterator[psutil.Process]:
        command = (
            COMMANDS / "roofline-server",
            "-q",
            "--listen",
            self.address,
            "--data",
            self.folder / "data",
        )
        with self.running(*command) as process:
            host, port = self.address.split(":")
            wait_until(lambda: connects(host, int(port)))
            yield process

    @contextlib.contextmanager
    def agent(self, interval: float) -> Iterator[psutil.Process]:
        state = self.folder / "agent"
        command = (COMMANDS / "roofline-agent", "-q", "--interval", interval, "--state", state)
        with self.running(*command) as process:
            wait_until((self.folder / "agent.sock").exists)
            yield process


def connects(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="roofline-bench-") as name:
        folder, address = Path(name), f"127.0.0.1:{free_port()}"
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("ROOFLINE_", "ONEDNN_"))}
        environ |= {"ROOFLINE_SERVER": address, "ROOFLINE_SOCKET": str(folder / "agent.sock")}
        environ["ROOFLINE_PAGE"] = "off"
        environ["PYTHONPATH"] = str(REPOSITORY / "agent")
        yield Node(folder, address, environ)


# -- messages an agent would send ----------------------------------------------------------------------------


def ints(values: Any) -> bytes:
    return array("q", values).tobytes()


def hello(agent: str, machine: machine_pb2.Machine | None = None) -> pb.AgentMessage:
    machine = machine or machine_pb2.Machine(host="bench", cpus=2)
    return pb.AgentMessage(
        hello=pb.Hello(protocol=1, agent=agent, instance="1", boot=f"boot-{agent}", machine=machine)
    )


def ranks(job: str, first: int, count: int) -> list[pb.Rank]:
    return [
        pb.Rank(job=job, role="worker", index=i, pid=100 + i, start_ns=1, framework="bench")
        for i in range(first, first + count)
    ]


def counter_set(metrics: int) -> pb.CounterSet:
    described = [
        pb.Metric(
            name=f"metric_{m}", kind=pb.METRIC_KIND_CUMULATIVE, unit="1", scope=machine_pb2.SCOPE_PROCESS
        )
        for m in range(metrics)
    ]
    return pb.CounterSet(name="bench", metrics=described)


def sample_batch(
    sequence: int, rows: int, metrics: int, begin_ns: int, rank_count: int = 8
) -> pb.AgentMessage:
    """A batch of `rows` samples of `metrics` counters that grow, as a busy agent sends it."""
    step = 1_000_000_000 // max(1, rows // rank_count)
    times = [begin_ns + (i // rank_count) * step for i in range(rows)]
    samples = pb.Samples(
        counter_set=0,
        rank=ints(i % rank_count for i in range(rows)),
        time_ns=ints(times),
        columns=[ints(t // 1000 * (m + 1) for t in times) for m in range(metrics)],
    )
    batch = pb.Batch(
        sequence=sequence,
        begin_ns=begin_ns,
        end_ns=begin_ns + 1_000_000_000,
        ranks=ranks("bench", 0, rank_count),
        counter_sets=[counter_set(metrics)],
        samples=[samples],
    )
    return pb.AgentMessage(batch=batch)
