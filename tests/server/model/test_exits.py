from __future__ import annotations

from roofline_server.model.exits import ENDED, EXITED, FAILED, FINISHED, RUNNING, SILENT, RankEnd, job_state


def end(rank: str, state: str = EXITED, status: int | None = None, time_ns: int = 0) -> RankEnd:
    return RankEnd(rank, state, status, 20, time_ns)


def test_what_failed_first_is_named() -> None:
    first, then = end("worker:1", status=3, time_ns=5), end("worker:0", status=-15, time_ns=9)
    assert job_state([then, first, end("ps:0", status=0)]) == (FAILED, first, 1)


def test_job_of_which_a_rank_runs_is_running_whatever_failed() -> None:
    failed = end("worker:1", status=3)
    assert job_state([failed, end("worker:0", RUNNING)]) == (RUNNING, failed, 0)
    assert job_state([end("worker:0", RUNNING)]) == (RUNNING, None, 0)


def test_rank_that_is_not_heard_of_does_not_let_a_job_finish() -> None:
    silent = end("worker:1", SILENT, time_ns=7)
    assert job_state([end("worker:0", status=0), silent]) == (SILENT, silent, 0)


def test_unknown_is_not_zero() -> None:
    assert job_state([end("worker:0"), end("worker:1")]) == (ENDED, None, 0)
    assert job_state([end("worker:0", status=0), end("worker:1")]) == (FINISHED, None, 1)
    assert job_state([end("worker:0", status=0)]) == (FINISHED, None, 0)


def test_servers_that_are_terminated_after_the_chief_has_finished_are_no_failure() -> None:
    chief, server = end("chief:0", status=0, time_ns=10), end("ps:0", status=-15, time_ns=11)
    assert job_state([chief, server]) == (FINISHED, None, 0)
    killed = end("ps:0", status=-9, time_ns=11)
    assert job_state([chief, killed]) == (FAILED, killed, 0)
    early = end("ps:0", status=-15, time_ns=10 - 3_000_000_000)
    assert job_state([chief, early]) == (FAILED, early, 0)
