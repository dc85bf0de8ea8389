"""Collectives and the waits for them, on a made-up torch.distributed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks.torch import collectives as torch_collectives
from roofline_agent.hooks.torch.phases import COMMUNICATE
from roofline_agent.hooks.torch.recorder import Recorder

from ..doubles import RecordingMarker, Tensor


class Work:
    def wait(self, seconds: float = 0.0) -> bool:
        if seconds:
            threading.Event().wait(seconds)
        return True


@pytest.fixture
def collectives(marker: RecordingMarker) -> Any:
    class Own(Work):
        """The class is changed in place: each test has its own."""

        def wait(self, seconds: float = 0.0) -> bool:
            return Work.wait(self, seconds)

    module = SimpleNamespace(
        Work=Own,
        init_process_group=lambda backend: None,
        destroy_process_group=lambda group=None: group,
        get_backend=lambda: "gloo",
        get_world_size=lambda group=None: 4 if group is None else len(group.ranks),
        get_process_group_ranks=lambda group: group.ranks,
        get_rank=lambda: 2,
        barrier=lambda: None,
        broadcast=lambda tensor, src: 1 / 0,
    )

    def all_reduce(tensor: Any, op: str = "sum", group: Any = None, async_op: bool = False) -> Any:
        work = module.Work()
        if async_op:
            return work
        work.wait(0.001)
        return None

    module.all_reduce = all_reduce
    module.all_gather = lambda tensor_list, tensor, group=None: None
    module.gather = lambda tensor, gather_list=None, dst=0, group=None: None
    module.scatter = lambda tensor, scatter_list=None, src=0, group=None: None
    torch_collectives.patch(module, marker)  # type: ignore[arg-type]
    return module


def test_call_that_returns_when_done_is_a_wait(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    collectives.all_reduce(Tensor(100))
    record.stepped(0)
    (wait,) = [span for span in marker.steps[0] if span[0] == COMMUNICATE]
    others = {(name, *rest) for name, *rest in marker.steps[0] if name != COMMUNICATE}
    assert wait[2] - wait[1] >= 1_000_000
    assert others == {("asked.allreduce", *wait[1:3], 400, 1), ("engine.allreduce", *wait[1:3], 400, 1)}


def test_of_an_asynchronous_call_only_the_wait_blocks(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    work = collectives.all_reduce(tensor=Tensor(100), async_op=True)
    assert type(work) is collectives.Work
    assert work.wait(0.001) is True
    record.stepped(0)
    spans = {span[0]: span for span in marker.steps[0]}
    assert set(spans) == {"asked.allreduce", "engine.allreduce", COMMUNICATE}
    assert spans["asked.allreduce"][2] <= spans[COMMUNICATE][1]
    assert spans["engine.allreduce"][1:] == (spans["asked.allreduce"][1], spans[COMMUNICATE][2], 400, 1)


def test_work_found_done_has_no_engine_time(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    collectives.all_reduce(Tensor(100), async_op=True).wait()
    record.stepped(0)
    assert "engine.allreduce" not in {span[0] for span in marker.steps[0]}


def test_work_without_a_wait_is_not_taken_for_a_later_one(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    def address() -> int:
        return id(collectives.all_reduce(Tensor(100), async_op=True))

    left = {address() for _ in range(100)}
    others = [collectives.Work()]  # until one lies where another lay; they do not come from a collective
    while len(others) < 1000 and id(others[-1]) not in left:
        others.append(collectives.Work())
    assert id(others[-1]) in left
    others[-1].wait(0.001)
    record.stepped(0)
    assert "engine.allreduce" not in {span[0] for span in marker.steps[0]}


def test_a_gpus_collective_has_no_engine_time(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    collectives.all_reduce(Tensor(100, cpu=False))
    record.stepped(0)
    assert {span[0] for span in marker.steps[0]} == {"asked.allreduce", COMMUNICATE}


def test_kinds_and_bytes_of_collectives(collectives: Any, record: Recorder, marker: RecordingMarker) -> None:
    collectives.barrier()
    collectives.all_gather([Tensor(3), Tensor(4)], Tensor(3))
    collectives.init_process_group("gloo")
    record.stepped(0)
    asked = {(span[0], span[3]) for span in marker.steps[0] if span[0].startswith("asked")}
    assert asked == {("asked.barrier", None), ("asked.allgather", 28)}
    assert marker.facts == {"setting.backend": "gloo", "setting.world_size": 4}
    assert (marker.said["RANK"], marker.said["WORLD_SIZE"]) == (2, 4)


def test_failure_is_told(collectives: Any, record: Recorder, marker: RecordingMarker) -> None:
    assert "hook.torch_collectives" not in marker.facts
    collectives.get_backend = lambda: 1 / 0
    assert collectives.init_process_group("gloo") is None
    assert marker.facts["hook.torch_collectives"] == "failed"


class Parts:
    """An account that notes which part of the step goes on."""

    on, next = True, 0

    def __init__(self) -> None:
        self.open: list[str] = []

    def begins(self, part: str, now: int) -> int:
        self.open.append(part)
        return now

    def ends(self, now: int, counts: bool = True) -> int:
        self.open.pop()
        return now


@pytest.fixture
def parts(marker: RecordingMarker) -> Parts:
    marker.account = Parts()
    return marker.account  # type: ignore[no-any-return]


@pytest.mark.parametrize("options", [{}, {"async_op": True}, {"async_op": False}])
def test_collective_leaves_the_part_in_which_it_is_asked_for(
    parts: Parts, collectives: Any, options: dict[str, Any]
) -> None:
    parts.begins("input", 0)
    collectives.all_reduce(Tensor(10), **options)
    collectives.barrier()
    assert parts.open == ["input"]


def test_steps_that_are_held_are_sent_as_the_group_ends(collectives: Any, marker: RecordingMarker) -> None:
    assert collectives.destroy_process_group("all") == "all"
    assert marker.flushes == 1


def asked(record: Recorder, marker: RecordingMarker) -> dict[str, Any]:
    """Bytes by the name of a collective."""
    record.stepped(0)
    return {span[0]: span[3] for span in marker.steps[0] if span[0].startswith("asked.")}


class ProcessGroup:
    def __init__(self, *ranks: int) -> None:
        self.ranks = list(ranks)


@pytest.mark.parametrize("local, near, across", [("2", "2-2", "3-1"), ("", "2", "3")])
def test_collective_of_some_ranks_is_named_by_their_number(
    collectives: Any,
    record: Recorder,
    marker: RecordingMarker,
    monkeypatch: Any,
    local: str,
    near: str,
    across: str,
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    node, some = ProcessGroup(2, 3), ProcessGroup(0, 1, 2)
    collectives.all_reduce(Tensor(1), group=node)
    collectives.all_reduce(Tensor(2), "sum", some)
    collectives.all_reduce(Tensor(3), group=ProcessGroup(*range(4)))
    collectives.all_gather([Tensor(4)], Tensor(2), node)
    assert asked(record, marker) == {
        f"asked.allreduce.{near}": 4,
        f"asked.allreduce.{across}": 8,
        "asked.allreduce": 12,
        f"asked.allgather.{near}": 16,
    }


def test_group_that_cannot_be_read_raises_nothing(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    collectives.all_reduce(Tensor(1), group=object())
    assert asked(record, marker) == {"asked.allreduce": 4}


def test_root_counts_the_whole_of_what_is_gathered_or_scattered(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    pieces = [Tensor(3) for _ in range(8)]
    collectives.gather(Tensor(3), pieces)
    collectives.scatter(Tensor(3), scatter_list=pieces)
    assert asked(record, marker) == {"asked.gather": 96, "asked.scatter": 96}


def test_others_than_the_root_count_their_piece(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    collectives.gather(Tensor(3))
    collectives.scatter(Tensor(3), None, 1)
    assert asked(record, marker) == {"asked.gather": 12, "asked.scatter": 12}


def test_collective_that_fails_fails_as_ever(
    collectives: Any, record: Recorder, marker: RecordingMarker
) -> None:
    with pytest.raises(ZeroDivisionError):
        collectives.broadcast(Tensor(3), src=0)
    collectives.all_reduce(object())
    record.stepped(0)
    assert ("asked.allreduce", None) in {(span[0], span[3]) for span in marker.steps[0]}
