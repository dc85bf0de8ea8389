"""From when to when a process was seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import DecodedBatch, Ending, Incarnation, Lifetime
from roofline_server.store.catalog.process_lifetimes import ProcessLifetimes

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


RANKS_OF_NODE = {1: (0, 1, 2), 2: (2, 3), 3: (4,)}


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 7), st.integers(0, 7), st.integers(0, 2)))
)
def test_lifetimes_of_some_ranks_are_those_among_all(sent: list[tuple[int, int, int, int]]) -> None:
    """A batch: its node, which of the node's ranks are in it and which end in it, and their pid."""
    known = {who(9, 1, 5): Lifetime(1, 2, True), who(2, 1, 5): Lifetime(1, 2, True)}
    processes = ProcessLifetimes(dict(known), [9, 2, 77])
    for moment, (node, there, ends, pid) in enumerate(sent, start=3):
        ranks = RANKS_OF_NODE[node]
        present = [who(rank, node, pid) for at, rank in enumerate(ranks) if there >> at & 1]
        exited = {who(rank, node, pid): Ending() for at, rank in enumerate(ranks) if ends >> at & 1}
        processes.add(node, DecodedBatch(moment, moment, moment + 1, [], present, exited, ranks))
        everything = processes.now()
        for some in ([], [2], [0, 2, 9], [77, 3], range(100)):
            expected = {one: life for one, life in everything.items() if one.rank in some}
            assert processes.of(some) == expected
            assert sorted(processes.members(some)) == sorted(expected)
    assert processes.has_rank(77) and processes.has_rank(9) and not processes.has_rank(78)


def who(rank: int, node: int, pid: int) -> Incarnation:
    return Incarnation(rank, node, pid, pid, "", 1, "")


def test_question_about_a_job_reads_nothing_of_the_others() -> None:
    class Counted(dict[Incarnation, Lifetime]):
        read = 0

        def __getitem__(self, key: Incarnation) -> Lifetime:
            Counted.read += 1
            return super().__getitem__(key)

        def __iter__(self) -> Iterator[Incarnation]:
            raise AssertionError("all of them are read")

        def items(self) -> Any:
            raise AssertionError("all of them are read")

        keys = values = copy = items

    processes = ProcessLifetimes({who(rank, 1, rank): Lifetime(1, 2, True) for rank in range(1000)}, [])
    processes._lifetimes = Counted(processes._lifetimes)
    assert len(processes.of(range(10, 20))) == len(processes.members(range(10, 20))) == 10
    assert Counted.read == 10
