from __future__ import annotations

import pytest
from roofline.answers.values import Provenance, Scope
from roofline_server.correlate.parts import PartTotal
from roofline_server.model.roofline.network import Layout, LocalShare
from roofline_server.records import NODE_RANK, Metric
from roofline_server.report.roofline.placement import Peers
from roofline_server.sentences import network as texts
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ..nodes import A, B, job_on, number_of


def told(view: JobView, index: int, peer: str, sent: float, received: float = 0.0) -> list[PartTotal]:
    """What a worker moved to and from a peer."""
    each = (("tcp_sent_bytes", sent), ("tcp_received_bytes", received))
    return [
        PartTotal(
            number_of(view, index),
            1,
            peer,
            Metric("tcp", name, 1, "byte", Scope.PROCESS, Provenance.MEASURED, True, ""),
            1.0,
            moved,
        )
        for name, moved in each
    ]


def test_bytes_to_peers_on_the_same_host_stayed_inside(store: Store) -> None:
    view = job_on(store, A, B)  # workers 0 and 1 on hosta, 2 and 3 on hostb
    parts = [
        *told(view, 0, "worker:1", 30, 10),
        *told(view, 0, "worker:2", 60, 90),
        *told(view, 0, "127.0.0.1:9", 10, 0),
        *told(view, 0, "", 100, 100),
        *told(view, 2, "worker:3", 500, 500),
    ]
    view = view._replace(parts=parts)
    found = Peers(view).local([number_of(view, 0)])
    assert (found.sent, found.received, found.note) == (pytest.approx(0.4), pytest.approx(0.1), "")


def test_of_one_host_nothing_is_left_out(store: Store) -> None:
    view = job_on(store, A)
    view = view._replace(parts=told(view, 0, "worker:1", 30, 10))
    assert Peers(view).local([number_of(view, 0)]) == LocalShare()


def test_bytes_not_known_by_peer_are_said_to_be(store: Store) -> None:
    view = job_on(store, A, B)._replace(parts=())
    assert Peers(view).local([number_of(view, 0)]) == LocalShare(note=texts.LOCAL_UNKNOWN)


def test_what_others_than_ranks_say_is_left_out_of_what_ranks_exchange(store: Store) -> None:
    view = job_on(store, A, B)
    parts = [
        *told(view, 0, "worker:1", 30, 10),
        *told(view, 0, "worker:2", 60, 90),
        *told(view, 0, "10.0.0.9:443", 10, 900),
    ]
    found = Peers(view._replace(parts=parts)).among_ranks([number_of(view, 0)])
    assert (found.sent, found.received) == (pytest.approx(0.4), pytest.approx(0.91))
    assert (found.note, found.what) == ("", texts.STAYED_OR_OTHERS)


def test_peers_without_names_are_not_told_from_ranks(store: Store) -> None:
    view = job_on(store, A, B)
    parts = [*told(view, 0, "worker:1", 30, 10), *told(view, 0, "10.0.0.9:4431", 70, 90)]
    found = Peers(view._replace(parts=parts)).among_ranks([number_of(view, 0)])
    assert (found.sent, found.received, found.note) == (
        pytest.approx(0.3),
        pytest.approx(0.1),
        texts.OTHERS_INCLUDED,
    )


def test_on_one_host_ranks_are_those_of_the_host(store: Store) -> None:
    view = job_on(store, A)
    parts = [*told(view, 0, "worker:1", 30, 20), *told(view, 0, "10.0.0.9:443", 10, 80)]
    found = Peers(view._replace(parts=parts)).among_ranks([number_of(view, 0)])
    assert (found.sent, found.received, found.what) == (pytest.approx(0.25), pytest.approx(0.8), texts.OTHERS)


# -- how ranks lie on nodes -------------------------------------------------------------------------------


def of_world(view: JobView, world: int) -> JobView:
    lives = {who._replace(world=world): life for who, life in view.process_lifetimes.items()}
    return view._replace(process_lifetimes=lives)


def test_mates_are_ranks_of_the_same_collectives_on_the_node(store: Store) -> None:
    view = of_world(job_on(store, A, B), 4)
    found = Peers(view).layout([number_of(view, 0)])
    assert found == Layout(world=4, mates=2, alone=False, by_peer=False, rdma=False)


def test_world_that_nobody_told_is_that_of_the_process_group(store: Store) -> None:
    view = job_on(store, A, B)
    assert Peers(view).layout([number_of(view, 0)])[:2] == (0, 1)
    said = {number: {"setting.world_size": "4"} for number in view.ranks}
    assert Peers(view._replace(facts=said)).layout([number_of(view, 0)])[:2] == (4, 2)


def test_job_of_one_node_is_alone_unless_ranks_are_elsewhere(store: Store) -> None:
    view = job_on(store, A)
    assert [Peers(of_world(view, world)).layout([number_of(view, 0)]).alone for world in (0, 2, 16)] == [
        True,
        True,
        False,
    ]


def test_rdma_is_seen_at_the_ports_of_the_node(store: Store) -> None:
    view = job_on(store, A, B)
    first = next(n for n, machine in view.machines.items() if machine.host == "hosta")

    def port(instance: str, grown: float) -> PartTotal:
        metric = Metric("network", "nic_sent_bytes", 1, "byte", Scope.NODE, Provenance.MEASURED, True, "")
        return PartTotal(NODE_RANK, first, instance, metric, 1.0, grown)

    def seen(*ports: PartTotal) -> list[bool]:
        parts = [*told(view, 0, "worker:2", 60, 90), *told(view, 1, "worker:2", 10, 50), *ports]
        peers = Peers(view._replace(parts=parts))
        return [peers.layout([number_of(view, index)]).rdma for index in (0, 2)]

    assert seen(port("mlx5_0:1", 90), port("mlx5_1:1", 90)) == [True, False]
    assert seen(port("mlx5_0:1", 90)) == seen(port("eth0", 9e9)) == [False, False]
