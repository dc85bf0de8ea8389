"""How much questions may take that are asked again and again, and that answers say it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.granted import SECONDS, SHARE
from roofline.v1 import query_pb2
from roofline_server.ingest.question_budget import BUSY, BUSY_SHARE, LATELY, QUIET, QUIET_SHARE, SOON, granted

from ..services import serving


def test_a_quiet_server_grants_much_and_a_busy_one_little() -> None:
    assert granted([]) == granted([QUIET / 2] * LATELY) == QUIET_SHARE
    assert granted([BUSY] * LATELY) == pytest.approx(BUSY_SHARE)
    assert granted([1.0] * LATELY) == BUSY_SHARE
    between = granted([(QUIET + BUSY) / 2] * LATELY)
    assert BUSY_SHARE < between < QUIET_SHARE


def test_more_work_is_noticed_soon_and_its_end_late() -> None:
    quiet, busy = [0.0] * LATELY, [0.8] * LATELY
    assert granted(quiet + [0.8] * 2) == BUSY_SHARE
    assert granted(busy + [0.0] * SOON) == BUSY_SHARE
    assert granted(busy + [0.0] * LATELY) == QUIET_SHARE


@given(st.lists(st.floats(0.0, 1.0), max_size=40), st.integers(0, 39))
def test_who_takes_more_is_granted_no_more_beside(shares: list[float], at: int) -> None:
    more = [1.0 if number == at else one for number, one in enumerate(shares)]
    assert BUSY_SHARE <= granted(more) <= granted(shares) <= QUIET_SHARE


def test_each_answer_says_what_is_granted(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            for share in (QUIET_SHARE, BUSY_SHARE):
                server.committer.granted_share = share
                call = server.query.ListJobs(query_pb2.ListJobsRequest())
                await call
                said = dict(await call.trailing_metadata())
                assert float(said[SHARE]) == share and float(said[SECONDS]) > 0.0

    asyncio.run(work())
