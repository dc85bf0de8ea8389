"""Names of far ends: from a made-up cluster, and from sockets given in a table."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from roofline_agent.records import Rank
from roofline_agent.sources.peers import Endpoint, Peers, drawn_ports, endpoint, read_tasks

from tests.fakes import add_process, wait_for

from .trees import write

HERE = Endpoint(bytes([10, 0, 0, 1]), 2222)
CLUSTER = {
    "ps": ["10.0.0.1:2222"],
    "worker": ["10.0.0.2:2222", "10.0.0.3:2222", "10.0.0.3:2223", "[2001:db8::5]:2222"],
}


def at(text: str, port: int) -> Endpoint:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return Endpoint(socket.inet_pton(family, text), port)


def peers_of(tmp_path: Path, cluster: Mapping[str, object] | None, role: str = "ps") -> tuple[Peers, Rank]:
    config = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
    add_process(tmp_path, 50, {"TF_CONFIG": config} if cluster else {"A": "b"})
    peers, rank = Peers(str(tmp_path)), Rank("j", role, 0, 50, 1)
    peers.know([rank])
    return peers, rank


@pytest.mark.parametrize(
    ("remote", "name"),
    [
        (at("10.0.0.2", 2222), "worker:0"),  # the task listens there
        (at("10.0.0.3", 2223), "worker:2"),
        (at("2001:db8::5", 2222), "worker:3"),
        (at("10.0.0.2", 40_000), "worker:0"),  # the only task of that host
        (at("10.0.0.3", 40_000), "10.0.0.3"),  # one of two tasks there
        (at("10.0.0.1", 40_000), "10.0.0.1"),  # something next to the rank itself
        (at("10.0.0.9", 40_000), "10.0.0.9"),
        (at("10.0.0.9", 443), "10.0.0.9:443"),
        (at("2001:db8::9", 443), "[2001:db8::9]:443"),
        (at("10.0.0.2", 22), "10.0.0.2:22"),  # serves, but is no task
    ],
)
def test_peer_is_named_as_well_as_is_known(tmp_path: Path, remote: Endpoint, name: str) -> None:
    peers, rank = peers_of(tmp_path, CLUSTER)
    assert peers.name(rank, HERE, remote) == name


def test_socket_of_a_local_rank_goes_first(tmp_path: Path) -> None:
    peers, rank = peers_of(tmp_path, CLUSTER)
    remote = at("10.0.0.1", 45_678)
    peers.set_owners({(remote, HERE): Rank("j", "chief", 0, 9, 1), (HERE, remote): rank})
    assert peers.name(rank, HERE, remote) == "chief:0"
    assert peers.name(rank, HERE, at("10.0.0.1", 45_679)) == "10.0.0.1"
    peers.set_owners({(remote, HERE): Rank("another", "chief", 0, 9, 1)})
    assert peers.name(rank, HERE, remote) == "10.0.0.1"


def test_without_a_cluster_peers_are_addresses(tmp_path: Path) -> None:
    peers, rank = peers_of(tmp_path, None)
    assert peers.name(rank, HERE, at("10.0.0.2", 50_000)) == "10.0.0.2"
    assert peers.name(rank, HERE, at("10.0.0.2", 2222)) == "10.0.0.2:2222"


def test_names_of_hosts_are_looked_up_apart(tmp_path: Path) -> None:
    peers, rank = peers_of(tmp_path, {"ps": ["10.0.0.1:2222"], "worker": ["localhost:2300"]})
    wait_for(lambda: peers.name(rank, HERE, at("127.0.0.1", 2300)) == "worker:0")


def test_both_ways_to_write_an_address_are_one() -> None:
    plain = bytes([10, 0, 0, 1])
    assert endpoint(bytes(10) + b"\xff\xff" + plain, 5) == endpoint(plain, 5)


def test_master_is_called_chief() -> None:
    assert read_tasks(b'A=1\0TF_CONFIG={"cluster": {"master": ["a:1"]}}\0') == {"a:1": "chief:0"}


@pytest.mark.parametrize(
    "config",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"cluster": 5}',
        '{"cluster": {"ps": 5}}',
        '{"cluster": {"ps": {"0": "a:1"}}}',
        '{"cluster": {"a\\nb": ["a:1"]}}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_malformed_cluster_names_nobody(config: str) -> None:
    assert read_tasks(b"TF_CONFIG=" + config.encode("latin-1")) == {}


@pytest.mark.parametrize("where", [["no port"], [":1"], ["h:"], ["h:99999999"], [5], [None], ["10.0.0.2:x"]])
def test_malformed_addresses_are_left_out(tmp_path: Path, where: list[object]) -> None:
    peers, rank = peers_of(tmp_path, {"ps": where})
    assert peers.name(rank, HERE, at("10.0.0.2", 40_000)) == "10.0.0.2"


def test_range_of_drawn_ports_is_the_kernels(tmp_path: Path) -> None:
    assert drawn_ports(str(tmp_path)) == (32768, 60999)
    write(tmp_path, {"sys/net/ipv4/ip_local_port_range": "1024\t2000\n"})
    assert drawn_ports(str(tmp_path)) == (1024, 2000)
    write(tmp_path, {"sys/net/ipv4/ip_local_port_range": "what\n"})
    assert drawn_ports(str(tmp_path)) == (32768, 60999)


def test_cluster_of_ranks_that_left_is_forgotten(tmp_path: Path) -> None:
    peers, _ = peers_of(tmp_path, CLUSTER)
    assert peers._clusters
    peers.know([])
    assert not peers._clusters
