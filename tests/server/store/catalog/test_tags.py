from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.ingest.service import decode_entry
from roofline_server.report.job.build import build
from roofline_server.store.catalog.tags import MAX_TAGS, MAX_VALUES
from roofline_server.store.store import Store

from ...builders import UNIX, Node, S, batch, catalog_of, crash, open_store, rank

A, B = Node("a", UNIX), Node("b", UNIX + 77 * S)
SEQUENCE = itertools.count(1)


def say(
    store: Store,
    *texts: str,
    job: str = "job",
    index: int = 0,
    at_s: int = 10,
    node: Node = A,
    late_s: int = 0,
) -> pb.Batch:
    """A rank says these facts, which come so much later."""
    at_ns = at_s * S + UNIX - node.offset_ns
    event = {"kind": pb.EVENT_KIND_FACT, "rank": 0, "begin_ns": at_ns, "end_ns": at_ns}
    sent = batch(
        next(SEQUENCE),
        at_ns - S,
        at_ns + S,
        ranks=[rank(job, index=index, pid=100 + index)],
        events=[pb.Event(text=text, **event) for text in texts],
    )
    entry = node.entry(store, sent)
    entry = entry._replace(received_ns=entry.received_ns + late_s * S)
    store.commit([(entry, decode_entry(entry, store.name_ids))])
    return sent


def test_tags_of_a_job(store: Store) -> None:
    say(store, "tag.nodes=4", "tag.experiment=scaling", "setting.OMP_NUM_THREADS=2", "tag.note=a=b, c")
    assert store.tags("job") == {"experiment": "scaling", "nodes": "4", "note": "a=b, c"}
    assert store.tags("another") == {}


def test_jobs_of_an_experiment(store: Store) -> None:
    for job, name in (("2", "scaling"), ("10", "scaling"), ("3", "batches"), ("4", "")):
        say(store, f"tag.experiment={name}", job=job)
    assert store.jobs_tagged("experiment", "scaling") == ["10", "2"]
    assert store.jobs_tagged("experiment", "none") == store.jobs_tagged("nodes", "scaling") == []


@pytest.mark.parametrize("sealed", [False, True])
def test_tags_survive_a_kill(tmp_path: Path, sealed: bool) -> None:
    store = open_store(tmp_path / "data")
    say(store, "tag.nodes=4", "tag.experiment=scaling")
    if sealed:
        store.seal()
        say(store, "tag.batch=32", at_s=12)
    crash(store)
    for _ in range(2):
        again = open_store(tmp_path / "data")
        assert again.jobs_tagged("experiment", "scaling") == ["job"]
        assert again.tags("job") == {"experiment": "scaling", "nodes": "4"} | (
            {"batch": "32"} if sealed else {}
        )
        again.close()


def test_tag_reported_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    sent = say(store, "tag.nodes=4")
    A.put(store, sent)
    store.seal()
    say(store, "tag.nodes=4", index=1, at_s=13)
    assert store.tags("job") == {"nodes": "4"}
    store.seal()
    with catalog_of(tmp_path / "data") as catalog:
        assert [row[:3] for row in catalog.tags()] == [("job", "nodes", "4")]


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_was_said_last_holds_and_a_note_says_so(store: Store, newest_first: bool) -> None:
    for node in (A, B):
        node.greet(store)
    said = [("tag.nodes=8", 0, 110, A), ("tag.nodes=4", 1, 112, B)]
    for text, index, at_s, node in reversed(said) if newest_first else said:
        say(store, text, index=index, at_s=at_s, node=node)
    assert store.tags("job") == {"nodes": "4"}
    assert store.jobs_tagged("nodes", "4") == ["job"]
    assert store.jobs_tagged("nodes", "8") == []
    view = store.view("job")
    assert view
    report = build(view)
    assert report.tags == {"nodes": "4"}
    assert "tag nodes differs: '8' (worker:0), '4' (worker:1); '4', given last, is used" in report.notes
    assert not [fact for fact in report.facts if fact.name.startswith("tag.")]


def test_what_comes_late_is_as_old_as_it_is(store: Store) -> None:
    """The agent was cut off and sends what lies in its spool."""
    for node in (A, B):
        node.greet(store)
    say(store, "tag.nodes=4", at_s=112)
    say(store, "tag.nodes=8", index=1, at_s=110, node=B, late_s=90)
    assert store.tags("job") == {"nodes": "4"}


@pytest.mark.parametrize(
    "text",
    ["tag.Nodes=4", "tag.=4", "tag.nodes=", "tag.nodes", "tag.nodes=a\nb", "tag.n=" + "x" * 257, "nodes=4"],
)
def test_what_is_no_tag(store: Store, text: str) -> None:
    say(store, text)
    assert store.tags("job") == {}


def test_ranks_cannot_fill_the_catalog(store: Store, tmp_path: Path) -> None:
    say(store, *(f"tag.t{n}=1" for n in range(2 * MAX_TAGS)))
    say(store, *(f"tag.t0=v{n}" for n in range(2 * MAX_VALUES)), job="other")
    store.seal()
    assert len(store.tags("job")) == MAX_TAGS
    with catalog_of(tmp_path / "data") as catalog:
        assert len(catalog.tags()) == MAX_TAGS + MAX_VALUES
