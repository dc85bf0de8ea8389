"""From when to when a process was seen."""

from __future__ import annotations

from pathlib import Path

from roofline.v1 import ingest_pb2 as pb

from ...builders import MS, Node, S, batch, marks, open_store, rank

RANKS = [rank()]


def sent(sequence: int, **more: object) -> pb.AgentMessage:
    return batch(sequence, sequence * S, (sequence + 1) * S, ranks=RANKS, **more)


def test_process_that_ends_was_there_until_then(tmp_path: Path) -> None:
    store, node = open_store(tmp_path), Node("a")
    node.greet(store)
    for sequence in range(10, 20):
        node.put(store, sent(sequence, marks=marks([(0, 3, sequence, 8, sequence * S + MS)])))
    ended = pb.Event(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=21 * S, end_ns=21 * S)
    node.put(store, sent(20, events=[ended]))
    view = store.view("job")
    assert view is not None
    (life,) = view.process_lifetimes.values()
    assert life.exited and life.last_ns - life.first_ns >= 10 * S
