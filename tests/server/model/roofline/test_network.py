from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Crossing
from roofline.answers.values import Provenance, Scope, Value
from roofline_server.model.collectives import RINGS, CollectiveGroup, leaving, moved_by
from roofline_server.model.evidence import CounterEvidence, RankEvidence
from roofline_server.model.roofline import network
from roofline_server.model.roofline.points import against
from roofline_server.model.roofline.roofs import Limits, limits
from roofline_server.model.roofline.summary import summarize
from roofline_server.records import ABSENT
from roofline_server.sentences import network as texts

from ...builders import DRAM, PEAK_F32
from ..evidence import NONE, evidence, ints, kernels, number, steps

NET = Ceiling("net.tcp", "network", "network", "", 0, 1e9, "byte/s", 0, "", 0, peer="node2")
NODE = limits("node1", "", [PEAK_F32, DRAM, NET], "f32")


def tcp(per_step: float) -> CounterEvidence:
    return CounterEvidence(per_step * 10, 10.0, 10, per_step)


def collectives(ranks: Sequence[RankEvidence], world: int = 0, mates: int = 1) -> float | None:
    found = moved_by(ranks, world, mates)
    return None if found is None else found.bytes


def moved(*ranks: RankEvidence) -> Value:
    return network.communicated(ranks, summarize(ranks, [], Scope.PROCESS).values, Scope.PROCESS)


def intensity(*ranks: RankEvidence) -> Value:
    values = summarize(ranks, [], Scope.PROCESS).values
    return network.intensity(ranks, values, moved(*ranks), Scope.PROCESS)


def reducing(size: int, **more: Any) -> RankEvidence:
    """A rank that reduced so many bytes in each of its steps of which anything is told."""
    columns = {
        "asked.allreduce.bytes": ints(*[size, ABSENT] * 5),
        "engine.busy.bytes": ints(*[9 * size] * 10),
    }
    return evidence(kernels=kernels([10**9] * 10), columns=columns, **more)


# -- bytes communicated -----------------------------------------------------------------------------------


def test_bytes_are_those_of_the_busier_direction() -> None:
    found = moved(evidence(sent=tcp(300), received=tcp(100)))
    assert (found.value, found.reason) == (300, "TCP bytes sent, the busier direction")
    assert moved(evidence(sent=tcp(100), received=tcp(400))).reason.startswith("TCP bytes received")


def test_link_that_is_full_both_ways_is_at_its_roof_and_not_above() -> None:
    # 1 GB sent and 1 GB received a second, over a link of 1 GB/s.
    rank = evidence(kernels=kernels([10**9] * 10), sent=tcp(1e9), received=tcp(1e9))
    values = summarize([rank], [NODE], Scope.PROCESS).values
    held = against(intensity(rank), values["flops_per_second"], "network", [NODE])
    assert number(held.share) == pytest.approx(1)
    assert held.bound == "net.tcp"


def test_without_tcp_bytes_are_those_of_the_collectives() -> None:
    found = moved(reducing(4000))
    payload = texts.PAYLOAD
    assert (found.value, found.reason) == (4000, f"{payload}: TCP was not counted")
    assert found.provenance == Provenance.ESTIMATED


def test_collectives_that_went_another_way_than_tcp_count() -> None:
    found = moved(reducing(4000, sent=tcp(40), received=tcp(20)))
    assert found.value == 4000
    assert texts.carried_rest_elsewhere(0.01) in found.reason
    assert moved(reducing(4000, sent=tcp(7000), received=tcp(7000))).value == 7000


def test_steps_that_accumulate_gradients_communicate_nothing() -> None:
    # One reduction in 4 steps: TCP, counted over all of them, agrees with it and stands.
    columns = {"asked.allreduce.bytes": ints(*[0, 0, 0, 4000] * 2, 0, 0)}
    rank = evidence(columns=columns, sent=tcp(800), received=tcp(800))
    assert collectives([rank]) == pytest.approx(800)
    assert moved(rank).reason == "TCP bytes sent, the busier direction"
    assert collectives([evidence(columns={"asked.allreduce.bytes": ints(*[0] * 10)})]) is None


