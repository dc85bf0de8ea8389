from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import query_pb2 as pb

from ..builders import UNIX, Node, rank, training
from ..services import serving

A = Node("a", UNIX, "hosta")


def asked(root: Path, **request: Any) -> Any:
    """Of a job of 57 steps of two workers and an evaluator."""

    async def work() -> Any:
        async with serving(root) as server:
            A.greet(server.store)
            ranks = [rank(index=0), rank(index=1, pid=101), rank(role="evaluator", pid=102)]
            A.put(server.store, *training(ranks, stepping=(0, 1, 2)))
            return await server.query.GetStepOverview(pb.GetStepOverviewRequest(**{"job": "job", **request}))

    return asyncio.run(work())


def test_every_step_is_in_one_stretch(tmp_path: Path) -> None:
    found = asked(tmp_path, stretches=10)
    assert len(found.firsts) == 10 and (found.firsts[0], found.lasts[-1]) == (0, 56)
    assert all(last + 1 == first for last, first in zip(found.lasts, list(found.firsts)[1:], strict=False))
    assert (found.mode, found.ranks, found.running) == ("synchronous", 2, False)


def test_who_evaluates_is_nobody_that_could_be_late(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert [line.name for line in found.lines] == ["worker:0", "worker:1"]
    assert [row.name for row in found.lateness] == ["worker:0", "worker:1"]
    assert all(0 < one < 60 and math.isfinite(one) for one in found.lines[0].longest)


def test_a_report_may_be_of_the_newest_steps(tmp_path: Path) -> None:
    async def work() -> Any:
        async with serving(tmp_path) as server:
            A.greet(server.store)
            A.put(server.store, *training([rank()], stepping=(0,)))
            return await server.query.GetReport(
                pb.GetReportRequest(job="job", first_screen=True, newest=True)
            )

    found = asyncio.run(work())
    assert [one.steps for one in found.verdict.accounts] == [10]


def test_a_range_of_steps_and_ranks_is_looked_at_alone(tmp_path: Path) -> None:
    found = asked(tmp_path, first_step=10, last_step=12, first_rank=1, last_rank=1)
    assert list(found.firsts) == [10, 11, 12]
    assert [row.name for row in found.lateness] == ["worker:1"]
    assert (found.lateness[0].first_rank, found.lateness[0].last_rank) == (1, 1)
    assert found.recent[0].last_step == 56, "what is recent is of the whole job"


def test_warm_up_is_left_out(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert list(found.left_out) == [True] + [False] * 56


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ({"first_rank": 2}, "ranks 2 to the last"),
        ({"first_rank": 1, "last_rank": 0}, "ranks 1 to 0"),
        ({"first_rank": 70, "last_rank": 100}, "ranks 70 to 100"),
    ],
)
def test_ranks_that_are_not_there_are_refused(tmp_path: Path, ranks: dict[str, int], named: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asked(tmp_path, **ranks)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"{named}: the job has 2" in (caught.value.details() or "")
