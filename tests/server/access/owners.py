"""Jobs of several owners."""

from __future__ import annotations

from pathlib import Path

from roofline.v1 import ingest_pb2

from ..builders import UNIX, Node, crash, open_store, rank, training

NODE = Node("a", UNIX, "host1")
HIS, ABSENT = "secret", "absent"  # of one length, so that a text about either is as long
EXPERIMENT = "plan"


def fill(root: Path) -> None:
    """Jobs of alice, of bob, of both, and of an agent that is too old to say whose: all on one host."""
    store = open_store(root)
    NODE.greet(store)
    owners = (("hers", ("alice",)), (HIS, ("bob",)), ("shared", ("alice", "bob")), ("old", ("",)))
    for number, (job, users) in enumerate(owners):
        ranks = [rank(job, index=at, pid=100 * number + at, user=user) for at, user in enumerate(users)]
        sent = training(ranks, first_sequence=1 + 8 * number, stepping=range(len(users)))
        tag = ingest_pb2.Event(kind=8, rank=0, begin_ns=sent[0].begin_ns, end_ns=sent[0].begin_ns)
        tag.text = f"tag.experiment={EXPERIMENT}"
        sent[0].events.append(tag)
        NODE.put(store, *sent)
        if job == HIS:
            store.seal()  # of some jobs the owners are in the catalog, of others in the inbox alone
    crash(store)
