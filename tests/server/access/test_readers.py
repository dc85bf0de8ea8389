"""Readers who see their own jobs alone: every method of the service, over real TLS.

The methods come from the service's descriptor and their requests from its fields, so that a method that is
new is asked too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf import message_factory
from roofline.v1 import query_pb2
from roofline_server.access.tokens import Tokens
from roofline_server.errors import BadRequest
from roofline_server.records import Limit

from .guarded import Guarded, guarded
from .owners import ABSENT, EXPERIMENT, HIS, fill

VALUES = {"kind": "classic", "points": "rank", "by": "rank", "over": "nodes", "batch": 64.0}
METHODS = [
    method
    for method in query_pb2.DESCRIPTOR.services_by_name["Query"].methods
    if method.name not in ("BenchNet", "TraceJob")  # for admins, who have no limit
]


class Answered(NamedTuple):
    code: grpc.StatusCode
    text: str  # of an error
    data: bytes  # of all messages


def requests(method: Any, jobs: Sequence[str]) -> Iterator[Any]:
    """What can be asked about these jobs, and about all."""
    fields = {field.name: field for field in method.input_type.fields}
    common = {name: value for name, value in VALUES.items() if name in fields}
    make = message_factory.GetMessageClass(method.input_type)
    if "job" in fields:
        yield make(job=jobs[0], **common)
    elif "first" in fields:
        yield make(first=jobs[0], second=jobs[-1], **common)
    elif "subject" in fields:
        common.pop("over", None)
        if "experiment" in fields:
            common["points"] = "step"
        yield make(subject={"job": jobs[0]}, **common)
    else:
        yield make(**({**common, "jobs": list(jobs)} if "jobs" in fields else common))
    if "jobs" in fields and "subject" in fields:
        yield make(jobs=list(jobs), **common)


def of_experiment(method: Any) -> Iterator[Any]:
    if any(field.name == "experiment" for field in method.input_type.fields):
        values = {"points": "step"} if any(f.name == "points" for f in method.input_type.fields) else {}
        yield message_factory.GetMessageClass(method.input_type)(
            experiment=EXPERIMENT, over="nodes", **values
        )


async def ask(channel: grpc.aio.Channel, method: Any, request: Any) -> Answered:
    make = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = make(
        f"/{method.full_name.rpartition('.')[0]}/{method.name}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=bytes,
    )(request, timeout=30)
    try:
        data = b"".join([part async for part in call]) if method.server_streaming else await call
    except grpc.aio.AioRpcError as error:
        return Answered(error.code(), error.details() or "", b"")
    return Answered(grpc.StatusCode.OK, "", data)


async def everything(site: Guarded, limit: Limit | None, see: Any) -> None:
    _, secret = site.tokens.new("reader", "", limit=limit)
    async with site.channel(secret) as channel:
        await see(channel)


def run(root: Path, limit: Limit | None, see: Any) -> None:
    async def scenario() -> None:
        async with guarded(root) as site:
            await everything(site, limit, see)

    fill(root)
    asyncio.run(scenario())


def test_job_of_another_user_is_answered_as_one_that_does_not_exist(tmp_path: Path) -> None:
    async def see(channel: grpc.aio.Channel) -> None:
        for method in METHODS:
            for jobs in ((HIS,), ("hers", HIS), (HIS, "hers"), (f"{HIS}/1",)):
                absent = [name.replace(HIS, ABSENT) for name in jobs]
                for his, none in zip(requests(method, jobs), requests(method, absent), strict=True):
                    found, expected = await ask(channel, method, his), await ask(channel, method, none)
                    about = f"{method.name} {his}"
                    assert found.code == expected.code, about
                    assert found.text.replace(HIS, ABSENT) == expected.text, about
                    assert HIS.encode() not in found.data and b"bob" not in found.data, about
                    if found.code == grpc.StatusCode.OK and his != none:
                        assert jobs[0] == "hers", f"{about} was answered"
            for request in of_experiment(method):
                found = await ask(channel, method, request)
                assert found.code == grpc.StatusCode.OK, f"{method.name}: {found.text}"
                assert HIS.encode() not in found.data, method.name

    run(tmp_path, Limit("alice"), see)


def test_reader_sees_all_of_its_own_jobs_and_of_those_that_it_shares(tmp_path: Path) -> None:
    async def see(channel: grpc.aio.Channel) -> None:
        for method in METHODS:
            for job in ("hers", "shared"):
                for request in requests(method, (job,)):
                    found = await ask(channel, method, request)
                    assert found.code == grpc.StatusCode.OK, f"{method.name}: {found.text}"
        jobs = await listed(channel)
        assert jobs == {"hers", "shared"}

    run(tmp_path, Limit("alice"), see)


async def listed(channel: grpc.aio.Channel) -> set[str]:
    (method,) = (method for method in METHODS if method.name == "ListJobs")
    found = await ask(channel, method, query_pb2.ListJobsRequest())
    return {job.job for job in query_pb2.ListJobsResponse.FromString(found.data).jobs}


def test_without_a_limit_every_question_is_answered_for_every_job(tmp_path: Path) -> None:
    """Else the requests of the other tests would prove nothing."""

    async def see(channel: grpc.aio.Channel) -> None:
        for method in METHODS:
            for request in (*requests(method, (HIS,)), *of_experiment(method)):
                found = await ask(channel, method, request)
                assert found.code == grpc.StatusCode.OK, f"{method.name}: {found.text}"
        assert await listed(channel) == {"hers", HIS, "shared", "old"}

    run(tmp_path, None, see)


@pytest.mark.parametrize(
    "limit, seen",
    [
        (Limit("bob"), {HIS, "shared"}),
        (Limit("", "s*"), {HIS, "shared"}),
        (Limit("alice", "s*"), {"shared"}),
        (Limit("carol"), set()),
    ],
)
def test_limits_by_user_and_by_name(tmp_path: Path, limit: Limit, seen: set[str]) -> None:
    async def see(channel: grpc.aio.Channel) -> None:
        assert await listed(channel) == seen

    run(tmp_path, limit, see)


def test_pattern_is_for_the_names_of_jobs_and_of_their_runs() -> None:
    assert Limit("", "train").allows("train/2", ())
    assert Limit("", "train/2").allows("train/2", ())
    assert not Limit("", "train").allows("training", ())
    assert not Limit("alice").allows("train", ()), "nobody knows whose it is"


def test_who_joins_is_limited_as_the_join_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.new("reader", "", joins=True, limit=Limit("alice", "a*"))
    joined = tokens.join(secret, "alice@laptop", ["reader"])
    assert joined is not None
    again = Tokens(tmp_path).holder(joined[1])
    assert again is not None and again.limit == Limit("alice", "a*")
    with pytest.raises(BadRequest, match="only readers"):
        tokens.new("admin", "", limit=Limit("alice"))