@pytest.mark.parametrize(
    "kind, bytes_moved",
    [
        ("allreduce", 1500),
        ("allgather", 750),
        ("reducescatter", 750),
        ("broadcast", 1000),
        ("alltoall", 750),
        ("gather", 750),
        ("scatter", 750),
        ("reduce", 1000),
    ],
)
def test_ring_moves_what_its_kind_does(kind: str, bytes_moved: float) -> None:
    rank = evidence(columns={f"asked.{kind}.bytes": ints(*[1000] * 10)})
    assert collectives([rank], world=4) == pytest.approx(bytes_moved)
    assert collectives([rank], world=0) == collectives([rank], world=1) == 1000
    values = summarize([rank], [], Scope.PROCESS).values
    found = network.communicated([rank], values, Scope.PROCESS, network.Layout(4))
    assert (found.value, found.provenance) == (pytest.approx(bytes_moved), Provenance.ESTIMATED)
    assert "as a ring of 4 ranks moves them" in found.reason


def test_bytes_that_stay_inside_the_node_are_left_out() -> None:
    rank = evidence(sent=tcp(300), received=tcp(200))
    values = summarize([rank], [], Scope.PROCESS).values
    found = network.communicated([rank], values, Scope.PROCESS, local=network.LocalShare(0.75, 0.25))
    assert (found.value, found.provenance) == (pytest.approx(150), Provenance.ESTIMATED)
    assert "TCP bytes received" in found.reason and "without the 25% that stayed inside" in found.reason
    unknown = network.communicated([rank], values, Scope.PROCESS, local=network.LocalShare(note="not known"))
    assert unknown.value == 300 and unknown.reason.endswith("not known")


def test_a_step_is_not_known_where_some_of_its_bytes_are_not() -> None:
    """In the second step there were broadcasts, too, of which nobody knows the size."""
    columns = {
        "asked.allreduce.bytes": ints(100, 100, 400),
        "asked.allreduce.count": ints(1, 1, 1),
        "asked.broadcast.bytes": ints(0, ABSENT, ABSENT),
        "asked.broadcast.count": ints(0, 1, 0),
    }
    found = moved_by([reducing(1)._replace(columns=columns)])
    assert found is not None and found.bytes == pytest.approx(250)
    unsized = {**columns, "asked.broadcast.count": ints(1, 1, 1)}
    unsized["asked.broadcast.bytes"] = ints(*[ABSENT] * 3)
    assert moved_by([reducing(1)._replace(columns=unsized)]) is None


def test_executed_collectives_count_where_none_were_asked_for() -> None:
    rank = evidence(
        columns={"engine.allreduce.bytes": ints(*[70] * 10), "engine.queue.bytes": ints(*[9] * 10)}
    )
    assert collectives([rank]) == 70
    assert collectives([evidence()]) is None


def test_bytes_nobody_counted_are_absent_with_the_reason() -> None:
    found = intensity(evidence(kernels=kernels([100]), reasons={"tcp": "no netlink"}))
    assert (found.value, found.reason) == (None, "no netlink")


def test_rank_that_communicates_nothing_is_never_bound_by_the_network() -> None:
    found = intensity(evidence(kernels=kernels([100]), sent=tcp(0), received=tcp(0)))
    assert (found.value, found.reason) == (None, texts.NOTHING_MOVED)


def test_rank_without_flops_has_no_intensity_and_says_why() -> None:
    found = intensity(
        evidence(sent=tcp(10), received=tcp(10), reasons={"flops": "a server computes nothing"})
    )
    assert (found.value, found.reason) == (None, "a server computes nothing")


def test_rank_without_steps_is_known_by_its_rates() -> None:
    rank = evidence(steps=NONE, kernels=kernels([5000], seconds=2), sent=tcp(50), received=tcp(20))
    assert number(intensity(rank)) == pytest.approx(2500 / 50)


def test_flops_a_step_are_a_mean_as_the_bytes_are() -> None:
    # A long step among nine short ones: a median would lose it, the bytes a step do not.
    rank = evidence(kernels=kernels([100] * 9 + [9100]), sent=tcp(10), received=tcp(1))
    assert number(intensity(rank)) == pytest.approx(1000 / 10)


# -- ridge and crossing -----------------------------------------------------------------------------------


def test_ridge_of_a_node_is_its_peak_over_its_network() -> None:
    assert network.ridge([NODE]) == pytest.approx(4e12 / 1e9)


def test_gpus_of_a_node_share_its_network() -> None:
    def gpu(at: int) -> Limits:
        device = f"gpu {at}"
        hbm = DRAM._replace(level="hbm", device=device)
        return limits("node1", device, [PEAK_F32._replace(device=device), hbm, NET], "f32")

    assert network.ridge([gpu(0), gpu(1)]) == pytest.approx(2 * 4e12 / 1e9)


