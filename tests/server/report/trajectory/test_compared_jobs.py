"""Which jobs of an experiment are repetitions of each other, and what is noted of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.answers.trajectory import Trajectory
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.questions import ALL_STEPS
from roofline_server.report.trajectory.trajectories import TrajectoryQuery, trajectory
from roofline_server.store.store import Store

from ...builders import MS, S, batch, open_store, rank
from ..work import FIRST, Call, Host, kernel, run

MATMUL = Call(kernel("matmul", 4_000_000_000, 100_000_000), 1, 50 * MS)


def put(store: Store, job: str, status: int, ranks: int = 1, steps: int = 10, **more: Any) -> None:
    """A job on a node of its own, whose ranks all exit with this status."""
    host, end = Host(job), FIRST + steps * 100 * MS + S
    run(store, host, [MATMUL], job, ranks, steps, **more)
    exits = [
        pb.Event(
            kind=pb.EVENT_KIND_RANK_EXITED, rank=r, begin_ns=end, end_ns=end, status=status, step=steps - 1
        )
        for r in range(ranks)
    ]
    own = [rank(job, index=r, pid=100 + r) for r in range(ranks)]
    host.put(store, batch(2, end, end + S, ranks=own, events=exits))


def ask(store: Store, over: str, *jobs: str) -> Trajectory:
    return trajectory(store, TrajectoryQuery("", jobs, over, steps=ALL_STEPS))


def test_failed_job_is_left_out_of_a_stop_where_another_did_not_fail(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "good", 0)
    put(store, "bad", 3, steps=4)
    put(store, "killed", -9, ranks=2, steps=6)
    found = ask(store, "ranks", "good", "bad", "killed")
    assert [stop.jobs for stop in found.paths[0].stops] == [["good"], ["killed"]]
    assert found.notes == [
        "job bad: failed: worker:0 exited with 3 after step 3: left out of ranks 1, where another job did "
        "not fail",
        "job killed: failed: worker:0 killed by SIGKILL after step 5 (out of memory?), and 1 more: its "
        "numbers are of 6 steps",
    ]


def test_jobs_of_a_stop_that_all_failed_are_compared(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "bad", 3)
    put(store, "worse", 3)
    found = ask(store, "ranks", "bad", "worse")
    assert [stop.jobs for stop in found.paths[0].stops] == [["bad", "worse"]]
    assert len(found.notes) == 1


def test_jobs_of_one_stop_that_differ_in_a_counted_size_are_named(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for job, ranks, examples in (("one", 1, 800), ("two", 2, 800), ("more", 1, 810), ("most", 1, 1600)):
        put(store, job, 0, ranks, examples=examples)
    assert ask(store, "nodes", "one", "more").notes == [], "batches of tokens vary from run to run"
    assert ask(store, "nodes", "one", "two", "most").notes == [
        "nodes 1: jobs most, one and two are pooled though they differ in batch (800, 1600), ranks (1, 2), "
        "ranks_per_node (1, 2): name jobs that are alike"
    ]


def test_what_is_not_known_of_a_job_is_no_difference(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "known", 0, facts=["setting.OMP_NUM_THREADS=4"])
    put(store, "unknown", 0)
    assert ask(store, "nodes", "known", "unknown").notes == []


def test_a_large_batch_is_a_whole_number(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    put(store, "tokens", 0, examples=1_048_576)
    put(store, "tagged", 0, examples=1_048_576, facts=["tag.batch=1048576"])
    assert [stop.at for stop in ask(store, "batch", "tokens").paths[0].stops] == ["1048576"]
    assert ask(store, "batch", "tagged").notes == []
