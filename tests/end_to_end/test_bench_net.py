"""Networks measured by two real agents: over loopback, over a shaped link, and when somebody leaves."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..fakes import ended
from .conftest import COMMANDS, Site, wait_until

pytestmark = pytest.mark.slow

WITNESS = Path(__file__).with_name("plain_stream.py")
A, B = "bench-node-a", "bench-node-b"
HEAD, NODE = "10.98.77.1", "10.98.77.2"
GONE_S = 60  # until whatever was told to end, or lost its other end, must have ended
RATE, BURST = 25e6, 32 << 10  # byte/s and bytes of the shaped link
SHAPED = "tbf rate 200mbit burst 32kb latency 50ms"


class TwoNodes(Site):
    """Server, client and agents of two hostnames, in as many networks as the test sets up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.networks: dict[str, list[str]] = {A: [], B: []}  # commands that enter them
        self.head: subprocess.Popen[bytes] | None = None
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.clients: list[subprocess.Popen[str]] = []

    def up(self) -> None:
        """Server and agents, those that do not run already."""
        alive = [host for host, agent in self.agents.items() if agent.poll() is None]
        if self.head is None or self.head.poll() is not None:
            before = {host: self.connections(host) for host in alive}
            self._serve()
            for host in alive:
                self._wait_for(host, before[host])
        for host in (A, B):
            if host not in alive:
                self.node(host)

    def _serve(self) -> None:
        begun = self.log("server.log").count(" at ") if self.head else 0
        self.head = self.start(
            [*self.networks[A], COMMANDS / "roofline-server", "--listen", self.address, "--insecure"],
            "server.log",
            ROOFLINE_DATA=str(self.folder / "data"),
        )
        wait_until(lambda: self.log("server.log").count(" at ") > begun, what="the server listens")

    def node(self, host: str) -> None:
        """An agent on a host of this name."""
        named = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"]
        agent = [COMMANDS / "roofline-agent", "--state", self.folder / host]
        before = self.connections(host)
        self.agents[host] = self.start(
            [*self.networks[host], *named, *agent],
            f"{host}.log",
            ROOFLINE_SOCKET=str(self.folder / f"{host}.s"),
        )
        self._wait_for(host, before)

    def _wait_for(self, host: str, before: int) -> None:
        wait_until(lambda: self.connections(host) > before, 60, what=f"{host} is connected")

    def connections(self, host: str) -> int:
        """How often an agent of this host was welcomed."""
        log = self.folder / f"{host}.log"
        return log.read_text().count("connected to server") if log.exists() else 0

    def begin(self, *options: Any, source: str = A, target: str = B) -> subprocess.Popen[str]:
        """A benchmark that goes on."""
        # Forced: agents here see the ranks of any test next to this one.
        client = [COMMANDS / "roofline-client", "bench", "net", "--force", "--from", source, "--to", target]
        command = [str(part) for part in (*self.networks[A], *client, *options)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.clients.append(subprocess.Popen(command, env=self.environ, text=True, **pipes))
        return self.clients[-1]

    def measured(self, *options: Any, **hosts: str) -> dict[str, Any]:
        """A benchmark that is done."""
        output, complaint = (running := self.begin("--format", "json", *options, **hosts)).communicate(
            timeout=150
        )
        assert running.returncode == 0, complaint
        return json.loads(output)

    def ends(self, host: str) -> list[psutil.Process]:
        """Processes that measure or serve for the agent of a host."""
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.agents[host].pid).children(recursive=True)
            return [one for one in below if _measures(one)]
        return []

    def running(self) -> tuple[psutil.Process, psutil.Process]:
        """The processes of both ends, once they are at it."""

        def both() -> list[psutil.Process]:
            found = [self.ends(A)[:1], self.ends(B)[:1]]
            return [*found[0], *found[1]] if all(found) else []

        first, second = wait_until(both, what="both ends measure")
        return first, second

    def idle(self) -> bool:
        return not self.ends(A) and not self.ends(B)

    def settle(self) -> None:
        """No client is left, and both ends see to it that nothing is measured any more."""
        for client in self.clients:
            with ended(client):
                pass
        self.clients.clear()
        wait_until(self.idle, GONE_S, what="both ends have ended")

    def kept(self, host: str) -> list[dict[str, Any]]:
        return json.loads((self.folder / host / "network.json").read_text())["ceilings"]


