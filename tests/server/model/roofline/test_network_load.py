"""Ranks of which no FLOPs are known against the ceiling of the network."""

from __future__ import annotations

import pytest
from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance, Scope
from roofline_server.model.evidence import CounterEvidence, RankEvidence
from roofline_server.model.roofline import network
from roofline_server.model.roofline.network_load import Load, load
from roofline_server.model.roofline.roofs import REVERSE, Limits, limits
from roofline_server.model.roofline.summary import summarize
from roofline_server.sentences import network as texts
from roofline_server.sentences.rooflines import no_network_ceiling

from ...builders import DRAM, PEAK_F32
from ..evidence import NONE, evidence, ints

NET = Ceiling("net.tcp", "network", "network", "", 0, 2.5e9, "byte/s", 0, "", 0, peer="node2")
ALONE = network.LocalShare()


def tcp(per_second: float) -> CounterEvidence:
    """Of a rank whose ten steps took 9.9 s; what is moved in a step is another number than in a second."""
    return CounterEvidence(per_second * 10, 10.0, 10, per_second / 2)


def node(*net: Ceiling) -> Limits:
    return limits("node1", "", [PEAK_F32, DRAM, *net], "f32")


NODE = node(NET)


def server(sent: float, received: float, **more: object) -> RankEvidence:
    said = {
        "key": "ps:0",
        "role": "ps",
        "serving": True,
        "sent": tcp(sent),
        "received": tcp(received),
        **more,
    }
    return evidence(**said)


def loaded(
    *ranks: RankEvidence, at: Limits = NODE, local: network.LocalShare = ALONE, sharing: int = 1
) -> Load | None:
    values = summarize(ranks, [], Scope.ROLE).values
    moved = network.communicated(ranks, values, Scope.ROLE, local=local)
    return load(ranks, values, moved, local, at, sharing)


def words(*ranks: RankEvidence, at: Limits = NODE, sharing: int = 1) -> str:
    found = loaded(*ranks, at=at, sharing=sharing)
    assert found is not None
    return found.words


def test_server_that_uses_little_of_the_network_is_not_held_back_by_it() -> None:
    found = loaded(server(4e7, 3e7))
    assert found is not None
    assert found.words == (
        "it sends 40 MB/s, 1.6% of what the network does (2.5 GB/s, net.tcp to node2): "
        "the network does not hold it back"
    )
    assert found.headroom.value == pytest.approx(2.5e9 / 4e7)
    assert found.headroom.provenance == Provenance.ESTIMATED
    assert "TCP bytes sent" in found.headroom.reason


def test_server_that_fills_the_network_holds_the_workers_up() -> None:
    assert words(server(1e8, 1.5e9)) == (
        "it receives 1.5 GB/s, 60% of what the network does (2.5 GB/s, net.tcp to node2): "
        "the network holds the workers up: more servers on other nodes, or fewer bytes"
    )


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (0.099, "does not hold it back"),
        (0.101, "may hold the workers up in bursts: this is a mean"),
        (0.499, "may hold the workers up in bursts"),
        (0.501, "holds the workers up"),
    ],
)
def test_between_little_and_half_nobody_knows(share: float, verdict: str) -> None:
    assert verdict in words(server(share * 2.5e9, 0))


def test_rank_that_serves_nobody_is_held_up_itself() -> None:
    chief = server(2e9, 0, key="chief:0", role="chief", serving=False)
    assert words(chief).endswith("the network holds it up")


def test_server_whose_steps_nobody_saw_serves_all_the_same() -> None:
    assert "holds the workers up" in words(server(2e9, 0, serving=False, steps=NONE))


def test_servers_of_a_node_add_up_and_share_it_with_others() -> None:
    said = words(server(2e7, 0), server(3e7, 0, key="ps:1"), sharing=4)
    assert said.startswith("its 2 ranks send 50 MB/s, 2% of")
    assert said.endswith("; 4 ranks of the job share it")


def test_loopback_and_the_other_way_are_told() -> None:
    itself, other = NET._replace(peer="node1"), NET._replace(operation=REVERSE)
    assert "(2.5 GB/s, net.tcp to node1, over loopback)" in words(server(1, 0), at=node(itself))
    assert "(2.5 GB/s, net.tcp from node2)" in words(server(1, 0), at=node(other))


def test_what_stayed_inside_the_node_does_not_count() -> None:
    found = loaded(server(8e7, 1e7), local=network.LocalShare(0.75, 0))
    assert found is not None and found.words.startswith("it sends 20 MB/s, 0.8% of")


def test_without_a_ceiling_its_bytes_are_told_and_no_share() -> None:
    found = loaded(server(4e7, 3e7), at=node())
    assert found is not None
    assert found.words == texts.rate_without_ceiling(texts.rate(1, "sent", 4e7), no_network_ceiling("node1"))
    assert (found.headroom.value, found.headroom.reason) == (None, "no network ceiling of node1")


def test_server_that_moves_nothing_has_no_headroom() -> None:
    found = loaded(server(0, 0))
    assert found is not None and found.words.startswith("it communicated nothing")
    assert found.headroom.value is None


def test_nothing_is_said_where_bytes_are_not_known_or_went_another_way() -> None:
    assert loaded(evidence(role="ps", serving=True)) is None
    # Collectives moved more than TCP carried: what TCP did is not its load.
    columns = {"asked.allreduce.bytes": ints(*[10**9] * 10)}
    assert loaded(server(1e3, 1e3, serving=False, columns=columns)) is None