def test_no_ridge_without_ceilings() -> None:
    assert network.ridge([]) is None
    assert network.ridge([limits("n", "", [PEAK_F32, DRAM], "f32")]) is None
    assert network.ridge([NODE, limits("n", "gpu 0", [NET], "f32")]) is None


def crossing(rank: RankEvidence, balance: float | None, why: str = "") -> Crossing:
    return network.crossing("worker:0", "worker", [rank], intensity(rank), balance, why)


def test_crossing_is_where_computing_and_communicating_take_equally_long() -> None:
    # 1 GFLOP and 1 MB a step of 32 examples: 1000 FLOP a byte; the node balances at 4000.
    rank = evidence(kernels=kernels([10**9] * 10), sent=tcp(1e6), received=tcp(1e5))
    found = crossing(rank, 4000.0)
    assert number(found.batch) == 32
    assert number(found.crossing) == pytest.approx(128)
    assert number(found.ridge) == 4000
    assert found.crossing.provenance == Provenance.ESTIMATED
    assert found.crossing.reason.startswith(texts.crossing_model(""))
    assert "computing takes longer from 128 examples on" in found.words
    # With the FLOPs of that batch, the peak and the network take as long.
    assert pytest.approx(1e6 / 1e9) == 10**9 * 128 / 32 / 4e12


@settings(deadline=None)
@given(st.integers(1, 4096), st.floats(1e-3, 1e6), st.integers(10**6, 10**12))
def test_crossing_does_not_depend_on_the_batch_that_ran(batch: int, balance: float, flops: int) -> None:
    # The same training, a batch of twice the size has twice the FLOPs.
    def at(times: int) -> float:
        found = steps(*((k, k, k + 0.9) for k in range(3)), examples=times * batch)
        rank = evidence(steps=found, kernels=kernels([flops * times] * 3), sent=tcp(1e6), received=tcp(1))
        return number(crossing(rank, balance).crossing)

    assert at(2) == pytest.approx(at(1))


def test_job_beyond_its_crossing_is_said_to_be() -> None:
    rank = evidence(kernels=kernels([10**9] * 10), sent=tcp(1e4), received=tcp(1))
    found = crossing(rank, 4000.0)
    assert number(found.crossing) == pytest.approx(32 * 4000 / 1e5)
    assert found.words.startswith("not bound by the network even at its peak rate")
    assert found.words.endswith("communicating takes longer below a batch of 2 examples")
    always = crossing(rank, 3000.0)
    assert always.words.endswith("computing takes longer at any batch")


def test_no_crossing_says_what_lacks() -> None:
    rank = evidence(kernels=kernels([10**9] * 10), sent=tcp(1e6), received=tcp(1))
    found = crossing(rank, None, "no network ceiling of node1")
    assert found.crossing.value is None
    assert found.crossing.reason in found.words and found.crossing.reason == "no network ceiling of node1"
    assert found.ridge.value is None and found.ridge.reason == "no network ceiling of node1"
    unsaid = evidence(
        kernels=kernels([10**9]), sent=tcp(1e6), received=tcp(1), steps=steps((0, 0, 1), examples=ABSENT)
    )
    assert "examples" in crossing(unsaid, 4000.0).words
    assert "no kernels" in crossing(evidence(sent=tcp(1), received=tcp(1)), 4000.0).words


# -- collectives over nodes -------------------------------------------------------------------------------


def asking(sent: float | None = None, **bytes_of: int) -> RankEvidence:
    """A rank that asks in each step for collectives of so many bytes. kind: "allreduce__4_2" of a group."""
    columns = {
        f"asked.{kind.replace('__', '.').replace('_', '-')}.bytes": ints(*[size] * 10)
        for kind, size in bytes_of.items()
    }
    tcp_sent = None if sent is None else tcp(sent)
    return evidence(kernels=kernels([10**12] * 10), columns=columns, sent=tcp_sent, received=tcp_sent)


def over(layout: network.Layout, *ranks: RankEvidence) -> Value:
    values = summarize(ranks, [], Scope.ROLE).values
    return network.communicated(ranks, values, Scope.ROLE, layout)


def test_ring_leaves_a_node_once() -> None:
    found = over(network.Layout(world=16, mates=8), *[asking(allreduce=10**9) for _ in range(8)])
    assert number(found) == pytest.approx(2 * 15 / 16 * 1e9 / 8)
    assert found.reason.startswith(texts.ring(16, 8))


