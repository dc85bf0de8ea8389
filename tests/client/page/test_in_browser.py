"""What the scripts of the page make of answers, in a real browser; the server behind it follows a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import query_pb2 as pb
from roofline_client.page.job_list import MOST

from ...end_to_end.browser import CHROMIUM, Browser, tab_at
from ...end_to_end.conftest import wait_until
from .. import models
from ..fake_server import Script, answer, serving
from . import overviews
from .page_process import started

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


def test_of_many_nodes_the_list_names_a_few_and_all_are_searched(tmp_path: Path) -> None:
    jobs = [pb.Job(job="41", hosts=[f"node{number}" for number in range(125)]), pb.Job(job="42", hosts=["a"])]
    with looking(tmp_path, jobs) as page:
        page.waits_for("#jobs", "node0, node1 and 123 more")
        assert page.tab.evaluate("document.querySelector('table').scrollWidth <= innerWidth")
        page.tab.fill("#find", "node99")
        assert listed(page) == ["41"]


def test_of_many_jobs_the_list_says_that_it_has_the_newest(tmp_path: Path) -> None:
    jobs = [pb.Job(job=str(number), end_ns=number) for number in range(MOST + 1)]
    with looking(tmp_path, jobs) as page:
        page.waits_for("#left-out", "The newest 500 of 501 jobs")
        assert len(listed(page)) == MOST


UNSETTLED = "[aria-busy], .waits"
NONE = "job 42 has no steps 1000 to 2000"


def of_few_steps(message: Any) -> Script:
    """The answer about a job that has fewer than 1,000 steps."""

    def answered(request: Any, context: grpc.ServicerContext) -> Any:
        if getattr(request, "subject", request).first_step >= 1000:
            context.abort(grpc.StatusCode.NOT_FOUND, NONE)
        return message

    return answered


@contextmanager
def looking_at_job(folder: Path, query: str = "") -> Iterator[Browser]:
    verdict = pb.Verdict(state="finished", headline="all is well", kind="healthy")
    verdict.accounts.add(rank="worker:0").parts.add(part="compute").time.value = 0.1
    scripts = {
        "report": of_few_steps(pb.Report(job="42", verdict=verdict)),
        "GetRoofline": of_few_steps(models.roofline()),
        "GetStepOverview": of_few_steps(overviews.message()),
    }
    with looking(folder, **scripts) as page:
        page.tab.goto(f"{page.home}/job?job=42{query}")
        yield page


def pick(page: Browser, first: int, last: int) -> None:
    page.tab.fill("input[name=first]", str(first))
    page.tab.fill("input[name=last]", str(last))
    page.tab.keyboard.press("Enter")


@pytest.mark.parametrize(
    ("first", "last", "problem"), [(1000, 2000, NONE), (20, 10, "the first comes after the last")]
)
def test_a_pick_that_cannot_be_says_so_and_nothing_of_another_stays(
    tmp_path: Path, first: int, last: int, problem: str
) -> None:
    with looking_at_job(tmp_path) as page:
        page.waits_for("#verdict", "all is well")
        page.tab.locator("#account .main-svg").first.wait_for()
        pick(page, first, last)
        for place in ("#verdict", "#account-problem", "#roofline-problem", "#late-problem"):
            page.waits_for(place, problem)
        assert page.tab.locator(f"{UNSETTLED}, #account .main-svg:visible").count() == 0
        assert page.text("#account-table") == ""
        page.tab.click("#all")
        page.tab.locator("#late .main-svg").first.wait_for()
        begin = "document.getElementById('late').layout.xaxis.range[0]"
        wait_until(lambda: page.tab.evaluate(begin) < 0, 20, "all steps are in sight")
        pick(page, 0, 2)
        page.waits_for("#verdict", "all is well")
        page.tab.locator("#account .main-svg").first.wait_for()
        wait_until(lambda: page.tab.locator(UNSETTLED).count() == 0, 20, "nothing waits")
        assert page.tab.locator("[id$=-problem]:visible").count() == 0


@pytest.mark.parametrize(
    ("steps", "problem"), [("1000:2000", NONE), ("20:10", "the first comes after the last")]
)
def test_a_page_that_is_opened_with_such_a_pick_says_so_and_another_can_be_picked(
    tmp_path: Path, steps: str, problem: str
) -> None:
    with looking_at_job(tmp_path, f"&steps={steps}") as page:
        page.waits_for("#verdict", problem)
        page.tab.locator("#verdict:not([aria-busy]):not(.waits)").wait_for()
        pick(page, 0, 2)
        page.waits_for("#verdict", "all is well")
        assert page.tab.locator("[aria-busy]").count() == 0
