"""Nodes of a cluster that are namespaces of this machine: names, addresses, links held to a rate."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.end_to_end.conftest import REPOSITORY

Papers = Callable[[str], ModuleType]
SSH = REPOSITORY / "examples" / "papers" / "bin" / "ssh"

SENDS = """
import socket, sys, time
if sys.argv[1] == "receive":
    with socket.create_server(("0.0.0.0", 7000)) as server:
        print("ready", flush=True)
        peer, _ = server.accept()
        got = 0
        while data := peer.recv(1 << 20):
            got += len(data)
        print(got, flush=True)
else:
    with socket.create_connection((sys.argv[2], 7000)) as peer:
        begin = time.monotonic()
        peer.sendall(bytes(25 << 20))
        peer.shutdown(socket.SHUT_WR)
        peer.recv(1)
        print(time.monotonic() - begin)
"""


def run(*command: object, **environ: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout.strip() or done.stderr.strip()


@pytest.mark.slow
def test_nodes_have_names_addresses_and_shaped_links_of_their_own(papers: Papers) -> None:
    nodes = papers("nodes")
    if why := nodes.lacking():
        pytest.skip(why)
    with nodes.cluster(("one", "two"), "200mbit") as cluster:
        one, two = cluster["one"], cluster["two"]
        assert (run(*one.inside("hostname")), run(*two.inside("hostname"))) == ("one", "two")
        assert two.address in run(*one.inside("getent", "hosts", "two"))
        assert run(*one.inside("sh", "-c", "echo $$")) != str(os.getpid())
        command = two.inside("python3", "-c", SENDS, "receive")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receives:
            assert receives.stdout is not None and receives.stdout.readline() == "ready\n"
            took = float(run(*one.inside("python3", "-c", SENDS, "send", two.address)))
            assert receives.stdout.readline() == f"{25 << 20}\n" and receives.wait(10) == 0
        # 25 MiB at 200 Mbit/s take 1.05 s; a burst of 256 kB is let through.
        assert took > 0.95
        nodes.shape(one, "")
        assert "tbf" not in run(*one.inside("tc", "qdisc", "show", "dev", nodes.INTERFACE))
        known = f"{one.address}={one.pid} {two.address}={two.pid}"
        options = ("-o", "PasswordAuthentication=no"), ("-o", "ConnectTimeout=10")
        asked = (*options[0], two.address, *options[1], "hostname; echo $X")
        assert run(SSH, *asked, ROOFLINE_PAPERS_NODES=known, X="7") == "two\n7"
        assert "no node has the address" in run(SSH, "10.0.0.9", "true", ROOFLINE_PAPERS_NODES=known)
    assert "cluster0" not in run("ip", "-o", "link", "show", "type", "bridge")


@pytest.mark.slow
def test_a_second_run_does_not_take_away_the_nodes_of_the_first(papers: Papers) -> None:
    nodes = papers("nodes")
    if why := nodes.lacking():
        pytest.skip(why)
    with nodes.cluster(("one",), "") as cluster:
        with pytest.raises(nodes.NodeError, match="another run"), nodes.cluster(("two",), ""):
            pass
        assert run(*cluster["one"].inside("hostname")) == "one"
