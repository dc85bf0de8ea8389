"""Marks of a real rank on the server's clock, compared with the real time at which they were made.

Clocks are bent by libfaketime; ways are made slow and lopsided by a proxy, and by shaped links between
network namespaces. Everywhere each step must lie within the alignment error that the report states.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_server.ingest.service import decode_entry
from roofline_server.store.store import Store

from tests.drift import Drift, drift_of
from tests.fakes import free_port

from .conftest import COMMANDS, Site, wait_until

pytestmark = pytest.mark.slow

WITNESSED = Path(__file__).with_name("witnessed.py")
SLOW_LINK = Path(__file__).with_name("slow_link.py")
US, MS = 1e3, 1e6
READING_NS = 20 * US  # as well as the server read UNIX time when it started
BUSY_NS = 50 * MS  # what a busy machine may add to a round trip, however often it is tried
STEPS, STEP_S = 15, 0.2


class ClockSite(Site):
    """A site that tells where steps lie on the server's clock, and where they really were."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.node_environ: dict[str, str] = {}  # of agent and rank
        self.on_node: list[str] = []  # command that the agent is started by
        self.on_head: list[str] = []  # and server and client
        self.placed: dict[int, tuple[int, int]] = {}  # begin and end of steps on the server's clock

    def run_job(self, *options: str) -> None:
        """Server, agent and a rank with its steps, until all of them are known."""
        self.start(
            [*self.on_head, COMMANDS / "roofline-server", "--listen", self.address, "--insecure", *options],
            "server.log",
            ROOFLINE_DATA=str(self.folder / "data"),
        )
        wait_until(lambda: " at " in self.log("server.log"), what="the server listens")
        self.start(
            [
                *self.on_node,
                COMMANDS / "roofline-agent",
                "--interval",
                "0.1",
                "--state",
                self.folder / "agent",
            ],
            "agent.log",
            **self.node_environ,
        )
        wait_until(lambda: "connected to server" in self.log("agent.log"), what="the agent is connected")
        config = json.dumps({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 0}})
        environ = {"TF_CONFIG": config, "ROOFLINE_JOB": "42", **self.node_environ}
        rank = self.start([sys.executable, WITNESSED, STEPS, STEP_S], "rank.log", **environ)
        assert rank.wait(timeout=60) == 0, self.log("rank.log")
        wait_until(lambda: self.ask_steps() and len(self.placed) == STEPS, what="all steps are there")

    def ask(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*self.on_head, str(COMMANDS / "roofline-client"), *map(str, arguments)]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=60)

    def ask_steps(self) -> bool:
        """Take begin and end of each step from the server; false before it knows the job."""
        done = self.ask("steps", "--job", "42", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout))) if done.returncode == 0 else []
        begins = {int(row["step"]): (int(row["begin_ns"]), int(row["duration_ns"])) for row in rows}
        self.placed = {step: (begin, begin + duration) for step, (begin, duration) in begins.items()}
        return bool(rows)

    def real(self) -> dict[int, list[int]]:
        """Real times of each step: before and after its begin was marked, before and after its end was."""
        return {one["step"]: one["times"] for one in map(json.loads, self.log("rank.log").splitlines())}

    def stated_ns(self) -> float:
        """The alignment error in the report."""
        (node,) = self.report()["alignment"]
        assert node["error"]["value"], node
        return float(node["error"]["value"]) * 1e9

    def errors_ns(self) -> list[int]:
        """How far off each border of a step lies, at least; negative where the server has it too early."""
        real = self.real()
        assert self.placed.keys() == real.keys() == set(range(STEPS))
        found = []
        for step, (begin, end) in self.placed.items():
            before_begin, after_begin, before_end, after_end = real[step]
            found.append(max(0, begin - after_begin) + min(0, begin - before_begin))
            found.append(max(0, end - after_end) + min(0, end - before_end))
        return found

    def drift(self) -> Drift:
        """What a server that has ended knew of the node's drift."""
        store = Store(self.folder / "data", decode_entry)
        try:
            (node,) = store.name_ids.machines()
            return drift_of(store.clocks()[node])
        finally:
            store.close()

    def check(self) -> float:
        """All steps are where the report says they are; returns its alignment error, ns."""
        stated, least = self.stated_ns(), max(map(abs, self.errors_ns()))
        print(f"stated {stated / MS:.3f} ms, at least {least / MS:.3f} ms off")
        assert least <= stated + READING_NS
        return stated


@pytest.fixture
def site(tmp_path: Path) -> Iterator[ClockSite]:
    made = ClockSite(tmp_path)
    yield made
    made.stop()


# -- clocks that are wrong ---------------------------------------------------------------------------


