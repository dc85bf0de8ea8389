"""New batches of a node before old ones: in the end all is as if they had come in order.

An agent that comes back sends its backlog in order, and next to it, in order too, what it makes from then on
(agent/roofline_agent/uplink/exporter.py). No process ends in a backlog that is overtaken: it may begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import Lifetime
from roofline_server.store.store import Store

from ..builders import (
    BEGIN,
    CUMULATIVE,
    END,
    UNIX,
    Node,
    S,
    canonical,
    counter_set,
    crash,
    marks,
    open_store,
    packed,
    rank,
    training,
)
from .histories import JOB, QUICK, B, raw_rows, stored_through

A = Node("a", UNIX)
FIRST, LATER, LONG = (rank(index=index, pid=100 + index) for index in range(3))
SENT = (("net_sent_bytes", CUMULATIVE, False),)
BATCHES, JOINS = 16, 5  # LATER is there from this batch on
EVERY = 3 * S  # holes between samples of more would need more than the margin around step deltas


def history() -> list[pb.Batch]:
    """Two ranks that step, one of which comes later; one whose steps last for three batches; what two
    interfaces of the node counted; facts that change; batches with marks of long steps alone; the end."""
    made = training([FIRST, LONG, LATER], BATCHES, EVERY, stepping=(0, 2))
    for number, one in enumerate(made):
        _add_interfaces(one)
        if number % 4 == 2:
            one = made[number] = pb.Batch(
                sequence=one.sequence,
                begin_ns=one.begin_ns,
                end_ns=one.end_ns,
                ranks=one.ranks,
                marks=marks([], likes={-1: 0}),
            )
        kind = (BEGIN, None, END)[number % 3]
        if kind is not None:
            long = marks([(1, kind, number // 3, 1, one.begin_ns + S)], likes={-1: 0})
            for field, column in long.ListFields():
                setattr(one.marks, field.name, getattr(one.marks, field.name) + column)
        if number % 4 != 2:
            one.events.add(kind=8, rank=0, begin_ns=one.end_ns, end_ns=one.end_ns, text=f"epoch={number}")
        if number < JOINS:
            _without(one, 2)
    for at in range(3):
        made[-1].events.add(kind=3, rank=at, begin_ns=1, end_ns=made[-1].end_ns, status=at, step=9)
    return made


def _add_interfaces(one: pb.Batch) -> None:
    times = [t for t in range(one.begin_ns, one.end_ns, S) for _ in range(2)]
    one.counter_sets.append(counter_set("net", SENT))
    one.instances.extend(("eth0", "eth1"))
    one.samples.append(
        pb.Samples(
            counter_set=len(one.counter_sets) - 1,
            rank=packed([-1] * len(times)),
            time_ns=packed(times),
            columns=[packed((t - 90 * S) // 1000 * (1 + i % 2) for i, t in enumerate(times))],
            instance=packed(i % 2 for i in range(len(times))),
        )
    )


def _without(one: pb.Batch, at: int) -> None:
    """Take the last rank of a batch out of it."""
    del one.ranks[at]
    kept = [event for event in one.events if event.rank != at]
    del one.events[:]
    one.events.extend(kept)
    for block in [*one.samples, one.marks, one.calls]:
        keep = np.frombuffer(block.rank, np.int64) != at
        for field, value in block.ListFields():
            if field.name in ("columns", "phases", "counter_set"):
                continue
            setattr(block, field.name, np.frombuffer(value, np.int64)[keep].tobytes())
        if block.DESCRIPTOR.name == "Samples":
            columns = [np.frombuffer(column, np.int64)[keep].tobytes() for column in block.columns]
            del block.columns[:]
            block.columns.extend(columns)


OF_A = history()
OF_B = training([rank(index=3, pid=200), rank(role="ps", pid=201)], BATCHES, EVERY, first_ns=23 * S)


def seen(store: Store) -> dict[str, Any]:
    """All that a store says of the job, without the ids that it gave."""
    view = store.view(JOB)
    assert view
    names = {number: f"{key.role} {key.index}" for number, key in view.ranks.items()}
    tables = {}
    for name, table in view.steps.items():
        named = {c: v for c, v in table.items() if c not in ("rank", "window")}
        named |= {c: np.array([names.get(r, "") for r in table[c].tolist()]) for c in ("rank", "window")}
        tables[name] = named
    return {
        "steps": canonical(tables),
        "parts": sorted(
            (part.node, part.instance, part.grown, part.samples, part.seconds) for part in view.parts
        ),
        "lifetimes": sorted((names[who.rank], *_known(life)) for who, life in view.process_lifetimes.items()),
        "facts": {names[number]: facts for number, facts in view.facts.items() if number in names},
        "rows": {name: raw_rows(store, name) for name in ("marks", "calls", "events", "samples_net")},
        "jobs": store.jobs(),
    }


def _known(life: Lifetime) -> Lifetime:
    """A process of which the end is the first that is heard was there for the whole of that batch, or not:
    its reported end counts."""
    return life._replace(last_ns=max(life.last_ns, life.ending.time_ns or 0))


def play(root: Path, ways: Sequence[str], first: int, live: int) -> dict[str, Any]:
    """Node A sends `first` batches, and when it is back the others: from `live` on its new ones. ways: who is
    next of A's backlog ("old"), its new batches ("new"), the other node ("b"); or what the server does."""
    store = open_store(root)
    for node in (A, B):
        node.greet(store)
    A.put(store, *OF_A[:first])
    waiting = {"old": (A, OF_A[first:live]), "new": (A, OF_A[live:]), "b": (B, list(OF_B))}
    waiting = {name: (node, list(some)) for name, (node, some) in waiting.items()}
    for way in _to_the_end(ways):
        if way == "seal":
            store.seal()
        elif way == "view":
            store.view(JOB)
        elif way == "crash":
            crash(store)
            store = open_store(root)
        elif waiting[way][1]:
            node, some = waiting[way]
            node.put(store, some.pop(0))
    before = seen(store)
    store.seal()
    assert seen(store) == before
    store.close()
    return before


