"""What the agent costs: a mark, a second of sampling, the training under the wrapper."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
from roofline_agent.uplink.batching import CALM_AFTER_NS

from tests.fakes import free_port

from .quiet import cpu_ns
from .site import Node, Result, node, wait_until

if TYPE_CHECKING:
    from roofline_client import Client

MARKS = 20_000
WATCH_S = 20.0
SETTLE_S = 10.0  # the agent looks at new processes several times
MEMORY_MB = 50

MARKING = """
import socket, statistics, sys, time
import roofline_step
def median_us(call, count):
    spent = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        call()
        spent.append(time.perf_counter_ns() - begin)
        if len(spent) % 50 == 0:
            time.sleep(0.02)  # a training has something between its steps; the agent reads ten times a second
    return statistics.median(spent) / 1e3
roofline_step.mark(0)
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
def bare():
    left.send(b"x" * 48)
    right.recv(64)
mark = median_us(lambda: roofline_step.mark(1, examples=32), int(sys.argv[1]))
print(mark, median_us(bare, int(sys.argv[1])), roofline_step._agent.dropped)
"""


def mark_cost() -> Result:
    with node() as here, here.server(), here.agent(1.0):
        command = [sys.executable, "-c", MARKING, str(MARKS)]
        printed = subprocess.run(command, env=here.environ, capture_output=True, text=True, check=True).stdout
    mark, bare, dropped = map(float, printed.split())
    beside = (
        f"{mark / bare:.1f} x a bare send and receive on a Unix socket ({bare:.2f} us); {dropped:.0f} dropped"
    )
    return Result("mark, median", "5 us", f"{mark:.2f} us", mark <= 5, beside)


PSUTIL_LOOP = """
import sys, time, psutil
ranks = [psutil.Process(int(pid)) for pid in sys.argv[2:]]
while True:
    for rank in ranks:
        with rank.oneshot():
            rank.cpu_times(), rank.memory_info(), rank.io_counters(), rank.num_threads()
    time.sleep(float(sys.argv[1]))
"""


SCRAPING = """
import sys, time, urllib.request
while True:
    begin = time.monotonic()
    urllib.request.urlopen(sys.argv[2], timeout=5).read()
    time.sleep(max(0, float(sys.argv[1]) - (time.monotonic() - begin)))
"""
NODE_EXPORTER = "prometheus-node-exporter"  # of Debian


def agent_cost(interval: float, share: float, count: int = 8) -> Result:
    """CPU and memory of an agent with every source this machine has, on ranks that do nothing else."""
    with node() as here, here.server(), contextlib.ExitStack() as others:
        ranks = [_idle_rank(here, index, count) for index in range(count)]
        loop = (sys.executable, "-c", PSUTIL_LOOP, interval, *(rank.pid for rank in ranks))
        try:
            with here.agent(interval) as agent, here.running(*loop) as bare:
                exporter = others.enter_context(_scraped_exporter(here, interval))
                time.sleep(SETTLE_S)
                watched = [agent, bare, *([exporter] if exporter else [])]
                used, bare_used, *exporter_used = _cpu_share(watched, WATCH_S)
                memory, *memories = (p.memory_info().rss / 2**20 for p in watched)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    budget = f"{share:.1%} of a core, {MEMORY_MB} MB"
    met = used <= share and memory <= MEMORY_MB
    beside = (
        f"a bare psutil loop over the same ranks, streaming nothing: {bare_used:.2%}, {memories[0]:.0f} MB"
    )
    for theirs in exporter_used:
        beside += f"; {NODE_EXPORTER} scraped as often: {theirs:.2%}, {memories[1]:.0f} MB"
    what = f"agent, {count} ranks, {1 / interval:g} Hz"
    return Result(what, budget, f"{used:.2%}, {memory:.0f} MB", met, beside)


@contextlib.contextmanager
def _scraped_exporter(here: Node, interval: float) -> Iterator[psutil.Process | None]:
    """Debian's node exporter, asked as often as the agent samples; None where it is not installed."""
    if shutil.which(NODE_EXPORTER) is None:
        yield None
        return
    address = f"127.0.0.1:{free_port()}"
    with here.running(NODE_EXPORTER, f"--web.listen-address={address}") as exporter:
        url = f"http://{address}/metrics"
        wait_until(lambda: _answers(url))
        with here.running(sys.executable, "-c", SCRAPING, interval, url):
            yield exporter


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.read())
    return False


