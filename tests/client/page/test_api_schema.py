"""The API is asked what its description allows and what it does not, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
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
from .test_app import Page, started

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
        "GetMachines": answer(models.machines()),
        "GetTrajectory": answer(models.trajectory()),
        "GetComparison": answer(pb.Comparison(first="x", second="y")),
    }
    with serving(answer(pb.Report(job="x")), answer(pb.ListJobsResponse()), **scripts) as asked:
        found = started(asked.address, tmp_path_factory.mktemp("config"))
        yield found
        found.close()


@pytest.fixture
def api(page: Page) -> Any:
    described = {**documents.description(), "servers": [{"url": f"http://127.0.0.1:{page.port}"}]}
    return schemathesis.openapi.from_dict(described)


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
def test_every_question_has_an_answer_as_described(case: Any) -> None:
    case.call_and_validate(checks=CHECKS)
