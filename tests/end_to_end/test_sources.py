"""What the agent's other sources bring into a report: the node, its interfaces, and who talked to whom."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.fakes import free_port

from .conftest import COMMANDS, Site, wait_until

pytestmark = pytest.mark.slow

SENT = 40 << 20
COUNTED = ("tcp_received_bytes", "tcp_sent_bytes")

# A server rank that reads whatever comes, and a worker rank that sends it once it is told to.
SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    link, _ = listening.accept()
    while link.recv(1 << 16):
        pass
"""
WORKER = """
import pathlib, socket, sys, time
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.05)
for _ in range(40):
    link.sendall(bytes(1 << 20))
    time.sleep(0.02)
time.sleep(600)
"""


def parts(site: Site) -> dict[tuple[str, str, str], dict[str, float | None]]:
    """(rank, instance, source) -> value by metric; nothing before the server knows the job."""
    told = known.parts if (known := site.known()) else []
    return {(p.rank, p.instance, p.source): {name: v.value for name, v in p.values.items()} for p in told}


@pytest.fixture
def port() -> int:
    return free_port()


def rank(site: Site, role: str, code: str, port: int, go: Path) -> None:
    cluster = {"ps": [f"127.0.0.1:{port}"], "worker": ["127.0.0.1:9"]}
    config = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
    wrapped = [COMMANDS / "roofline-agent", "run", "--job", "42", "--", sys.executable, "-c", code]
    site.start([*wrapped, port, go], f"{role}.log", TF_CONFIG=config)


def test_traffic_of_a_parameter_server_is_known_by_worker(site: Site, port: int) -> None:
    site.server("--seal", "0.5")
    site.agent()
    go = site.folder / "go"
    rank(site, "ps", SERVER, port, go)

    def answers() -> bool:
        with open("/proc/net/tcp") as file:
            return f":{port:04X} 00000000:0000 0A" in file.read()

    wait_until(answers, what="the server rank listens")
    rank(site, "worker", WORKER, port, go)

    both = (("ps:0", "worker:0", "tcp"), ("worker:0", "ps:0", "tcp"))
    wait_until(lambda: all(key in parts(site) for key in both), what="each sees the other")
    go.touch()

    def moved() -> bool:
        return all((parts(site)[one][what] or 0) >= SENT for one, what in zip(both, COUNTED, strict=True))

    wait_until(moved, what="all bytes are counted")
    found = parts(site)
    assert found[both[0]]["tcp_received_bytes"] == pytest.approx(SENT, rel=0.01)
    assert found[both[1]]["tcp_sent_bytes"] == pytest.approx(SENT, rel=0.01)
    node = found["", "", "node"]
    assert 0 < (node["node_cpu_busy_ns.per_second"] or 0) <= 256
    assert (node["node_memory_available_bytes.max"] or 0) > 1 << 20
    assert (found["", "lo", "network"]["nic_sent_bytes"] or 0) > SENT * 0.9

    text = site.ask("report", "--job", "42", "--full").stdout
    assert "Nodes, devices and peers" in text
    assert "ps:0 · worker:0" in text