def _cpu_share(processes: list[psutil.Process], seconds: float) -> list[float]:
    """CPU seconds a second of each process and what it started (the agent's perf, if there is any)."""
    before = [_cpu_seconds(p) for p in processes]
    time.sleep(seconds)
    return [(_cpu_seconds(p) - b) / seconds for p, b in zip(processes, before, strict=True)]


def _cpu_seconds(process: psutil.Process) -> float:
    total = 0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(OSError):
            total += cpu_ns(one.pid)
    return total / 1e9


def _idle_rank(here: Node, index: int, count: int) -> subprocess.Popen[bytes]:
    config = json.dumps({"cluster": {"worker": ["h:1"] * count}, "task": {"type": "worker", "index": index}})
    return here.start(sys.executable, "-c", "import time; time.sleep(600)", TF_CONFIG=config)


def visible_after() -> Iterator[Result]:
    """From a mark in a rank to its step in a query's answer, agent and server as they come: while batches of
    a new rank hold a second, and later."""
    from roofline_client import connect

    with node() as here, here.server(), here.agent(1.0), connect(here.address) as client:
        rank = marking_rank(here)
        marked(rank, 0)  # an answer needs two
        try:
            yield _visible(client, rank, range(1, 9), "a rank's first 30 s")
            time.sleep(CALM_AFTER_NS / 1e9)
            yield _visible(client, rank, range(9, 40), "later")
        finally:
            rank.kill()
            rank.wait()


def _visible(client: Client, rank: subprocess.Popen[str], steps: range, when: str) -> Result:
    delays = []
    for k in steps:
        time.sleep(random.uniform(0, 2))  # marks come at any moment of a batch
        marked(rank, k)
        begin = time.monotonic()
        while not _has_seen(client, k) and time.monotonic() - begin < 10:
            time.sleep(0.02)
        delays.append(time.monotonic() - begin)
    worst, median = max(delays), statistics.median(delays)
    beside = f"median {median:.2f} s of {len(delays)}; a loopback round trip takes {_round_trip_us():.0f} us"
    return Result(f"mark to visible in a query, {when}, worst", "2 s", f"{worst:.2f} s", worst <= 2, beside)


def _has_seen(client: Client, steps: int) -> bool:
    """Whether an answer has so many steps of the only rank, warm-up among them."""
    from roofline_client import ClientError

    with contextlib.suppress(ClientError, IndexError):
        return client.report("7", 0).ranks[0].summary.values["steps"].value == steps
    return False


def marking_rank(here: Node) -> subprocess.Popen[str]:
    """A rank that marks a step for each line it reads."""
    code = "import roofline_step, sys\nfor k in sys.stdin: roofline_step.mark(int(k)); print(flush=True)"
    environ = {**here.environ, "ROOFLINE_JOB": "7", "ROOFLINE_RANK": "0", "ROOFLINE_ROLE": "worker"}
    both = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], env=environ, text=True, **both)


def marked(rank: subprocess.Popen[str], step: int) -> None:
    assert rank.stdin is not None and rank.stdout is not None
    rank.stdin.write(f"{step}\n")
    rank.stdin.flush()
    rank.stdout.readline()


def _round_trip_us() -> float:
    left, right = socket.socketpair()
    begin = time.perf_counter()
    for _ in range(1000):
        left.send(b"x")
        right.recv(1)
        right.send(b"x")
        left.recv(1)
    left.close()
    right.close()
    return (time.perf_counter() - begin) * 1e3


def load() -> str:
    one, five, _ = os.getloadavg()
    return f"load {one:.1f}, {five:.1f}"