def _to_the_end(ways: Iterable[str]) -> Iterator[str]:
    yield from ways
    for _ in range(BATCHES):
        yield from ("new", "b", "old")


class Known(dict[str, Any]):
    """What is known of a job; Hypothesis shows arguments, and this would fill screens."""

    def __repr__(self) -> str:
        return "what there is when all came in order"


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What there is when all came in order."""
    ways = ["old", "b"] * BATCHES
    return Known(play(tmp_path_factory.mktemp("order"), [*ways, "seal"], 1, BATCHES))


WAYS = ("old", "new", "b", "seal", "view", "crash")


@QUICK
@given(
    ways=st.lists(st.sampled_from(WAYS), min_size=6, max_size=30),
    first=st.integers(1, 6),
    behind=st.integers(1, BATCHES),
)
def test_new_batches_before_old_ones_give_the_same_in_the_end(
    tmp_path_factory: pytest.TempPathFactory,
    in_order: dict[str, Any],
    ways: list[str],
    first: int,
    behind: int,
) -> None:
    assert play(tmp_path_factory.mktemp("data"), ways, first, min(first + behind, BATCHES - 1)) == in_order


@pytest.mark.parametrize("between", [["seal"], ["view", "seal"], ["seal", "crash"]])
def test_backlog_that_comes_behind_what_is_sealed(
    tmp_path: Path, in_order: dict[str, Any], between: list[str]
) -> None:
    ways = []
    for _ in range(BATCHES):
        ways += ["b", "new", *between, "old", *between]
    assert play(tmp_path, ways, 2, 6) == in_order


@pytest.mark.parametrize("each", [1, 2, 3])
def test_backlog_and_new_batches_that_are_sealed_together(
    tmp_path: Path, in_order: dict[str, Any], each: int
) -> None:
    """What parts of a node counted is summed up at each sealing, over what it seals."""
    ways = ["b"] * 4
    for _ in range(BATCHES):
        ways += ["new", "old"] * each + ["b", "seal"]
    assert play(tmp_path, ways, 2, 6) == in_order


def test_begin_of_a_step_that_comes_alone_and_last(tmp_path: Path, in_order: dict[str, Any]) -> None:
    """Batch 6 holds nothing else; the end of the step and what follows have been sealed long before."""
    ways = ["new", "b"] * BATCHES + ["seal", "old"]
    assert not OF_A[6].calls.rank and not OF_A[6].samples
    assert play(tmp_path, ways, 6, 7) == in_order


def test_step_deltas_wait_for_what_is_missing(store: Store) -> None:
    node = A.greet(store)
    store.expect(node, OF_A[4].begin_ns, OF_A[9].begin_ns)
    A.put(store, *OF_A[:4], *OF_A[9:])
    store.seal()
    assert 0 < stored_through(store) <= OF_A[4].begin_ns + A.offset_ns
    for one in OF_A[4:9]:
        A.put(store, one)
    store.seal()
    assert stored_through(store) > OF_A[9].begin_ns + A.offset_ns


def test_drops_in_a_backlog_hold_up_nothing_once_it_is_over(store: Store) -> None:
    node = A.greet(store)
    store.expect(node, OF_A[4].begin_ns, OF_A[9].begin_ns)
    A.put(store, *OF_A[:4], *OF_A[9:], OF_A[6])
    store.expect(node, 0, 0)
    store.seal()
    assert stored_through(store) > OF_A[9].begin_ns + A.offset_ns


def test_late_batch_neither_ends_a_process_nor_has_it_live_on(store: Store) -> None:
    """Else a process that starts now would be of the run of one that has ended, or the other way about."""
    A.greet(store)
    early = [rank(index=index, pid=1 + index, start_ns=(100 + index) * S) for index in (0, 1)]
    joins, late = rank(index=2, pid=3, start_ns=120 * S), rank(index=0, pid=4, start_ns=150 * S)

    def put(sequence: int, at: int, *ranks: pb.Rank, exits: int = 0) -> None:
        begin_ns, end_ns = at * S, at * S + S
        one = pb.Batch(sequence=sequence, begin_ns=begin_ns, end_ns=end_ns, ranks=ranks)
        for rank_at in range(exits):
            one.events.add(kind=3, rank=rank_at, begin_ns=end_ns, end_ns=end_ns)
        A.put(store, one)

    put(1, 100, early[0])
    put(2, 102, *early)
    assert store.run_called(JOB) == JOB
    put(5, 140, *early, joins, exits=3)
    put(3, 110, *early)
    put(4, 121, *early, joins)
    put(6, 151, late)
    assert store.jobs() == {JOB, f"{JOB}/2"}
    lives = {who.pid: life for who, life in store.overview(JOB).process_lifetimes.items()}
    assert [lives[pid].first_ns for pid in (1, 2, 3)] == [100 * S, 102 * S, 121 * S]
    assert lives[1].exited and lives[1].last_ns <= 141 * S
