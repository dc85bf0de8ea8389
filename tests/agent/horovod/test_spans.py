from __future__ import annotations

from typing import Any

from roofline_agent.horovod.events import Activity, Started, TimelineDecoder
from roofline_agent.horovod.spans import CYCLES_WITHIN_NS, MANY_SPANS, Spans, joined, kind

from .events import begin, end, sized, started

NODE_NS = 5_000_000_000  # node time is this much behind the wall clock
EPOCH_US = 1_700_000_000_000_000
START_NS = EPOCH_US * 1000 - NODE_NS


def spans(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(name, begin and end in us after the start, bytes, count)."""
    timeline, made = TimelineDecoder(), Spans()
    for event in [started(EPOCH_US), *events]:
        for record in timeline.add(event):
            made.add(record, -NODE_NS)
    found = [
        (name, (b - START_NS) / 1000, (e - START_NS) / 1000, size, n) for name, b, e, size, n in made.take()
    ]
    return sorted(found)


def cycle(at_us: float) -> dict[str, Any]:
    return {"ph": "i", "name": "CYCLE_START", "ts": at_us, "s": "g"}


FUSED = [
    begin("NEGOTIATE_ALLREDUCE", 10, 1),
    begin("NEGOTIATE_ALLREDUCE", 12, 2),
    end(30, 1),
    end(31, 2),
    begin("ALLREDUCE", 40, 1),
    begin("ALLREDUCE", 40, 2),
    begin("MEMCPY_IN_FUSION_BUFFER", 41, 1),
    begin("MEMCPY_IN_FUSION_BUFFER", 41, 2),
    end(44, 1),
    end(45, 2),
    begin("GLOO_ALLREDUCE", 46, 1),
    begin("GLOO_ALLREDUCE", 46, 2),
    end(90, 1),
    end(91, 2),
    begin("MEMCPY_OUT_FUSION_BUFFER", 92, 1),
    begin("MEMCPY_OUT_FUSION_BUFFER", 92, 2),
    end(95, 1),
    end(95, 2),
    sized(96, 1, 100),
    sized(97, 2, 11),
]


def test_fused_allreduce_of_two_tensors() -> None:
    assert spans(FUSED) == [
        ("asked.allreduce", 40, 40, 444, 2),
        ("engine.allreduce", 46, 91, 444, 1),
        ("engine.memcpy", 41, 45, None, 2),
        ("engine.memcpy", 92, 95, None, 2),
        ("engine.negotiate", 10, 31, None, 2),
    ]


def test_cycles_are_counted_over_stretches() -> None:
    marks = [cycle(1000.0 * k) for k in range(13)]
    assert CYCLES_WITHIN_NS == 5_000_000
    assert spans(marks) == [("engine.cycle", 0, 5000, None, 5), ("engine.cycle", 5000, 10000, None, 5)]
    assert spans([cycle(0), cycle(50_000)]) == [("engine.cycle", 0, 50_000, None, 1)]


def test_waiting_for_data_is_queueing() -> None:
    found = spans([begin("ALLREDUCE", 1), begin("WAIT_FOR_DATA", 2), end(9), sized(10, 1, 1)])
    assert ("engine.queue", 2, 9, None, 1) in found


def test_without_a_start_nothing_is_placed_in_time() -> None:
    timeline, made = TimelineDecoder(), Spans()
    for event in FUSED:
        for record in timeline.add(event):
            made.add(record, 0)
    assert made.take() == []


def test_wall_clock_set_later_moves_nothing() -> None:
    timeline, made = TimelineDecoder(), Spans()
    for record in timeline.add(started(EPOCH_US)):
        made.add(record, -NODE_NS)
    for event in FUSED:
        for record in timeline.add(event):
            made.add(record, 3_600_000_000_000)
    assert min(span[1] for span in made.take()) == START_NS + 10_000


def test_many_spans_at_once_are_joined_and_adds_up() -> None:
    events = []
    for k in range(MANY_SPANS + 1):
        events += [begin("ALLREDUCE", 10 * k), begin("MPI_ALLREDUCE", 10 * k + 1), end(10 * k + 5)]
        events.append(sized(10 * k + 6, 1, 3))
    found = [span for span in spans(events) if span[0] == "engine.allreduce"]
    assert len(found) < 5
    assert sum(span[4] for span in found) == MANY_SPANS + 1 and sum(span[3] for span in found) == 12 * (
        MANY_SPANS + 1
    )


def test_joining_keeps_names_apart_and_does_not_invent_bytes() -> None:
    made = [("a.b", 0, 10, 5, 1), ("a.c", 1, 2, 7, 1), ("a.b", 4, 6, None, 2), ("a.b", 20, 21, 1, 1)]
    assert sorted(joined(made, 0)) == [("a.b", 0, 10, None, 3), ("a.b", 20, 21, 1, 1), ("a.c", 1, 2, 7, 1)]


def test_kinds() -> None:
    names = ("GLOO_BCAST", "NCCL_REDUCESCATTER", "MPI_CROSS_ALLGATHER", "ADASUM", "ALLTOALL", "JOIN")
    assert [kind(name) for name in names] == [
        "broadcast",
        "reducescatter",
        "allgather",
        "allreduce",
        "alltoall",
        None,
    ]


def test_times_and_sizes_that_cannot_be_are_left_out() -> None:
    strange = [
        {"ph": "X", "name": "QUEUE", "ts": 1e300, "dur": 1, "pid": 1},
        {"ph": "X", "name": "QUEUE", "ts": 1, "dur": 1e300, "pid": 1},
        begin("ALLREDUCE", -1e300, 3),
        end(1e305, 3),
        cycle(1e300),
        begin("ALLREDUCE", 40, 1),
        end(44, 1),
        {"ph": "X", "name": "QUEUE", "ts": 5, "dur": 1, "pid": 1},
    ]
    assert [span[0] for span in spans(strange)] == ["asked.allreduce", "engine.queue"]
    made = Spans()
    made.add(Started(10**300), -NODE_NS)
    made.add(Activity("QUEUE", 1.0, 1.0, None, False), -NODE_NS)
    assert made.take() == []
    made.add(Started(EPOCH_US * 1000), -NODE_NS)
    made.add(Activity("ALLREDUCE", 1.0, 1.0, 1e200, True), -NODE_NS)
    assert [span[3] for span in made.take()] == [None]