@contextlib.contextmanager
def bent_clocks(spec: str) -> Iterator[dict[str, str]]:
    """Environment of processes that share one bent clock, which begins to run when this is entered."""
    if not shutil.which("faketime"):
        pytest.skip("faketime is not installed")
    # Its wrapper keeps the clock in shared memory until its child ends: here when nothing more can be read.
    show = "tr '\\0' '\\n' < /proc/self/environ; echo; exec cat"
    with subprocess.Popen(
        ["faketime", "-f", spec, "sh", "-c", show], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        told = dict(line.rstrip("\n").partition("=")[::2] for line in iter(holder.stdout.readline, "\n"))
        try:
            yield {name: told[name] for name in ("LD_PRELOAD", "FAKETIME", "FAKETIME_SHARED")}
        finally:
            holder.stdin.close()


@pytest.mark.parametrize(("skew", "pace"), [("+5.5s", 1.0002), ("-3600s", 0.9996)])
def test_steps_of_a_skewed_and_drifting_node_are_aligned(site: ClockSite, skew: str, pace: float) -> None:
    with bent_clocks(f"{skew} x{pace}") as environ:
        site.node_environ = environ
        site.run_job("--seal", "0.5")
        assert site.check() < BUSY_NS
        site.stop()
    drift = site.drift()
    assert abs(drift.ppm - (1 / pace - 1) * 1e6) <= drift.error_ppm < 1000


# -- ways that are slow ------------------------------------------------------------------------------


class FarSite(ClockSite):
    """Between agent and server is a proxy that delays."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.proxy_port = free_port()
        self.node_environ = {"ROOFLINE_SERVER": f"127.0.0.1:{self.proxy_port}"}

    def slow_link(self, to_server_ms: float, to_agent_ms: float, jitter_ms: float) -> None:
        port = self.address.rpartition(":")[2]
        delays = (to_server_ms, to_agent_ms, jitter_ms)
        self.start([sys.executable, SLOW_LINK, self.proxy_port, port, *delays], "proxy.log")


@pytest.fixture
def far_site(tmp_path: Path) -> Iterator[FarSite]:
    made = FarSite(tmp_path)
    yield made
    made.stop()


def test_steps_are_aligned_over_a_lopsided_way(far_site: FarSite) -> None:
    far_site.slow_link(to_server_ms=5, to_agent_ms=80, jitter_ms=10)
    far_site.run_job()
    assert 42.5 * MS <= far_site.check() < 42.5 * MS + BUSY_NS
    # The way is really as lopsided: half of the difference is what nobody can see.
    assert max(far_site.errors_ns()) < -20 * MS


# -- shaped links ------------------------------------------------------------------------------------

HEAD, NODE = "10.98.76.1", "10.98.76.2"
# Towards the agent quick, towards the server a narrow way on which a batch takes its time.
WIDE = "htb default 1"
WIDE_CLASS = "htb rate 200mbit"
NARROW = "tbf rate 1mbit burst 2kb latency 500ms"


@contextlib.contextmanager
def two_namespaces() -> Iterator[tuple[str, str]]:
    """Names of a head's and a node's network, with a shaped cable between them."""
    if os.getuid():
        pytest.skip("network namespaces need root")
    if missing := [tool for tool in ("ip", "tc", "nsenter") if not shutil.which(tool)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    head, node = f"roofline-head-{os.getpid()}", f"roofline-node-{os.getpid()}"
    try:
        try:
            for name in (head, node):
                _run(f"ip netns add {name}")
            _run(f"ip -n {head} link add eth0 type veth peer name eth0 netns {node}")
            _run(f"tc -n {node} qdisc add dev eth0 root {NARROW}")
            _run(f"tc -n {head} qdisc add dev eth0 root handle 1: {WIDE}")
            _run(f"tc -n {head} class add dev eth0 parent 1: classid 1:1 {WIDE_CLASS}")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel gives no shaped link between namespaces: {error.stderr.strip()}")
        for name, address in ((head, HEAD), (node, NODE)):
            _run(f"ip -n {name} addr add {address}/24 dev eth0")
            _run(f"ip -n {name} link set eth0 up")
            _run(f"ip -n {name} link set lo up")
        yield head, node
    finally:
        for name in (head, node):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True, text=True, timeout=20)


def test_steps_are_aligned_over_a_narrow_link(site: ClockSite) -> None:
    with two_namespaces() as (head, node):
        site.on_head = ["nsenter", f"--net=/run/netns/{head}", "--"]
        site.on_node = ["nsenter", f"--net=/run/netns/{node}", "--"]
        site.address = site.environ["ROOFLINE_SERVER"] = f"{HEAD}:7642"
        site.run_job()
        assert site.check() < BUSY_NS
        site.stop()
