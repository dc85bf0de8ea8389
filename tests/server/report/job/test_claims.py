"""Processes that several say they are one rank, or that turned out to be another, in a report."""

from __future__ import annotations

from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.report.questions import Steps
from roofline_server.store.store import Store

from ...builders import UNIX, Node, S, batch, rank, training

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX, "hostb")
END_NS = 140 * S + UNIX


def fact(at: int, text: str) -> pb.Event:
    return pb.Event(kind=pb.EVENT_KIND_FACT, rank=at, begin_ns=139 * S, end_ns=139 * S, text=text)


def notes(store: Store) -> list[str]:
    view = store.view("job")
    assert view
    return build(view, Steps(), END_NS).notes


def test_two_processes_of_a_node_are_named(store: Store) -> None:
    A.greet(store)
    ranks = [rank(), rank(index=1, pid=101)]
    told = batch(
        99, 139 * S, 140 * S, ranks=ranks, events=[fact(0, "rank.claimed=pid 100; pid 101, here worker:1")]
    )
    A.put(store, *training(ranks, stepping=(0, 1)), told)
    (note,) = [note for note in notes(store) if "claim to be" in note]
    assert note.startswith("several processes of hosta claim to be worker:0 at the same time (pid 100; ")
    assert "--job" in note and "--rank" in note


def test_processes_on_two_nodes_are_named(store: Store) -> None:
    for node, pid in ((A, 100), (B, 200)):
        node.greet(store)
        node.put(store, *training([rank(pid=pid, start_ns=pid)]))
    (note,) = [note for note in notes(store) if "claim to be" in note]
    assert "(pid 100 on hosta, pid 200 on hostb)" in note


def test_rank_that_moves_to_another_node_is_one(store: Store) -> None:
    A.greet(store)
    A.put(store, *training([rank(pid=100)], batches=2))
    B.greet(store)
    B.put(store, *training([rank(pid=200, start_ns=200)], batches=2, first_ns=130 * S))
    assert not [note for note in notes(store) if "claim to be" in note]


def test_process_that_turned_out_to_be_another_rank_is_of_that_alone(store: Store) -> None:
    """It was taken for worker:0, which nobody is, and for worker:1, which it shares with nobody either."""
    A.greet(store)
    before, after = rank(), rank(index=1)
    A.put(store, batch(1, 98 * S, 100 * S, ranks=[before], events=[fact(0, "rank.left=it is another rank")]))
    A.put(store, *training([after], first_sequence=2))
    view = store.view("job")
    assert view
    assert [key.index for key in view.ranks.values()] == [1]
    assert {who.rank for who in view.process_lifetimes} == set(view.ranks)
    listed = store.overview("job")
    assert (listed.ranks, listed.process_lifetimes) == (view.ranks, view.process_lifetimes)
    assert not [note for note in notes(store) if "started again" in note]


def test_process_that_is_the_rank_again_is_one(store: Store) -> None:
    """It was not while only what it had started marked steps."""
    A.greet(store)
    left = fact(0, "rank.left=it has started ranks")
    again = pb.Event(kind=pb.EVENT_KIND_RANK_STARTED, rank=0, begin_ns=140 * S, end_ns=140 * S)
    A.put(store, *training([rank()]))
    A.put(store, batch(99, 139 * S, 141 * S, ranks=[rank()], events=[again, left]))
    view = store.view("job")
    assert view
    assert [who.pid for who in view.process_lifetimes] == [100]


def test_rank_with_steps_stays_though_a_process_has_left_it(store: Store) -> None:
    A.greet(store)
    ranks = [rank(), rank(pid=101, start_ns=6)]
    A.put(store, *training(ranks))
    A.put(store, batch(99, 139 * S, 140 * S, ranks=ranks, events=[fact(1, "rank.left=it is another rank")]))
    view = store.view("job")
    assert view
    assert [who.pid for who in view.process_lifetimes] == [100]
    assert not [note for note in notes(store) if "started again" in note]
