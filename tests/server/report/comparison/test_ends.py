"""A comparison says which of its jobs failed, or still run."""

from __future__ import annotations

from pathlib import Path

from roofline.answers.comparison import Comparison, SettingChange
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.comparison.comparisons import compare
from roofline_server.report.questions import ALL_STEPS
from roofline_server.sentences import comparisons as texts
from roofline_server.store.store import Store

from ...builders import BEGIN, END, MS, Node, S, batch, marks, open_store, rank

END_NS = 110 * S


def put(store: Store, job: str, status: int | None, steps: int) -> None:
    """A job of one rank on a node of its own; status: None: it was not seen to exit."""
    node = Node(job)
    node.greet(store)
    said = [(0, kind, k, 8, 100 * S + (k + kind) * 20 * MS) for k in range(steps) for kind in (BEGIN, END)]
    exits = [
        pb.Event(
            kind=pb.EVENT_KIND_RANK_EXITED, begin_ns=END_NS, end_ns=END_NS, status=status, step=steps - 1
        )
    ]
    events = exits if status is not None else []
    node.put(store, batch(1, 100 * S, END_NS, ranks=[rank(job)], marks=marks(said), events=events))


def between(store: Store, first: str, second: str) -> Comparison:
    views = [store.view(job) for job in (first, second)]
    assert views[0] is not None and views[1] is not None
    return compare(views[0], views[1], ALL_STEPS, now_ns=END_NS + S)


def test_failed_and_running_jobs_are_named(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "good", 0, 60)
    put(store, "bad", 3, 6)
    put(store, "now", None, 60)
    failed = "failed: worker:0 exited with 3 after step 5"
    found = between(store, "good", "bad")
    assert SettingChange("state", "finished (exit 0)", failed) in found.settings
    assert found.notes[0] == f"job bad: {failed}: its numbers are of 6 steps"
    found = between(store, "good", "now")
    assert SettingChange("state", "finished (exit 0)", "running") in found.settings
    assert found.notes[0] == "job now: still running: the numbers will change"
    assert len([note for note in between(store, "now", "now").notes if "still running" in note]) == 1


def test_state_is_no_setting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "good", 0, 60)
    put(store, "bad", 3, 60)
    put(store, "well", 0, 60)
    found = between(store, "bad", "bad")
    assert found.settings == [] and texts.SAME_SETTINGS in found.notes
    found = between(store, "good", "well")
    assert [one.name for one in found.settings] == ["nodes"]
