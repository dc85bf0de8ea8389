"""What is in no step of a rank, in the short notes of a report."""

from __future__ import annotations

from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.notes import losses
from roofline_server.store.store import Store

from ...builders import UNIX, Node, S, batch, rank, training

NODE = Node("a", UNIX, "hosta")


def test_updates_that_hooks_left_out_are_said(store: Store) -> None:
    NODE.greet(store)
    ranks = [rank()]
    fact = pb.Event(
        kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=139 * S, end_ns=139 * S, text="steps.left_out=40"
    )
    NODE.put(store, *training(ranks), batch(99, 139 * S, 140 * S, ranks=ranks, events=[fact]))
    view = store.view("job")
    assert view
    assert [note for note in losses(view, []) if "at least 40 optimizer updates of worker:0" in note]