@pytest.mark.parametrize(
    "kind, leaves",
    [
        ("allreduce", 1.5 / 2),
        ("allgather", 0.75 / 2),
        ("reducescatter", 0.75 / 2),
        ("broadcast", 1 / 2),
        ("reduce", 1 / 2),
        ("alltoall", 2 / 4),  # of four pieces two are of ranks elsewhere
        ("gather", 2 / 4),
        ("scatter", 2 / 4),
        ("send", 1),
    ],
)
def test_of_two_nodes_with_two_ranks_each_so_much_leaves_one(kind: str, leaves: float) -> None:
    assert collectives([asking(**{kind: 1000})], 4, 2) == pytest.approx(1000 * leaves)


@given(st.sampled_from(sorted(RINGS)), st.integers(1, 64), st.integers(1, 64))
def test_of_a_ring_all_ranks_of_a_node_send_what_one_alone_would(kind: str, nodes: int, mates: int) -> None:
    world = nodes * mates
    together = mates * leaving(kind, CollectiveGroup(world, mates))
    alone = leaving(kind, CollectiveGroup(world, 1)) if nodes > 1 else 0.0
    assert together == pytest.approx(alone)


def test_tcp_of_one_rank_of_a_node_is_what_leaves_for_all() -> None:
    # As NCCL does it: of eight ranks one sends what crosses, the others use NVLink.
    ranks = [asking(sent, allreduce=10**9) for sent in (1.875e9, *[0.0] * 7)]
    found = over(network.Layout(world=16, mates=8), *ranks)
    assert (number(found), found.provenance) == (pytest.approx(1.875e9 / 8), Provenance.MEASURED)
    assert found.reason.startswith("TCP bytes sent")


def test_tcp_known_by_peer_goes_before_what_a_ring_would_move() -> None:
    # Most is reduced within the nodes, of which the collectives do not tell.
    layout = network.Layout(world=16, mates=8, by_peer=True)
    assert number(over(layout, asking(1e7, allreduce=10**9))) == 1e7
    carried = over(layout._replace(rdma=True), asking(1e7, allreduce=10**9))
    assert number(carried) == pytest.approx(1.875e9 / 8)
    assert texts.carried_rest_elsewhere(0.04) in carried.reason
    nothing = over(layout, asking(1e5, allreduce=10**9))  # RDMA that nothing counts
    assert number(nothing) == pytest.approx(1.875e9 / 8)


def test_job_of_one_node_has_no_ceiling_for_what_tcp_did_not_carry() -> None:
    layout = network.Layout(world=2, mates=2, alone=True)
    uncounted = over(layout, asking(allreduce=10**9))
    assert uncounted.value is None
    assert uncounted.reason == texts.one_node(texts.NOT_COUNTED)
    little = over(layout, asking(1e6, allreduce=10**9))
    assert little.value is None and "TCP carried 0% of them" in little.reason
    assert number(over(layout, asking(1e9, allreduce=10**9))) == 1e9
    assert "NVLink" in over(layout, asking(1e6, allreduce__2_2=10**9)).reason


def test_send_and_receive_go_different_ways() -> None:
    found = over(network.Layout(world=2), asking(send=10**9, recv=10**9))
    assert number(found) == pytest.approx(1e9)
    assert found.reason.startswith(texts.BETWEEN_RANKS)
    ends = [asking(send=600, broadcast=100), asking(recv=1000, broadcast=100)]
    assert collectives(ends, 2) == pytest.approx((100 + 1000 + 100) / 2)


def test_collective_of_a_group_is_a_ring_of_that_group() -> None:
    assert collectives([asking(allreduce__2_1=1000)], 16) == pytest.approx(1000)
    assert collectives([asking(allreduce__4_2=1000)], 16, 8) == pytest.approx(750)
    assert collectives([asking(allreduce__2_2=1000)], 16, 8) is None  # it stays on its node
    assert collectives([asking(allreduce__2=1000)], 16, 8) == pytest.approx(1000)
    assert collectives([asking(allreduce__1_1=1000)], 16, 8) is None  # of one rank alone
    both = asking(allreduce__2_2=10**6, allreduce=1000)
    assert collectives([both], 16, 8) == pytest.approx(1875 / 8)


def test_group_that_nobody_told_is_said_to_be_supposed() -> None:
    layout = network.Layout(world=16)
    assert "each is taken to be of all ranks" in over(layout, asking(allreduce=10)).reason
    assert "as rings of their groups" in over(layout, asking(allreduce__4_1=10)).reason
