"""What is not sealed, by job and node."""

from __future__ import annotations

from typing import Any

import numpy as np
from roofline_server.records import NODE_JOB, DecodedBatch, Frame
from roofline_server.store.catalog.process_lifetimes import ProcessLifetimes
from roofline_server.store.intake.entries import Entry
from roofline_server.store.intake.tail import Tail


def filled(*batches: tuple[int, list[str]]) -> Tail:
    """Batches of (node, jobs); ids from 1 on."""
    tail = Tail(ProcessLifetimes({}, {}))
    for number, (node, jobs) in enumerate(batches, 1):
        frames = [Frame(job, "marks", {"rank": np.zeros(1, np.int64)}) for job in jobs]
        entry = Entry(number, "a", number, node, 10, b"x", "")
        tail.add(entry, DecodedBatch(number, 0, 1, frames, [], {}, ()))
    return tail


def found(tail: Tail, job: str, **nodes: Any) -> list[tuple[int, set[str]]]:
    return [(one.id, {frame.job for frame in one.decoded.frames}) for one in tail.of_job(job, **nodes)]


def test_a_job_is_shown_its_own_rows_in_order() -> None:
    tail = filled((1, ["42", "43", NODE_JOB]), (2, ["43"]), (1, ["42", "42"]))
    assert found(tail, "42") == [(1, {"42"}), (3, {"42"})]
    assert found(tail, "43") == [(1, {"43"}), (2, {"43"})]
    assert found(tail, "44") == []


def test_of_many_nodes_those_that_are_asked_for() -> None:
    tail = filled((1, [NODE_JOB]), (2, [NODE_JOB]), (3, ["42", NODE_JOB]))
    assert found(tail, NODE_JOB, nodes={2, 3}) == [(2, {NODE_JOB}), (3, {NODE_JOB})]
    assert len(found(tail, NODE_JOB)) == 3


def test_what_is_sealed_is_gone_and_the_rest_stays() -> None:
    tail = filled((1, ["42"]), (1, ["42", NODE_JOB]), (2, ["43"]))
    tail.forget(tail.of_job("42")[:1])
    assert found(tail, "42") == [(2, {"42"})] and found(tail, "43") == [(3, {"43"})]
    assert [one.id for one in tail.now().batches] == [2, 3]


def test_the_newest_batch_of_a_job_is_known_when_it_is_sealed() -> None:
    tail = filled((1, ["42"]), (2, ["43"]), (1, ["42", "44"]))
    tail.forget(tail.now().batches)
    assert [tail.newest_of(job) for job in ("42", "43", "44", "45")] == [3, 2, 3, 0]
