"""Bytes between nodes: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import network as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.carried(0.25),
            "TCP carried 25% of them",
        ),
        (
            texts.carried_rest_elsewhere(0.25),
            "TCP carried 25% of them, shared memory or RDMA the rest",
        ),
        (
            texts.one_node(texts.NOT_COUNTED),
            (
                "the job has one node, where its collectives go by shared memory or NVLink, of which "
                "nothing measured a ceiling: TCP was not counted"
            ),
        ),
        (
            texts.by_collectives(texts.PAYLOAD, texts.NOT_COUNTED),
            "payload of its collectives (of how many ranks is not known): TCP was not counted",
        ),
        (
            texts.busier_direction("sent"),
            "TCP bytes sent, the busier direction",
        ),
        (
            texts.without(0.25, texts.STAYED),
            "without the 25% that stayed inside the node, by its peers over the whole job",
        ),
        (
            texts.ring(16, 1),
            ("bytes of its collectives as a ring of 16 ranks moves them; each is taken to be of all ranks"),
        ),
        (
            texts.ring(16, 2),
            (
                "bytes of its collectives as a ring of 16 ranks, 2 on a node, moves them; each is taken to "
                "be of all ranks"
            ),
        ),
        (
            texts.no_crossing("it did no FLOPs"),
            "no crossing is known: it did no FLOPs",
        ),
        (
            texts.crossing_model("over TCP bytes sent"),
            (
                "if FLOPs of a step grow with the batch, bytes communicated do not; intensity over TCP "
                "bytes sent"
            ),
        ),
        (
            texts.crossing(32, 64.2, 10.0, 20.0),
            (
                "bound by the network at its peak rate: 10 FLOP a byte at 32 examples a step, the node "
                "balances at 20; computing takes longer from 65 examples on"
            ),
        ),
        (
            texts.crossing(128, 64.2, 40.0, 20.0),
            (
                "not bound by the network even at its peak rate: 40 FLOP a byte at 128 examples a step, the "
                "node balances at 20; communicating takes longer below a batch of 65 examples"
            ),
        ),
        (
            texts.crossing(128, 0.5, 4000.0, 20.0),
            (
                "not bound by the network even at its peak rate: 4,000 FLOP a byte at 128 examples a step, "
                "the node balances at 20; computing takes longer at any batch"
            ),
        ),
        (
            texts.rate(1, "sent", 1.2e9),
            "it sends 1.2 GB/s",
        ),
        (
            texts.rate(3, "received", 1.2e9),
            "its 3 ranks receive 1.2 GB/s",
        ),
        (
            texts.rate_without_ceiling("it sends 1 GB/s", "no network ceiling of n1"),
            "it sends 1 GB/s; no network ceiling of n1",
        ),
        (
            texts.load("it sends 1 GB/s", 0.6, "1.67 GB/s, net.tcp to n2", texts.holds_up_workers(), 2),
            (
                "it sends 1 GB/s, 60% of what the network does (1.67 GB/s, net.tcp to n2): the network "
                "holds the workers up: more servers on other nodes, or fewer bytes; 2 ranks of the job "
                "share it"
            ),
        ),
        (
            texts.load("it sends 1 GB/s", 0.05, "20 GB/s, net.tcp", texts.HOLDS_NOBODY, 0),
            (
                "it sends 1 GB/s, 5% of what the network does (20 GB/s, net.tcp): the network does not hold "
                "it back"
            ),
        ),
        (
            texts.load_of_what("sent"),
            "what the network does in one direction over TCP bytes sent, in the mean",
        ),
        (
            texts.ceiling("net.tcp", 1.2e9, "to", "n2", False),
            "1.2 GB/s, net.tcp to n2",
        ),
        (
            texts.ceiling("net.tcp", 1.2e9, "to", "n1", True),
            "1.2 GB/s, net.tcp to n1, over loopback",
        ),
        (
            texts.holds_up("it"),
            "the network holds it up",
        ),
        (
            texts.may_hold_up("the workers"),
            "the network may hold the workers up in bursts: this is a mean",
        ),
        (
            texts.to_measure("n1", "n2"),
            "`roofline-client bench net --from n1 --to n2`",
        ),
        (
            texts.not_measured(texts.link_speed("eth0"), texts.to_measure("n1", "n2")),
            (
                "speed of eth0 in one direction, as its driver says: not measured; `roofline-client "
                "bench net --from n1 --to n2` measures it"
            ),
        ),
        (
            texts.measured_back(["n2", "n3"], "n1", texts.to_measure("n1", "n2")),
            (
                "the network was measured from n2, n3 to n1, not the other way; `roofline-client bench net "
                "--from n1 --to n2` measures that"
            ),
        ),
        (
            texts.over_loopback("n1"),
            "measured from n1 to itself, over loopback, not a network",
        ),
        (
            texts.to_other_nodes(["n8", "n9"]),
            "the network was measured to n8, n9, where the job has no rank",
        ),
        (
            texts.note_of("n1", texts.over_loopback("n1")),
            "network of n1: measured from n1 to itself, over loopback, not a network",
        ),
        (
            texts.no_ceilings(["n1"], texts.to_measure("n1", "n2")),
            "no network ceiling of n1: run `roofline-client bench net --from n1 --to n2`",
        ),
        (
            texts.no_ceilings(["n1", "n2"], texts.to_measure("n1", "n2")),
            (
                "no network ceiling of n1, n2: run `roofline-client bench net --from n1 --to n2`, and so "
                "for the others"
            ),
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
