"""Events in, meaning out; what the whole of a recorded file adds up to is in recorded/test_horovod.py."""

from __future__ import annotations

from typing import Any

from roofline_agent.horovod.events import Activity, Collective, Record, Started, TimelineDecoder

from .events import begin, end, sized, started


def records(events: list[dict[str, Any]]) -> list[Record]:
    timeline = TimelineDecoder()
    return [record for event in events for record in timeline.add(event)]


def collectives(events: list[dict[str, Any]]) -> list[Collective]:
    return [record for record in records(events) if isinstance(record, Collective)]


def test_fused_collective_is_told_once_its_last_tensor_says_its_size() -> None:
    found = records(
        [
            begin("ALLREDUCE", 1, 1),
            begin("ALLREDUCE", 1, 2),
            begin("GLOO_ALLREDUCE", 5, 1),
            begin("GLOO_ALLREDUCE", 6, 2),
            end(9, 1),
            end(11, 2),
            sized(12, 1, 10),
            sized(13, 2, 5),
        ]
    )
    assert found[-1] == Collective("GLOO_ALLREDUCE", 5, 11, 2, 60.0)
    assert sum(isinstance(record, Collective) for record in found) == 1


def test_collectives_that_overlap_are_two_where_something_else_began_between_them() -> None:
    found = collectives(
        [
            begin("ALLREDUCE", 1, 1),
            begin("NCCL_ALLREDUCE", 2, 1),
            begin("ALLREDUCE", 3, 2),
            begin("NCCL_ALLREDUCE", 4, 2),
            end(9, 1),
            sized(9, 1, 1),
            end(12, 2),
            sized(12, 2, 2),
        ]
    )
    assert found == [
        Collective("NCCL_ALLREDUCE", 2, 9, 1, 4.0),
        Collective("NCCL_ALLREDUCE", 4, 12, 1, 8.0),
    ]


def test_stages_of_a_hierarchical_allreduce_are_three_collectives() -> None:
    names = ("NCCL_REDUCESCATTER", "MPI_ALLREDUCE", "NCCL_ALLGATHER")
    stages = [event for k, name in enumerate(names) for event in (begin(name, 10 * k + 1), end(10 * k + 5))]
    found = collectives([begin("ALLREDUCE", 0), *stages, sized(40, 1, 2)])
    assert [(one.name, one.begin_us, one.end_us, one.bytes) for one in found] == [
        (name, 10 * k + 1, 10 * k + 5, 8.0) for k, name in enumerate(names)
    ]


def test_one_tensor_of_unknown_size_makes_the_bytes_unknown() -> None:
    found = collectives(
        [begin("MPI_BCAST", 1, 1), begin("MPI_BCAST", 1, 2), end(2, 1), sized(3, 2, 4)],
    )
    assert found == [Collective("MPI_BCAST", 1, 3, 2, None)]


def test_outermost_activity_is_told_from_those_inside() -> None:
    found = records([begin("ALLREDUCE", 8), begin("QUEUE", 9), end(10), sized(11, 1, 1)])
    assert found == [Activity("QUEUE", 9, 1, None, False), Activity("ALLREDUCE", 8, 3, 4.0, True)]


def test_names_that_are_new_in_every_step_cost_no_memory() -> None:
    timeline = TimelineDecoder()
    for pid in range(1000):
        for event in (begin("NEGOTIATE_ALLREDUCE", 1, pid), end(2, pid), begin("ALLREDUCE", 3, pid)):
            timeline.add(event)
        timeline.add(sized(4, pid, 1))
    assert len(timeline.tensors) == 0


def test_start_is_given_in_ns() -> None:
    assert records([started(17)]) == [Started(17_000)]