def _measures(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "roofline_agent.netbench" in process.cmdline()
    return False


@contextlib.contextmanager
def two_nodes(folder: Path) -> Iterator[TwoNodes]:
    if os.getuid():
        pytest.skip("two hostnames on one machine need root")
    if missing := [tool for tool in ("unshare", "hostname") if not shutil.which(tool)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if subprocess.run(["unshare", "--uts", "hostname", A], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no UTS namespaces")
    made = TwoNodes(folder)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with two_nodes(tmp_path_factory.mktemp("nodes")) as made:
        yield made


@pytest.fixture
def nodes(standing: TwoNodes) -> Iterator[TwoNodes]:
    """Server and agents at work that measure nothing, whatever a test before killed."""
    standing.up()
    yield standing
    standing.settle()


def by_name(found: dict[str, Any], what: str) -> dict[str, Any]:
    return {one["name"]: one for one in found[what]}


# -- what is measured --------------------------------------------------------------------------------


def test_all_of_it_is_measured_and_becomes_the_ceilings_of_the_sender(nodes: TwoNodes) -> None:
    found = nodes.measured("--seconds", "0.1")
    results = by_name(found, "results")
    for scheme in ("uniform.small", "uniform.medium", "uniform.large", "uniform.mixed", "random", "skewed"):
        for name in (f"grpc.latency.{scheme}", f"grpc.bandwidth.{scheme}"):
            assert {name, f"{name}.serialized"} <= set(results)
    assert results["grpc.ps.skewed"]["unit"] == "1/s"
    moved = results["grpc.ps.skewed.bytes"]["value"] / results["grpc.ps.skewed"]["value"]
    assert moved == pytest.approx(results["grpc.ps.skewed"]["message_bytes"])
    for one in found["results"]:
        assert one["value"] > 0 and one["spread"]["p5"] <= one["value"] <= one["spread"]["p95"]
    # What a message of ten large buffers takes, a small one does not.
    assert results["grpc.latency.uniform.small"]["value"] < results["grpc.latency.uniform.large"]["value"]

    ceilings = by_name(found, "ceilings")
    assert set(ceilings) == {"net.tcp", "net.grpc", "net.tcp.latency", "net.grpc.latency"}
    assert {one["peer"] for one in found["ceilings"]} == {B}
    of_tcp = [one for name, one in results.items() if name.startswith("tcp.bandwidth")]
    (best,) = [one for one in of_tcp if one["value"] == ceilings["net.tcp"]["median"]]
    assert ceilings["net.tcp"]["value"] == pytest.approx(best["value"], rel=0.5), "the whole, not its best"
    assert {one["name"] for one in nodes.kept(A)} == set(ceilings)
    assert not (nodes.folder / B / "network.json").exists()
    wait_until(nodes.idle, what="both ends have ended")


def test_ceilings_reach_the_server_and_outlive_the_agent(nodes: TwoNodes) -> None:
    first = by_name(nodes.measured("--quick", "--seconds", "0.1"), "ceilings")
    here = nodes.measured("--quick", "--seconds", "0.1", target=A)
    assert any("loopback" in note for note in here["notes"])
    assert all("loopback" in one["method"] and one["peer"] == A for one in here["ceilings"])
    again = by_name(nodes.measured("--quick", "--seconds", "0.1"), "ceilings")
    assert again["net.tcp"]["time_ns"] > first["net.tcp"]["time_ns"]
    # A run to another peer stands next to it, one to the same peer replaces it.
    kept = [(one["name"], one["peer"]) for one in nodes.kept(A)]
    assert sorted(kept) == sorted((name, peer) for name in first for peer in (A, B))
    nodes.agents[A].send_signal(signal.SIGTERM)
    nodes.agents[A].wait(GONE_S)
    nodes.node(A)

    done = nodes.ask("machines", "--host", A, "--format", "json")
    newest = json.loads(done.stdout)["machines"][0]
    assert newest["connected"]
    known = {(one["name"], one["peer"]): one["time_ns"] for one in newest["machine"]["ceilings"]}
    assert known["net.tcp", B] == again["net.tcp"]["time_ns"]


def test_text_and_csv(nodes: TwoNodes) -> None:
    text = nodes.begin("--quick", "--seconds", "0.1").communicate(timeout=GONE_S)[0]
    assert f"Network ceilings of {A}" in text and "grpc.bandwidth.skewed" in text
    written = nodes.begin("--quick", "--seconds", "0.1", "--format", "csv").communicate(timeout=GONE_S)[0]
    rows = written.splitlines()
    assert rows[0].startswith("from_host,to_host,name,") and rows[1].startswith(f"{A},{B},tcp.latency,")


# -- a shaped link -----------------------------------------------------------------------------------


@contextlib.contextmanager
def shaped_link() -> Iterator[dict[str, list[str]]]:
    """Commands that enter the networks of both nodes; between them a cable of `RATE`."""
    if missing := [tool for tool in ("ip", "tc", "nsenter") if not shutil.which(tool)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    names = {A: f"roofline-a-{os.getpid()}", B: f"roofline-b-{os.getpid()}"}
    try:
        try:
            for name in names.values():
                _run(f"ip netns add {name}")
            _run(f"ip -n {names[A]} link add eth0 type veth peer name eth0 netns {names[B]}")
            for name in names.values():
                _run(f"tc -n {name} qdisc add dev eth0 root {SHAPED}")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel gives no shaped link between namespaces: {error.stderr.strip()}")
        for host, address in ((A, HEAD), (B, NODE)):
            _run(f"ip -n {names[host]} addr add {address}/24 dev eth0")
            _run(f"ip -n {names[host]} link set eth0 up")
            _run(f"ip -n {names[host]} link set lo up")
        yield {host: ["nsenter", f"--net=/run/netns/{name}", "--"] for host, name in names.items()}
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True, text=True, timeout=20)


def witnessed(networks: dict[str, list[str]]) -> float:
    """Bytes a second of one plain TCP stream from A to B, by a program that shares nothing with ours."""
    receiver = [*networks[B], sys.executable, str(WITNESS), "receive", "3"]
    with subprocess.Popen(receiver, stdout=subprocess.PIPE, text=True) as receiving:
        assert receiving.stdout
        port = receiving.stdout.readline().strip()
        sender = [*networks[A], sys.executable, str(WITNESS), "send", NODE, port]
        subprocess.run(sender, check=True, timeout=60)
        return float(receiving.stdout.readline())


def test_a_shaped_link_is_measured_as_it_is_shaped(tmp_path: Path) -> None:
    with shaped_link() as networks, two_nodes(tmp_path) as nodes:
        nodes.networks = networks
        nodes.address = nodes.environ["ROOFLINE_SERVER"] = f"{HEAD}:7642"
        nodes.up()
        found = nodes.measured("--quick", "--seconds", "1")
        other = witnessed(networks)
    results, ceilings = by_name(found, "results"), by_name(found, "ceilings")
    print({name: (one["value"], one["unit"]) for name, one in results.items()}, "witness", other)
    assert not [note for note in found["notes"] if "not measured" in note or "loopback" in note]
    assert results["tcp.bandwidth"]["value"] == pytest.approx(RATE, rel=0.1)
    assert results["tcp.bandwidth"]["value"] == pytest.approx(other, rel=0.1)
    assert ceilings["net.tcp"]["value"] == pytest.approx(RATE, rel=0.1)
    # gRPC gets through what TCP does, and never more.
    assert RATE / 2 < ceilings["net.grpc"]["value"] < 1.1 * RATE
    # A message leaves no faster than the link takes it, at once but for a burst; there and back.
    large = results["grpc.latency.uniform.large"]
    assert large["value"] >= 2 * (large["message_bytes"] - BURST) / RATE


# -- somebody leaves ---------------------------------------------------------------------------------


def test_ctrl_c_at_the_client_ends_it_everywhere(nodes: TwoNodes) -> None:
    client = nodes.begin()
    nodes.running()
    client.send_signal(signal.SIGINT)
    client.communicate(timeout=GONE_S)
    assert client.returncode == 130
    wait_until(nodes.idle, GONE_S, what="both ends have ended")


@pytest.mark.parametrize("host", [A, B])
def test_a_killed_agent_ends_it_at_the_other_end(nodes: TwoNodes, host: str) -> None:
    client = nodes.begin()
    ends = nodes.running()
    nodes.agents[host].kill()
    complaint = client.communicate(timeout=GONE_S)[1]
    assert client.returncode == 3
    assert "broken off" in complaint and host in complaint
    psutil.wait_procs(ends, timeout=GONE_S)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in ends)


@pytest.mark.parametrize("host", [A, B])
def test_a_killed_measuring_process_is_said_and_costs_the_agent_nothing(nodes: TwoNodes, host: str) -> None:
    client = nodes.begin()
    ends = dict(zip((A, B), nodes.running(), strict=True))
    ends[host].kill()
    complaint = client.communicate(timeout=GONE_S)[1]
    assert client.returncode == 3
    assert "broken off" in complaint and ("SIGKILL" in complaint or "has gone" in complaint)
    wait_until(nodes.idle, GONE_S, what="the other end has ended")
    assert nodes.measured("--quick", "--seconds", "0.1")["ceilings"]


def test_a_lost_server_ends_both_ends(nodes: TwoNodes) -> None:
    client = nodes.begin()
    nodes.running()
    assert nodes.head
    nodes.head.kill()
    client.communicate(timeout=GONE_S)
    assert client.returncode == 4
    wait_until(nodes.idle, GONE_S, what="both ends have ended")


# -- what cannot be ----------------------------------------------------------------------------------


def test_who_cannot_measure_says_why(nodes: TwoNodes) -> None:
    first = nodes.begin()
    nodes.running()
    second = nodes.ask("bench", "net", "--from", B, "--to", A)
    assert second.returncode == 3 and "is busy with a network benchmark" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=GONE_S)
    unknown = nodes.ask("bench", "net", "--from", A, "--to", "nowhere")
    assert unknown.returncode == 5 and "'nowhere'" in unknown.stderr and A in unknown.stderr
    long = nodes.ask("bench", "net", "--from", A, "--to", B, "--seconds", "900")
    assert long.returncode == 3 and "0.1 to 10" in long.stderr
    nodes.agents[B].send_signal(signal.SIGTERM)
    nodes.agents[B].wait(GONE_S)
    gone = nodes.ask("bench", "net", "--from", A, "--to", B)
    assert gone.returncode == 3 and "not connected" in gone.stderr and "start `roofline-agent`" in gone.stderr
