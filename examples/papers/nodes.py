"""Nodes of a small cluster on this machine: a hostname, an address, processes and a shaped link of their own.

Linux namespaces (namespaces(7)), a bridge between them, and tc-tbf(8) on both ends of every node's link.
Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

INTERFACE = "cluster0"  # of every node and of this machine: Horovod asks for one name on all of them
NETWORK = "10.214.0."
HEAD = NETWORK + "1"
FIRST = 11  # last byte of the first node's address
TOOLS = ("ip", "tc", "nsenter", "unshare", "taskset")
BURST = "256kb"
START_S = 30
LOCK = "\0roofline-nodes"  # an abstract socket
# The first process of a node: it reaps what others leave behind, and with it all others end. Of its own are
# /run, where the node's agent listens, /sys, which shows its interfaces, and /etc/hosts, where Horovod looks.
OWN_PLACES = (
    "hostname {name}",
    "mount -t sysfs sysfs /sys",
    "mount --bind {hosts} /etc/hosts",
    "mount -t tmpfs -o mode=755 tmpfs /run",
)
READY = "/run/roofline"  # made last
WAITS = (f"mkdir {READY}", "while :; do sleep 3600 & wait; done")


class NodeError(Exception):
    """A node could not be made; the text says by which command and why."""


class Node(NamedTuple):
    """pid: of its first process."""

    name: str
    address: str
    pid: int

    def inside(self, *command: object) -> list[str]:
        """The command, to be run on the node."""
        enter = ["nsenter", "-t", str(self.pid), "--net", "--pid", "--mount", "--uts", "--"]
        return [*enter, *map(str, command)]


def lacking() -> str:
    """Why nodes cannot be made here; "": they can."""
    if os.geteuid():
        return "network namespaces need root"
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    return f"not installed: {', '.join(absent)} (iproute2 and util-linux)" if absent else ""


@contextlib.contextmanager
def cluster(names: Sequence[str], rate: str, setup: Sequence[str] = ()) -> Iterator[dict[str, Node]]:
    """Nodes by name, until the block is left. rate: of each link and direction, as tc(8) writes it: 2gbit;
    "": links are as fast as they go. setup: what a shell on each does first, {name} being the node's."""
    with _alone():
        yield from _cluster(names, rate, [*OWN_PLACES, *setup, *WAITS])


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Its name is free again when the process ends, however that is."""
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(LOCK)
        except OSError:
            raise NodeError("such nodes are up already: another run goes on") from None
        yield


def _cluster(names: Sequence[str], rate: str, init: Sequence[str]) -> Iterator[dict[str, Node]]:
    _remove_bridge()
    addresses = {name: f"{NETWORK}{FIRST + index}" for index, name in enumerate(names)}
    started: list[subprocess.Popen[bytes]] = []
    hosts = tempfile.NamedTemporaryFile("w", prefix="hosts")  # noqa: SIM115
    hosts.write(
        "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
    )
    hosts.flush()
    try:
        _run("ip", "link", "add", INTERFACE, "type", "bridge")
        _run("ip", "addr", "add", f"{HEAD}/24", "dev", INTERFACE)
        _run("ip", "link", "set", INTERFACE, "up")
        nodes = {}
        for name, address in addresses.items():
            process, pid = _namespaces(name, " && ".join(init).format(name=name, hosts=hosts.name))
            started.append(process)
            nodes[name] = Node(name, address, pid)
            _connect(nodes[name], rate)
        _wait_for([Path(f"/proc/{node.pid}/root{READY}") for node in nodes.values()])
        yield nodes
    finally:
        for process in started:
            process.kill()
            process.wait()
        _remove_bridge()
        hosts.close()


def _wait_for(places: Sequence[Path]) -> None:
    deadline = time.monotonic() + START_S
    while not all(place.exists() for place in places):
        if time.monotonic() > deadline:
            raise NodeError(f"nodes were not set up within {START_S} s")
        time.sleep(0.02)


def _namespaces(name: str, init: str) -> tuple[subprocess.Popen[bytes], int]:
    command = ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--mount-proc", "--kill-child"]
    process = subprocess.Popen([*command, "bash", "-c", init], start_new_session=True)
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with open(children) as file, contextlib.suppress(ValueError):
            return process, int(file.read())
        time.sleep(0.02)
    process.kill()
    raise NodeError(f"node {name} did not start: {' '.join(command)}")


def _connect(node: Node, rate: str) -> None:
    """A link from the bridge to the node, held to the rate in both directions."""
    outside, inside = _outside(node), str(node.pid)
    subprocess.run(["ip", "link", "delete", outside], capture_output=True)  # of nodes that still end
    _run("ip", "link", "add", outside, "type", "veth", "peer", "name", INTERFACE, "netns", inside)
    _run("ip", "link", "set", outside, "master", INTERFACE, "up")
    enter = _in_network(node)
    _run(*enter, "ip", "link", "set", "lo", "up")
    _run(*enter, "ip", "addr", "add", f"{node.address}/24", "dev", INTERFACE)
    _run(*enter, "ip", "link", "set", INTERFACE, "up")
    shape(node, rate)


def shape(node: Node, rate: str) -> None:
    """Hold the node's link to a rate in both directions; "": as fast as it goes."""
    how = ["add", "root", "tbf", "rate", rate, "burst", BURST, "latency", "50ms"]
    ends = [("tc", _outside(node)), (*_in_network(node), "tc", INTERFACE)]
    for *tc, device in ends:
        subprocess.run([*tc, "qdisc", "del", "dev", device, "root"], capture_output=True)  # if there is one
        if rate:
            _run(*tc, "qdisc", how[0], "dev", device, *how[1:])


def _outside(node: Node) -> str:
    """The bridge's end of its link: 15 characters at most."""
    return f"{INTERFACE}-{node.address.rpartition('.')[2]}"


def _in_network(node: Node) -> list[str]:
    return ["nsenter", "-t", str(node.pid), "--net", "--"]


def _remove_bridge() -> None:
    subprocess.run(["ip", "link", "delete", INTERFACE], capture_output=True)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise NodeError(f"{' '.join(words)}: {done.stderr.strip()}")
