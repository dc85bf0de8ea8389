"""The API is asked what its description allows and what it does not, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from roofline.v1 import query_pb2 as pb
from roofline_client.page import documents
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .. import models
from ..fake_server import answer, serving
from . import overviews
from .page_process import Page, started

pytestmark = pytest.mark.slow
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    scripts = {
        "GetStepOverview": answer(overviews.message()),
        "GetStragglers": answer(pb.Stragglers(job="x")),
        "ListAgents": answer(pb.ListAgentsResponse()),
        "GetRoofline": answer(models.roofline()),
        "GetBreakdown": answer(models.breakdown()),
        "GetEfficiency": answer(models.efficiency()),
        "GetMachines": answer(models.machines()),
        "GetTrajectory": answer(models.trajectory()),
        "GetComparison": answer(pb.Comparison(first="x", second="y")),
    }
    with serving(answer(pb.Report(job="x")), answer(pb.ListJobsResponse()), **scripts) as asked:
        found = started(asked.address, tmp_path_factory.mktemp("config"))
        yield found
        found.close()


@pytest.mark.parametrize("name", documents.ALL)
def test_every_question_has_an_answer_as_described(page: Page, name: str) -> None:
    operation = schemathesis.openapi.from_dict(documents.description())[f"/api/v1/{name}"]["GET"]

    @given(case=operation.as_strategy())
    @settings(max_examples=20)
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=f"http://127.0.0.1:{page.port}", checks=CHECKS)

    ask()


@pytest.mark.parametrize("name", [name for name, one in documents.ALL.items() if one.needed])
def test_what_cannot_be_asked_is_refused_as_described(page: Page, name: str) -> None:
    operation = schemathesis.openapi.from_dict(documents.description())[f"/api/v1/{name}"]["GET"]

    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    @settings(max_examples=20)
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=f"http://127.0.0.1:{page.port}", checks=CHECKS)

    ask()
