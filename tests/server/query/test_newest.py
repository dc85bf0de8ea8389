from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from roofline.v1 import query_pb2 as pb

from ..builders import UNIX, Node, rank, training
from ..services import serving

A = Node("a", UNIX, "hosta")


def test_another_number_is_told_when_a_job_has_something_new(tmp_path: Path) -> None:
    async def work() -> list[int]:
        async with serving(tmp_path) as server:
            A.greet(server.store)
            found = []
            for number, one in enumerate((rank(index=0), rank(job="other"), rank(index=1, pid=101))):
                A.put(server.store, *training([one], stepping=(0,), first_sequence=1 + 100 * number))
                found.append((await server.query.GetNewest(pb.GetNewestRequest(job="job"))).batch)
            return found

    first, of_another_job, second = asyncio.run(work())
    assert 0 < first == of_another_job < second


def test_of_a_job_that_is_not_there_nothing_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as server:
            await server.query.GetNewest(pb.GetNewestRequest(job="job"))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(work())
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
