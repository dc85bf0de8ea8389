"""Notes of what was recorded less while the server was busy."""

from __future__ import annotations

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.store.store import Store

from ...builders import UNIX, Node, rank, training


def notes(store: Store, kernels: str, *texts: str) -> list[str]:
    """Of a job of four batches, in the second and third of which the node said these."""
    node, sent = Node("a", UNIX, "hosta"), training([rank()], batches=4)
    node.greet(store)
    for one in sent[1:3]:
        for text in texts:
            one.events.append(
                pb.Event(
                    kind=pb.EVENT_KIND_FACT, rank=-1, begin_ns=one.begin_ns, end_ns=one.end_ns, text=text
                )
            )
    if kernels:
        sent[0].events.append(
            pb.Event(kind=pb.EVENT_KIND_FACT, begin_ns=1, end_ns=2, text=f"cost.kernels={kernels}")
        )
    node.put(store, *sent)
    view = store.view("job")
    assert view
    return [note for note in build(view).notes if note.startswith("hosta ")]


BUSY = ("sampling.slowed=4 s: the server was busy", "kernels.fewer=4: the server was busy")


def test_fewer_kernels_are_a_note_with_their_time(store: Store) -> None:
    fewer, slower = notes(store, "1/256", *BUSY)
    assert fewer.startswith("hosta recorded kernels in 4 times fewer steps from ")
    assert slower.startswith("hosta sampled every 4 s from ")
    assert fewer.endswith(": the server was busy") and slower.endswith(": the server was busy")
    assert fewer.partition(" from ")[2] == slower.partition(" from ")[2]


def test_longer_batches_are_a_note_with_their_time(store: Store) -> None:
    (held,) = notes(store, "", "batches.held=4 s: the server was busy")
    assert held.startswith("hosta sent its data only every 4 s from ")
    assert held.endswith(": the server was busy")


@pytest.mark.parametrize("kernels", ["", "none"])
def test_job_that_samples_no_kernels_has_no_note_of_fewer(store: Store, kernels: str) -> None:
    (slower,) = notes(store, kernels, *BUSY)
    assert slower.startswith("hosta sampled every 4 s")
