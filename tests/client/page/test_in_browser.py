"""What the scripts of the page make of answers, in a real browser; the server behind it follows a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from roofline.v1 import query_pb2 as pb
from roofline_client.page.job_list import MOST

from ...end_to_end.browser import CHROMIUM, Browser, tab_at
from ..fake_server import answer, serving
from .test_app import started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]


@contextmanager
def looking(folder: Path, jobs: Sequence[pb.Job] = (), **scripts: Any) -> Iterator[Browser]:
    """At the list of these jobs."""
    with serving(jobs=answer(pb.ListJobsResponse(jobs=jobs)), **scripts) as asked:
        served = started(asked.address, folder)
        try:
            with tab_at(f"http://127.0.0.1:{served.port}") as found:
                yield found
                assert found.problems == []
        finally:
            served.close()


def listed(page: Browser) -> list[str]:
    return [str(one) for one in page.tab.locator("#jobs td.name").all_inner_texts()]


def test_a_tag_that_has_a_comma_is_found(tmp_path: Path) -> None:
    jobs = [pb.Job(job="41", tags={"data": "a, b"}), pb.Job(job="42", tags={"data": "a"})]
    with looking(tmp_path, jobs) as page:
        page.waits_for("#jobs", "data=a, b")
        page.tab.select_option("select[name=tag]", "data=a, b")
        assert listed(page) == ["41"]
        page.tab.select_option("select[name=tag]", "data=a")
        assert listed(page) == ["42"]


def test_of_many_jobs_the_list_says_that_it_has_the_newest(tmp_path: Path) -> None:
    jobs = [pb.Job(job=str(number), end_ns=number) for number in range(MOST + 1)]
    with looking(tmp_path, jobs) as page:
        page.waits_for("#left-out", "The newest 500 of 501 jobs")
        assert len(listed(page)) == MOST
