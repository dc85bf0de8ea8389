"""Two nodes of one job and their batches, ways to play them to a store, and what a store then holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from roofline.v1 import ingest_pb2 as pb
from roofline_server.store import raw_data
from roofline_server.store.segments.files import Segment
from roofline_server.store.store import Store

from ..builders import UNIX, Node, S, canonical, catalog_of, crash, open_store, rank, steps_of_all, training

JOB = "job"
A, B = Node("a", UNIX), Node("b", UNIX + 77 * S + 123)
WORKERS = [rank(index=0), rank(index=1, pid=101)]
OTHERS = [rank(index=2, pid=200), rank(role="ps", pid=201)]
OF_A, OF_B = (
    training(WORKERS, stepping=(0, 1), bordered=(1,)),
    training(OTHERS, first_ns=23 * S, stepping=(0,)),
)
ALL = [(A, one) for one in OF_A] + [(B, one) for one in OF_B]


def alternating() -> Iterator[tuple[Node, pb.Batch]]:
    for one, other in zip(OF_A, OF_B, strict=True):
        yield A, one
        yield B, other


def greet(store: Store) -> None:
    for node in (A, B):
        node.greet(store)


def steps(store: Store, job: str = JOB) -> dict[str, list[tuple[Any, ...]]]:
    view = store.view(job)
    assert view
    return canonical(view.steps)


def all_at_once(store: Store, sent: list[tuple[Node, pb.Batch]]) -> dict[str, list[tuple[Any, ...]]]:
    return canonical(steps_of_all(store, JOB, sent))


def raw_rows(store: Store, dataset: str = "marks", job: str = JOB) -> int:
    """How many rows of a dataset there are, sealed and not."""
    raw = store.raw(job)
    return raw_data.count(raw, dataset) if raw else 0


def segments(store: Store, dataset: str = "", job: str = JOB) -> list[Segment]:
    """Those of a job, of the datasets whose names begin so."""
    raw = store.raw(job)
    assert raw
    return [segment for segment in raw.segments if segment.dataset.startswith(dataset)]


def stored_through(store: Store, job: str = JOB) -> int:
    """Server time at which the last stored step ends; 0: no step is stored."""
    return max((segment.end_ns for segment in segments(store, "steps", job)), default=0)


def files(root: Path) -> set[str]:
    """All files of segments that lie in a data directory, relative to it."""
    return {str(path.relative_to(root)) for path in (root / "segments").rglob("*") if path.is_file()}


def without_sums(path: Path) -> None:
    """Make a catalog one from before catalogs had checksums, which anybody can write to."""
    with closing(sqlite3.connect(path)) as db, db:
        for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            db.execute(f'drop trigger "{name}"')
        db.execute("drop table checksum")


def known_files(root: Path) -> set[str]:
    """Those that the catalog knows."""
    with catalog_of(root) as catalog:
        return catalog.paths()


def marks_in(sent: list[tuple[Node, pb.Batch]]) -> int:
    return sum(len(one.marks.rank) // 8 for _, one in sent)


QUICK = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example takes too long to make it small
)


def play(root: Path, actions: list[str], check: Callable[[Store, list[tuple[Node, pb.Batch]]], None]) -> None:
    """Commit the nodes' batches in the order of the actions, and then all others; `check` sees the end."""
    store = open_store(root)
    greet(store)
    waiting = {"a": [(A, one) for one in OF_A], "b": [(B, one) for one in OF_B]}
    sent: list[tuple[Node, pb.Batch]] = []
    for action in [*actions, *"ab" * 8]:
        if waiting.get(action):
            node, one = waiting[action].pop(0)
            node.put(store, one)
            sent.append((node, one))
        elif action == "seal":
            store.seal()
        elif action in ("reopen", "crash"):
            if action == "reopen":
                store.close()
            else:
                crash(store)
            store = open_store(root)
            greet(store)
    assert len(sent) == len(ALL)
    check(store, sent)
    store.close()


def whole(store: Store, sent: list[tuple[Node, pb.Batch]]) -> None:
    assert raw_rows(store) == marks_in(sent)
    store.seal()
    assert raw_rows(store) == marks_in(sent)
    assert steps(store) == all_at_once(store, sent)


class Killed(BaseException):
    """Stands for the moment a process is gone."""


def kill_before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, turn: int = 1) -> None:
    real, count = getattr(owner, name), [0]

    def call(*given: Any, **named: Any) -> Any:
        count[0] += 1
        if count[0] >= turn:
            raise Killed
        return real(*given, **named)

    monkeypatch.setattr(owner, name, call)


def kill_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, turn: int = 1) -> None:
    real, count = getattr(owner, name), [0]

    def call(*given: Any, **named: Any) -> Any:
        result = real(*given, **named)
        count[0] += 1
        if count[0] >= turn:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, call)


def filled(root: Path) -> None:
    store = open_store(root)
    greet(store)
    for node, one in ALL:
        node.put(store, one)
    store.close()
