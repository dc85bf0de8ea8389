"""The state of a job where Slurm has a word in it."""

from __future__ import annotations

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.model.exits import UNHARMED
from roofline_server.report.ranks.exits import rank_ends, rank_exits, state_of
from roofline_server.sentences.exits import by_slurm
from roofline_server.store.store import Store

from ...builders import UNIX, Node, S, batch, rank, training

NODE = Node("a", UNIX, "hosta")
END_NS = 140 * S + UNIX


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("COMPLETED", "0", "finished (exit 0)"),
        ("FAILED", "3", "failed: Slurm says FAILED (exit 3)"),
        ("TIMEOUT", "0:15", "failed: Slurm says TIMEOUT (exit 0:15)"),
        ("NODE_FAIL", "", "failed: Slurm says NODE_FAIL"),
        ("CANCELLED", "0:15", "ended: Slurm says CANCELLED"),
        ("REQUEUED", "", "ended: Slurm says REQUEUED"),
    ],
)
def test_words_for_what_slurm_says(state: str, code: str, words: str) -> None:
    assert by_slurm(state, code, state not in UNHARMED) == words


def ended(store: Store, *tags: str, status: int | None = None) -> str:
    """The state of a job of one rank that has ended. status: as its wrapper has reported."""
    NODE.greet(store)
    last = batch(99, 139 * S, 140 * S, ranks=[rank()])
    more = {} if status is None else {"status": status}
    last.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=139 * S, end_ns=139 * S, **more)
    for tag in tags:
        last.events.add(
            kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=139 * S, end_ns=139 * S, text=f"tag.slurm.{tag}"
        )
    NODE.put(store, *training([rank()]), last)
    view = store.view("job")
    assert view
    return state_of(view, rank_ends(view, END_NS)).words


def test_slurm_knows_how_a_job_ended_where_its_ranks_do_not(store: Store) -> None:
    assert ended(store, "state=TIMEOUT", "exit=0:15") == "failed: Slurm says TIMEOUT (exit 0:15)"


def test_rank_that_failed_is_named_before_what_slurm_says(store: Store) -> None:
    assert ended(store, "state=FAILED", "exit=1", status=3).startswith("failed: worker:0 exited with 3")


def test_ranks_that_ended_well_do_not_make_a_failed_job_good(store: Store) -> None:
    assert ended(store, "state=FAILED", "exit=1", status=0) == "failed: Slurm says FAILED (exit 1)"


def test_without_a_word_of_slurm_nothing_changes(store: Store) -> None:
    assert ended(store, "account=physics") == "ended (exit codes not known)"


def test_end_of_a_job_asks_for_a_sealing(store: Store) -> None:
    assert not store.job_ended
    ended(store, "state=COMPLETED")
    assert store.job_ended
    store.seal()
    assert not store.job_ended


def test_rank_that_failed_first_and_was_started_again_is_told(store: Store) -> None:
    NODE.greet(store)
    first, again = rank(role="ddp", pid=100), rank(role="ddp", pid=200, start_ns=150 * S)
    other = rank(role="ddp", index=1, pid=101)
    for number, (one, status, begin) in enumerate(((first, 1, 120), (again, 0, 160)), 1):
        said = batch(number, begin * S, (begin + 10) * S, ranks=[one, other])
        end = (begin + 9) * S
        said.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=end, end_ns=end, status=status)
        if one is again:
            said.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=1, begin_ns=end, end_ns=end, status=0)
        NODE.put(store, said)
    view = store.view("job")
    assert view
    found = state_of(view, rank_ends(view, END_NS + 60 * S)).words
    assert found == "finished (exit 0), started again after ddp:0 exited with 1"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("0", "finished (exit 0 of what started its ranks)"),
        ("1", "failed: the launcher of its ranks exited with 1"),
        ("-9", "failed: the launcher of its ranks killed by SIGKILL (out of memory?)"),
        ("x", "ended (exit codes not known)"),
    ],
)
def test_launcher_that_was_wrapped_tells_how_its_ranks_ended(store: Store, status: str, words: str) -> None:
    NODE.greet(store)
    said = batch(1, 120 * S, 130 * S, ranks=[rank(role="ddp")])
    said.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=129 * S, end_ns=129 * S)
    text = f"tag.launcher.exit={status}"
    said.events.add(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=129 * S, end_ns=129 * S, text=text)
    NODE.put(store, said)
    view = store.view("job")
    assert view
    ends = rank_ends(view, END_NS)
    assert state_of(view, ends).words == words
    why = "" if status == "x" else " (only what started it was given that)"
    assert [one.words for one in rank_exits(view, ends)] == [f"ended, exit code not known{why}"]


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ((5, 0), "failed: the launcher of its ranks exited with 5"),
        ((143, 0), "finished (exit 0 of what started its ranks)"),
        ((143, 143), "failed: the launcher of its ranks exited with 143"),
    ],
)
def test_of_scripts_around_a_rank_each_the_one_that_failed_counts(
    store: Store, statuses: tuple[int, int], words: str
) -> None:
    NODE.greet(store)
    said = batch(1, 120 * S, 130 * S, ranks=[rank(role="ddp"), rank(role="ddp", index=1, pid=101)])
    for number, status in enumerate(statuses):
        end = (128 + number) * S
        said.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=number, begin_ns=end, end_ns=end)
        text = f"tag.launcher.exit={status}"
        said.events.add(kind=pb.EVENT_KIND_FACT, rank=number, begin_ns=end, end_ns=end, text=text)
    NODE.put(store, said)
    view = store.view("job")
    assert view
    assert state_of(view, rank_ends(view, END_NS)).words == words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "finished (exit 0 of what started its ranks)"),
        (1, "failed: the launcher of its ranks exited with 1"),
        (None, "ended (exit codes not known)"),
    ],
)
def test_program_that_started_its_ranks_tells_how_they_ended(
    store: Store, status: int | None, words: str
) -> None:
    NODE.greet(store)
    said = batch(1, 120 * S, 130 * S, ranks=[rank(), rank(role="ddp", pid=101)])
    said.events.add(
        kind=pb.EVENT_KIND_FACT,
        rank=0,
        begin_ns=125 * S,
        end_ns=125 * S,
        text="rank.left=it has started ranks",
    )
    for number, more in ((0, {} if status is None else {"status": status}), (1, {})):
        said.events.add(kind=pb.EVENT_KIND_RANK_EXITED, rank=number, begin_ns=129 * S, end_ns=129 * S, **more)
    NODE.put(store, said)
    view = store.view("job")
    assert view
    assert [key.role for key in view.ranks.values()] == ["ddp"]
    assert state_of(view, rank_ends(view, END_NS)).words == words
