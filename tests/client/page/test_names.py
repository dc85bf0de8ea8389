"""Names from a training, nodes and users are no HTML, wherever the page shows them."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from google.protobuf.message import Message
from roofline.v1 import query_pb2 as pb

from .. import models
from ..chunks import message, steps
from ..fake_server import answer, chunks, serving
from . import overviews
from .page_process import Page, started

EVIL = "\"'><img src=x onerror=alert(1)></script><script>alert(1)</script>%{x}{{7*7}}"
SIGNS = ("<img", "<script>alert")


def poisoned(found: Any) -> Any:
    """The message with the name in every text it has, also deep inside."""
    for field, value in list(found.ListFields()):
        many = getattr(field, "is_repeated", None)
        many = field.label == field.LABEL_REPEATED if many is None else many
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _poison_map(field, value)
        elif isinstance(value, Message):
            poisoned(value)
        elif many and field.message_type is not None:
            for one in value:
                poisoned(one)
        elif many and field.type == field.TYPE_STRING:
            value[:] = [EVIL] * len(value)
        elif field.type == field.TYPE_STRING and field.name not in ("kind", "unit", "mode"):
            setattr(found, field.name, EVIL)
    return found


def _poison_map(field: Any, value: Any) -> None:
    if field.message_type.fields_by_name["value"].message_type is None:
        value[EVIL] = EVIL
    else:
        for one in value.values():
            poisoned(one)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    jobs = pb.ListJobsResponse(
        jobs=[pb.Job(job="x", state="x", hosts=["x"], tags={"a": "b"}, users=["x"], running=True)]
    )
    account = pb.RankAccount(rank="x", role="x", host="x")
    account.parts.add(part="x").time.value = 0.1
    verdict = pb.Verdict(state="x", headline="x", kind="bottleneck", accounts=[account], quality=["x"])
    verdict.bottleneck.sentence, verdict.bottleneck.rank = "x", "x"
    verdict.bottleneck.evidence.append("x")
    verdict.bottleneck.tries.append("x")
    report = pb.Report(
        job="x", ranks=[pb.RankReport(rank="x", role="x", name="x", host="x")], verdict=verdict
    )
    report.notes.append("x")
    report.tags["x"] = "x"
    report.facts.add(name="x", value="x", ranks=["x"])
    part = report.parts.add(host="x", rank="x", instance="x", source="x")
    part.values["tcp_sent_bytes.per_second"].value = 5.0
    comparison = pb.Comparison(first="x", second="x", headline="x", notes=["x"])
    comparison.changes.add(kind="part", subject="x").first.value = 0.1
    comparison.settings.add(name="x", first="x", second="x")
    agent = pb.Agent(host="x", connected=True, version="x", busy_with="x")
    agent.sources.add(name="x", reason="x", advice="x")
    scripts = {
        "GetStepOverview": answer(poisoned(overviews.message())),
        "GetSteps": chunks(message("steps", steps(EVIL), [EVIL])),
        "ListAgents": answer(poisoned(pb.ListAgentsResponse(agents=[agent]))),
        "GetRoofline": answer(poisoned(models.roofline())),
        "GetBreakdown": answer(poisoned(models.breakdown())),
        "GetEfficiency": answer(poisoned(models.efficiency())),
        "GetMachines": answer(poisoned(models.machines())),
        "GetTrajectory": answer(poisoned(models.trajectory())),
        "GetComparison": answer(poisoned(comparison)),
    }
    with serving(answer(poisoned(report)), answer(poisoned(jobs)), **scripts) as asked:
        found = started(asked.address, tmp_path_factory.mktemp("config"))
        yield found
        found.close()


NAME = quote(EVIL)


@pytest.mark.parametrize(
    "path",
    [
        f"/job?job={NAME}",
        f"/full?job={NAME}",
        f"/details?job={NAME}",
        f"/breakdown?job={NAME}",
        f"/efficiency?job={NAME}",
        f"/compare?first={NAME}&second=x",
        f"/trajectory?experiment={NAME}&over={NAME}",
        f"/machines?host={NAME}",
        "/agents",
        f"/download/report.html?job={NAME}",
    ],
)
def test_names_are_escaped_in_html(page: Page, path: str) -> None:
    status, text, headers = page.ask(path)
    assert status == 200, text
    assert not any(sign in text for sign in SIGNS), text
    assert "<" not in headers.get("Content-Disposition", "")
    if "/job" not in path:
        assert "onerror" in html.unescape(text), "the name is shown"


@pytest.mark.parametrize(("path", "count"), [("/events/job?job=x", 3), ("/events/agents", 1)])
def test_names_are_escaped_in_events(page: Page, path: str, count: int) -> None:
    events = list(page.events(path, count))
    assert "onerror" in str(events), "the name is shown"
    for shown in events:
        for name in ("verdict", "answer"):
            assert not any(sign in shown.get(name, "") for sign in SIGNS)
        for text in [*shown.get("tables", {}).values(), *texts(shown.get("pictures", {}))]:
            assert not any(sign in text for sign in SIGNS), text


def texts(thing: Any) -> Iterator[str]:
    """What plotly takes for text with tags."""
    if isinstance(thing, dict):
        for value in thing.values():
            yield from texts(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from texts(value)
    elif isinstance(thing, str):
        yield thing


def test_names_in_the_list_are_data_alone(page: Page) -> None:
    (job,) = page.event("/events/jobs")["jobs"]
    assert job["job"] == EVIL and job["headline"] == EVIL, "the browser makes text of it, never HTML"
    source = page.ask("/static/jobs.js")[1]
    assert "innerHTML" not in source


def test_documents_hold_names_as_they_are_and_are_no_html(page: Page) -> None:
    status, text, headers = page.ask("/api/v1/agents")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(text)["agents"][0]["host"] == EVIL
