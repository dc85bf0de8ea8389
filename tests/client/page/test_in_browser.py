"""What the scripts of the page make of answers, in a real browser; the server behind it follows a script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from roofline.v1 import query_pb2 as pb

from ...end_to_end.browser import CHROMIUM, Browser, tab_at
from ..fake_server import answer, serving
from .test_app import started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]

JOBS = [
    pb.Job(job="41", begin_ns=1, end_ns=2, tags={"data": "a, b"}),
    pb.Job(job="42", begin_ns=1, end_ns=3, tags={"data": "a"}),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with serving(jobs=answer(pb.ListJobsResponse(jobs=JOBS))) as asked:
        served = started(asked.address, tmp_path_factory.mktemp("config"))
        with tab_at(f"http://127.0.0.1:{served.port}") as found:
            yield found
        served.close()


def listed(page: Browser) -> list[str]:
    return [str(one) for one in page.tab.locator("#jobs td.name").all_inner_texts()]


def test_a_tag_that_has_a_comma_is_found(page: Browser) -> None:
    page.tab.goto(page.home)
    page.waits_for("#jobs", "data=a, b")
    page.tab.select_option("select[name=tag]", "data=a, b")
    assert listed(page) == ["41"]
    page.tab.select_option("select[name=tag]", "data=a")
    assert listed(page) == ["42"]
    assert page.problems == []
