"""What sealed step deltas must not depend on: when data come, and when they are sealed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch
from roofline_server.records import ABSENT, RECORDING, ClockSample, NodeKey
from roofline_server.store.segments.reader import Reader
from roofline_server.store.store import Store

from ..builders import (
    BEGIN,
    END,
    GAUGE,
    MS,
    UNIX,
    Node,
    S,
    batch,
    counter_set,
    crash,
    machine,
    marks,
    open_store,
    packed,
    rank,
    samples,
    spans,
    training,
)
from .histories import JOB, OF_A, WORKERS, A, B, all_at_once, greet, segments, steps


@pytest.mark.parametrize("shift_ns", [-700 * MS, 700 * MS])
def test_exchange_that_corrects_the_clock_loses_and_doubles_no_step(store: Store, shift_ns: int) -> None:
    A.greet(store, rtt_ns=int(1.8 * S))
    A.put(store, *OF_A)
    store.seal()
    assert segments(store, "steps")
    store.add_clock_sample(A.number(store), ClockSample(1, UNIX + shift_ns, 1000))
    view = store.view(JOB)
    assert view
    found = view.steps["steps"]
    each = list(zip(found["rank"].tolist(), found["step"].tolist(), strict=True))
    assert len(each) == len(set(each))
    assert len(each) == 2 * 57


@pytest.mark.parametrize("arrives_after_ns", [MS, 60 * S, 10**17])
def test_first_exchange_after_a_sealing_loses_and_doubles_no_step(
    store: Store, arrives_after_ns: int
) -> None:
    late = Node(A.agent, UNIX + arrives_after_ns, A.host)
    late.put(store, *OF_A)
    store.seal()
    assert not segments(store, "steps"), "nothing that depends on a clock that nobody measured is for good"
    A.greet(store)
    expected = all_at_once(store, [(A, one) for one in OF_A])
    assert steps(store) == expected
    A.put(store, batch(len(OF_A) + 1, 200 * S, 220 * S, ranks=WORKERS))
    store.seal()
    assert segments(store, "steps")
    assert steps(store) == expected


def test_steps_of_a_recorded_file_are_stored_without_an_exchange(store: Store) -> None:
    class File(Node):
        def number(self, store: Store) -> int:
            return store.hello(NodeKey(self.agent, RECORDING), machine(self.host))

    file, sent = File("file", offset_ns=0), training(WORKERS, stepping=(0, 1), first_ns=UNIX)
    file.put(store, *sent)
    store.seal()
    assert segments(store, "steps")
    assert steps(store) == all_at_once(store, [(file, one) for one in sent])


def sealed_one_by_one(store: Store, sent: list[pb.Batch]) -> None:
    A.greet(store)
    for one in sent:
        A.put(store, one)
        store.seal()
    assert steps(store) == all_at_once(store, [(A, one) for one in sent])


def test_sealing_after_every_batch_changes_nothing(store: Store) -> None:
    sealed_one_by_one(store, OF_A)


def marks_only(per_batch: list[list[tuple[int, int, int, int, int]]], ranks: list[pb.Rank]) -> list[pb.Batch]:
    return [
        batch(i + 1, (100 + 20 * i) * S, (120 + 20 * i) * S, ranks=ranks, marks=marks(found))
        for i, found in enumerate(per_batch)
    ]


def test_steps_that_overlap_within_a_rank_outlive_sealing(store: Store) -> None:
    sealed_one_by_one(
        store,
        marks_only(
            [
                [(0, BEGIN, 1, 1, 101 * S), (0, BEGIN, 2, 1, 102 * S)],
                [(0, END, 1, 1, 122 * S)],
                [],
                [(0, END, 2, 1, 162 * S)],
            ],
            WORKERS[:1],
        ),
    )


def test_step_of_minutes_outlives_sealing(store: Store) -> None:
    sealed_one_by_one(
        store,
        marks_only([[(0, BEGIN, 1, 1, 101 * S)], *[[]] * 10, [(0, END, 1, 1, 325 * S)], []], WORKERS[:1]),
    )


def test_chief_that_stops_marking_does_not_get_the_workers_steps(store: Store) -> None:
    chief = [rank(), rank(role="chief", pid=101)]
    sealed_one_by_one(
        store,
        marks_only(
            [
                [
                    (r, k, i, 1, (100 + 20 * i + 2 + k) * S)
                    for r in (0, 1)
                    for k in (BEGIN, END)
                    if r == 0 or i < 2
                ]
                for i in range(6)
            ],
            chief,
        ),
    )


def with_phases(sent: list[pb.Batch]) -> list[pb.Batch]:
    """The same batches, and with the end of each step the phases it had."""
    for one in sent:
        ends = [t for k, t in zip(*read_marks(one), strict=True) if k == END]
        one.spans.CopyFrom(
            spans(
                [(0, "phase.input", t - 40 * MS, t - 10 * MS, ABSENT, 1) for t in ends]
                + [(0, "asked.allreduce", t - MS, t, 100, 3) for t in ends]
            )
        )
    return sent


def read_marks(one: pb.Batch) -> tuple[list[int], list[int]]:
    kinds, times = (np.frombuffer(column, "<i8").tolist() for column in (one.marks.kind, one.marks.time_ns))
    return kinds, times


def test_phases_of_steps_outlive_sealing(store: Store) -> None:
    sealed_one_by_one(store, with_phases(training(WORKERS[:1])))
    view = store.view(JOB)
    assert view
    found = view.steps["steps_spans"]
    assert len(found["step"]) == len(view.steps["steps"]["step"])
    assert set(found["phase.input.ns"].tolist()) == {30 * MS}
    assert set(found["asked.allreduce.count"].tolist()) == {3}
    assert set(found["asked.allreduce.bytes"].tolist()) == {100}


def test_long_step_marked_at_its_end_only_has_its_counters(store: Store) -> None:
    sent = training(WORKERS[:1], batches=12, stepping=())
    begin, end = 102 * S, 142 * S
    sent[8].marks.CopyFrom(marks([(0, BEGIN, 7, ABSENT, begin), (0, END, 7, 32, end)]))
    sealed_one_by_one(store, sent)
    view = store.view(JOB)
    assert view
    process = view.steps["steps_process"]
    assert (process["cpu_ns.end"] - process["cpu_ns.begin"]).tolist() == [(end - begin) // 2]


def test_facts_are_kept_and_the_newest_holds(store: Store) -> None:
    sent = training(WORKERS[:1], batches=3)
    for at, fact in enumerate(("setting.X=1", "setting.X=2=3", "no fact")):
        sent[at].events.add(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=sent[at].begin_ns, text=fact)
    A.greet(store)
    for one in sent:
        A.put(store, one)
        store.seal()
    view = store.view(JOB)
    assert view
    assert list(view.facts.values()) == [{"setting.X": "2=3"}]


def test_chief_that_marks_late_gives_the_workers_steps_back(store: Store) -> None:
    chief = [rank(), rank(role="chief", pid=101)]
    sealed_one_by_one(
        store,
        marks_only(
            [
                [
                    (r, k, i, 1, (100 + 20 * i + 2 + k) * S)
                    for r in (0, 1)
                    for k in (BEGIN, END)
                    if r == 0 or i >= 4
                ]
                for i in range(8)
            ],
            chief,
        ),
    )


def test_parameter_server_known_later_has_the_same_rows_as_at_once(store: Store) -> None:
    early = training(WORKERS[:1], batches=4)
    later = training([*WORKERS[:1], rank(role="ps", pid=201)], batches=8)[4:]
    sealed_one_by_one(store, early + later)


def test_metrics_whose_names_differ_in_case_only_outlive_sealing(store: Store) -> None:
    metrics = [("x", GAUGE, False), ("X", GAUGE, False)]
    sent = training(WORKERS[:1], batches=2)
    for one in sent:
        one.counter_sets.append(counter_set("odd", metrics))
        one.samples.append(samples(2, [(0, one.begin_ns, (1, 2)), (0, one.end_ns, (1, 2))], metrics))
    sealed_one_by_one(store, sent)


def test_one_bad_name_does_not_stop_sealing_of_other_jobs(store: Store) -> None:
    greet(store)
    spoiled = training([rank("other")], batches=1)[0]
    spoiled.counter_sets[0].name = "x" * 256
    with pytest.raises(BadBatch, match="x" * 40):
        B.put(store, spoiled)
    A.put(store, *OF_A)
    store.seal()
    assert segments(store)


def test_exchange_that_overflows_the_clock_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        A.put(store, *OF_A)
        with contextlib.suppress(Exception):
            store.add_clock_sample(A.number(store), ClockSample(5, 2**63 + 5, 10))
        assert store.view(JOB)
        store.seal()
    finally:
        crash(store)


def test_values_at_the_edge_of_their_type_survive(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    one = training(WORKERS[:1], batches=1)[0]
    one.samples[1].columns[0] = packed([2**63 - 1, -(2**63), 0, 1, 2])
    A.put(store, one)
    store.close()
    again = open_store(tmp_path)
    raw = Reader(tmp_path).read(segments(again, "samples_tcp"))
    assert raw["tcp_sent_bytes"].tolist() == [2**63 - 1, -(2**63), 0, 1, 2]
    again.close()
