"""Why a rank has no FLOPs."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.records import RECORDED
from roofline_server.report.evidence.no_steps import why_none
from roofline_server.report.evidence.reasons import reasons_of
from roofline_server.report.job.notes import losses
from roofline_server.sentences import reasons as texts

from ...builders import BORDER, S, batch, marks, open_store, rank
from ..work import CPU, FIRST, Host

COVERED = pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=0, begin_ns=FIRST, end_ns=FIRST + S)
SAMPLED = pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text="cost.kernels=1/64")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], texts.NOT_WRAPPED),
        ([COVERED], texts.LIBRARIES_IDLE),
        ([SAMPLED], texts.NO_SAMPLED_STEP),
        ([SAMPLED, COVERED], texts.LIBRARIES_IDLE),
    ],
    ids=["bare", "all", "sampled", "idle"],
)
def test_rank_without_kernels_says_why(tmp_path: Path, events: list[pb.Event], reason: str) -> None:
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    found = marks([(0, BORDER, k, 8, FIRST + k * S) for k in range(3)])
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=[rank()], marks=found, events=events))
    view = store.view("job")
    assert view is not None
    (number,) = view.ranks
    assert reasons_of(view, number)["flops"] == reason


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_without_steps_may_wait_for_one_that_never_started(tmp_path: Path, world: int) -> None:
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    ranks = [rank(role="ddp", index=i, pid=100 + i, world=world) for i in range(2)]
    hook = "hook.torch_ddp=installed"
    facts = [
        pb.Event(kind=pb.EVENT_KIND_FACT, rank=i, begin_ns=FIRST, end_ns=FIRST, text=hook) for i in range(2)
    ]
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=ranks, events=facts))
    view = store.view("job")
    assert view is not None
    assert ("wait for ddp:2, which was not seen" in why_none(view, min(view.ranks))) == (world == 3)


def test_rank_beside_refused_marks_is_not_said_to_have_marked_nothing(tmp_path: Path) -> None:
    gone = "a mark from a process that has gone"
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    refused = pb.Event(kind=pb.EVENT_KIND_REFUSED, rank=-1, begin_ns=FIRST, end_ns=FIRST, count=12, text=gone)
    later = pb.Event(kind=pb.EVENT_KIND_REFUSED, rank=-1, begin_ns=FIRST, end_ns=FIRST, text="what a wrapper")
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=[rank()], events=[later, refused]))
    view = store.view("job")
    assert view is not None
    (number,) = view.ranks
    assert gone in why_none(view, number) and "none were marked" not in why_none(view, number)
    assert gone in reasons_of(view, number)["steps"]


def test_marks_refused_of_a_rank_are_that_ranks_alone(tmp_path: Path) -> None:
    beyond = "a mark with a step, examples or time out of range"
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    both = [rank(), rank(index=1, pid=99, job="other")]
    refused = pb.Event(kind=pb.EVENT_KIND_REFUSED, rank=1, begin_ns=FIRST, end_ns=FIRST, count=3, text=beyond)
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=both, events=[refused]))
    for job, is_said in (("job", False), ("other", True)):
        view = store.view(job)
        assert view is not None
        (number,) = view.ranks
        assert (beyond in reasons_of(view, number)["steps"]) == is_said
        assert any(beyond in note for note in losses(view, [])) == is_said


def test_files_without_steps_are_not_said_to_lack_a_hook(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=[rank(framework=RECORDED)]))
    view = store.view("job")
    assert view is not None
    (number,) = view.ranks
    assert why_none(view, number) == reasons_of(view, number)["steps"] == texts.NO_STEPS_IN_FILES


def test_rank_with_a_single_mark_is_not_said_to_have_marked_nothing(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    ended = pb.Event(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=FIRST + S, end_ns=FIRST + S, step=0)
    found = marks([(0, BORDER, 0, 8, FIRST)])
    host.put(store, batch(1, FIRST, FIRST + 3 * S, ranks=[rank()], marks=found, events=[ended]))
    view = store.view("job")
    assert view is not None
    (number,) = view.ranks
    assert why_none(view, number) == reasons_of(view, number)["steps"] == texts.ONE_MARK
