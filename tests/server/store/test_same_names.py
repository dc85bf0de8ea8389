"""Nodes of one name are told apart in views of their job, and agents of one node are not."""

from __future__ import annotations

import pytest
from roofline.answers.report import Report
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import RECORDING
from roofline_server.report.job.build import build
from roofline_server.report.ranks.summaries import summarize_job
from roofline_server.store.store import Store

from ..builders import UNIX, Node, S, batch, rank, training

END_NS = 140 * S + UNIX


def report(store: Store) -> Report:
    view = store.view("job")
    assert view
    return build(view, now_ns=END_NS)


def put(store: Store, node: Node, *sent: pb.Batch) -> None:
    node.greet(store)
    node.put(store, *sent)


def test_nodes_of_one_name_are_told_apart(store: Store) -> None:
    for index in range(3):
        node = Node(f"agent{index}", UNIX, "ubuntu" if index else "head", f"boot{index}")
        put(store, node, *training([rank(index=index, pid=100 + index)]))
    found = report(store)
    assert [one.host for one in found.ranks] == ["head", "ubuntu", "ubuntu#2"]
    assert {roof.host for roof in found.roofs} == {"head", "ubuntu", "ubuntu#2"}
    (note,) = [note for note in found.notes if "are called" in note]
    assert note.startswith("2 nodes are called ubuntu and are shown as ubuntu, ubuntu#2: give each")
    assert summarize_job(store.overview("job"), END_NS).hosts == ["head", "ubuntu", "ubuntu#2"]


def test_node_that_was_started_again_keeps_its_name(store: Store) -> None:
    put(store, Node("a", UNIX, "n", "1"), *training([rank()], batches=2))
    put(store, Node("a", UNIX, "n", "2"), *training([rank(index=1)], batches=2, first_ns=120 * S))
    found = report(store)
    assert {one.host for one in found.ranks} == {"n"}
    assert not [note for note in found.notes if "are called" in note]


def test_recorded_file_is_of_the_node_that_it_names(store: Store) -> None:
    put(store, Node("a", UNIX, "n", "1"), *training([rank()]))
    put(store, Node("a", UNIX, "n", RECORDING), *training([rank(index=1, pid=101)]))
    assert {one.host for one in report(store).ranks} == {"n"}
    assert summarize_job(store.overview("job"), END_NS).hosts == ["n"]


def test_containers_of_a_machine_share_its_roof(store: Store) -> None:
    """Those of one name: what they compute on is one machine."""
    for index in range(2):
        put(store, Node(f"agent{index}", UNIX, "n"), *training([rank(index=index, pid=100 + index)]))
    assert {one.host for one in report(store).ranks} == {"n"}


@pytest.mark.parametrize(("pod", "where"), [("n", "n"), ("pod", "one node (n, pod)")])
def test_process_that_two_agents_report_is_one(store: Store, pod: str, where: str) -> None:
    """The administrator's sees it in /proc, the user's own has its marks and how it ended."""
    ranks = [rank(start_ns=5), rank(index=1, pid=101, start_ns=6)]
    admins, users = Node("admins", UNIX, pod), Node("users", UNIX, "n")
    put(store, admins, *training(ranks, stepping=()))
    exits = [
        pb.Event(
            kind=pb.EVENT_KIND_RANK_EXITED, rank=at, begin_ns=140 * S, end_ns=140 * S, text="status=0 step=56"
        )
        for at in range(2)
    ]
    put(
        store,
        users,
        *training(ranks, stepping=(0, 1)),
        batch(99, 140 * S, 141 * S, ranks=ranks, events=exits),
    )
    found = report(store)
    assert not [note for note in found.notes if "claim to be" in note or "are called" in note]
    assert any(
        note.startswith(f"two agents run on {where} and report the same processes") for note in found.notes
    )
    view = store.view("job")
    assert view
    (node,) = {who.node for who in view.process_lifetimes}
    assert node == users.number(store) and all(life.exited for life in view.process_lifetimes.values())
