"""What an assistant sees of roofline, by the client of the `mcp` package itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb
from roofline_client.assistants import tools

from . import models
from .command_line import PLAIN
from .fake_server import Asked, answer, serving
from .reports import rank, report
from .verdicts import verdict

JOBS = answer(pb.ListJobsResponse(jobs=[pb.Job(job="43", state="running"), pb.Job(job="42")]))
NAMES = ["compare", "efficiency", "jobs", "report", "stragglers", "what_if"]


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    found = report([rank("ps:0"), rank("worker:0")], verdict=verdict())
    message = to_message(pb.Report(), found, without=("sources", "points"))
    efficiency = answer(models.efficiency())
    waits = answer(pb.Stragglers(verdict="no rank holds the others up"))
    with serving(report=answer(message), jobs=JOBS, GetEfficiency=efficiency, GetStragglers=waits) as asked:
        yield asked


def call(where: Any, name: str, **words: Any) -> Any:
    async def asked() -> Any:
        async with Client(where) as client:
            return await client.call_tool(name, words)

    return asyncio.run(asked())


def text_of(result: Any) -> str:
    assert not result.is_error, result.content
    return str(result.content[0].text)


def test_tools_only_read() -> None:
    async def listed() -> Any:
        async with Client(tools("127.0.0.1:1")) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(listed())
    assert sorted(tool.name for tool in found) == NAMES
    for tool in found:
        assert tool.annotations is not None and tool.annotations.read_only_hint, tool.name
        assert tool.description


def test_jobs_and_a_report(site: Asked) -> None:
    offered = tools(site.address)
    assert text_of(call(offered, "jobs")).splitlines()[-1].startswith("42")
    assert "43" not in text_of(call(offered, "jobs", most=1)).splitlines()[-1].split()[1:]
    said = text_of(call(offered, "report", job="last"))
    assert said.startswith("Job 42 ") and "BOTTLENECK" in said
    assert site.requests[-1].job == "43", "the newest"


def test_efficiency_of_a_model(site: Asked) -> None:
    said = text_of(call(tools(site.address), "efficiency", job="42", steps="3:9", flops_per_example=6e9))
    assert said.startswith("MFU 25.0% of the measured FP32 peak") and "formula of mfu" in said
    request = site.requests[-1]
    assert (request.subject.job, request.subject.first_step, request.flops_per_example) == ("42", 3, 6e9)
    assert not request.HasField("parameters")
    transformer = {"parameters": 7e9, "tokens_per_example": 2048, "layers": 32, "hidden": 4096}
    how = {"causal": True, "precision": "bf16", "sparse": True}
    call(tools(site.address), "efficiency", job="42", **transformer, **how)
    request = site.requests[-1]
    asked = transformer | how
    assert {name: getattr(request, name) for name in asked} == asked


def test_stragglers_are_of_the_steady_steps_where_no_others_are_asked_for(site: Asked) -> None:
    offered = tools(site.address)
    assert text_of(call(offered, "stragglers", job="42")).startswith("no rank holds the others up")
    assert not site.requests[-1].HasField("first_step")
    call(offered, "stragglers", job="42", steps="all")
    assert site.requests[-1].first_step == 0 and site.requests[-1].HasField("first_step")


def test_what_goes_wrong_is_said_to_the_assistant(site: Asked) -> None:
    wrong = call(tools(site.address), "report", job="42", steps="nonsense")
    assert wrong.is_error and "nonsense" in wrong.content[0].text
    nobody = call(tools("127.0.0.1:1"), "jobs")
    assert nobody.is_error and "127.0.0.1:1" in nobody.content[0].text


@pytest.mark.slow
def test_command_speaks_the_protocol(site: Asked) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "roofline_client", "mcp", "--server", site.address],
        env=dict(PLAIN),
    )
    assert "BOTTLENECK" in text_of(call(command, "report", job="42"))
