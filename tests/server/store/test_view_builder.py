"""What of the files is read for a view: what a question costs follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import NODE_JOB, ClockSample, rows
from roofline_server.store.segments.files import STEPS, Segment
from roofline_server.store.segments.reader import Reader
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ..builders import UNIX, Node, S, batch, canonical, rank, training

LATER_NS = 5_000 * S
Read = list[Segment]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """The files that are read, as they are."""
    found: Read = []
    whole = Reader._of

    def noted(reader: Reader, segment: Segment, *columns: Any) -> Any:
        found.append(segment)
        return whole(reader, segment, *columns)

    monkeypatch.setattr(Reader, "_of", noted)
    return found


def steps_in(read: Read) -> list[str]:
    return [one.dataset for one in read if one.dataset.startswith(STEPS)]


def trained(store: Store, node: Node, sent: Sequence[pb.Batch]) -> None:
    """These batches, sealed and followed by ones of long after: all steps are stored."""
    node.put(store, *sent)
    last = sent[-1].sequence
    node.put(store, batch(last + 1, LATER_NS + 900 * S, LATER_NS + 901 * S))
    store.seal()


def test_of_nodes_only_events_from_the_time_of_the_job_are_read(store: Store, read: Read) -> None:
    node, other = Node("a", UNIX), Node("b", UNIX)
    for one in (node, other):
        one.greet(store)
        one.put(store, *(batch(n, n * S, (n + 1) * S) for n in range(1, 9)))
        store.seal()
    sent = training([rank()], first_ns=LATER_NS, first_sequence=20)
    node.put(store, *sent)
    store.seal()
    view = store.view("job")
    assert view is not None
    near = [one for one in read if one.job == NODE_JOB]
    assert len(near) == 1 and near[0].rows == len(sent)
    assert list(view.watched) == [node.number(store)] and rows(view.watched[node.number(store)]) == len(sent)


def test_events_of_other_nodes_are_not_those_of_the_job(store: Store) -> None:
    node, other = Node("a", UNIX), Node("b", UNIX)
    other.greet(store)
    number = node.greet(store)
    sent = training([rank()], batches=4)
    for at, one in enumerate(sent):
        node.put(store, one)
        other.put(store, batch(at + 1, one.begin_ns, one.end_ns))
    view = store.view("job")
    assert view is not None and set(view.watched) == {number}
    assert view.watched[number]["node"].tolist() == [number] * len(sent)


def test_steps_of_a_job_are_read_once_for_several_questions(store: Store, read: Read) -> None:
    node = Node("a", UNIX)
    node.greet(store)
    trained(store, node, training([rank(), rank(index=1, pid=101)], stepping=(0, 1)))
    first = store.view("job", {"steps": [], "steps_process": None})
    before = steps_in(read)
    second, whole = store.view("job", {"steps": []}), store.view("job")
    assert first is not None and second is not None and whole is not None
    assert sorted(before) == ["steps", "steps_process"]
    again = steps_in(read)[len(before) :]
    assert "steps_process" not in again, "all of its columns were read before"
    assert canonical(second.steps)["steps"] == canonical(first.steps)["steps"]
    assert canonical(whole.steps)["steps_process"] == canonical(first.steps)["steps_process"]
    del read[:]
    assert store.view("job") is not None and steps_in(read) == []
    store.forget()
    assert store.view("job") is not None and steps_in(read) == [], "it was asked for a moment ago"


def test_stored_steps_are_read_also_where_unix_time_is_behind_the_servers(
    store: Store, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node("a", UNIX)
    node.greet(store)
    trained(store, node, training([rank()]))
    monkeypatch.setattr(time, "time_ns", lambda: UNIX)
    assert store.view("job", {"steps": []}) is not None
    assert steps_in(read) == ["steps"]


def test_what_has_come_since_is_seen_at_once(store: Store) -> None:
    node = Node("a", UNIX)
    node.greet(store)
    sent = training([rank()])
    counts = []
    for one in sent:
        node.put(store, one)
        view = store.view("job", {"steps": []})
        counts.append(rows(view.steps["steps"]) if view is not None and "steps" in view.steps else 0)
    assert counts == sorted(set(counts)), "more with each batch"
    store.seal()
    view = store.view("job", {"steps": []})
    assert view is not None and rows(view.steps["steps"]) == counts[-1]


def test_a_clock_that_is_known_better_counts_at_once(store: Store) -> None:
    node = Node("a", UNIX)
    number = node.greet(store, 100_000_000)
    node.put(store, *training([rank()]))
    before = store.view("job", {"steps": []})
    store.add_clock_sample(number, ClockSample(139 * S, UNIX + 30_000_000, 1_000))
    after = store.view("job", {"steps": []})
    assert before is not None and after is not None
    assert (after.steps["steps"]["end_ns"] > before.steps["steps"]["end_ns"] + 10_000_000).any()


def test_a_view_is_another_one_as_soon_as_anything_changes(store: Store) -> None:
    node = Node("a", UNIX)
    number = node.greet(store)
    *sent, last = training([rank()])
    node.put(store, *sent)

    def view() -> JobView:
        found = store.view("job", {"steps": []})
        assert found is not None
        return found

    changes: list[Callable[[], object]] = [
        lambda: node.put(store, last),
        lambda: store.seal(),
        lambda: store.add_clock_sample(number, ClockSample(139 * S, UNIX + 30_000_000, 1_000)),
    ]
    for change in changes:
        before = view()
        before.answers["asked"] = 1
        assert view() is before, "nothing has changed"
        change()
        assert view() is not before and not view().answers


def test_a_view_of_other_columns_is_another_one(store: Store) -> None:
    node = Node("a", UNIX)
    node.greet(store)
    node.put(store, *training([rank()]))
    some, more = store.view("job", {"steps": []}), store.view("job", {"steps": ["examples"]})
    assert some is not None and more is not None and some is not more
    assert "examples" not in some.steps["steps"] and "examples" in more.steps["steps"]
    assert store.view("job", {"steps": ["examples"]}) is more
