"""The live page in a real browser, with real ranks, agent and server; skipped where there is no Chromium."""

from __future__ import annotations

import gzip
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .browser import CHROMIUM, PATIENCE_MS, Browser, looking, tab_at
from .conftest import Site, wait_until
from .guarded import Person
from .guarded import guarded as guarded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]


@pytest.fixture
def page(site: Site) -> Iterator[Browser]:
    """Of a server with an agent and two workers that train."""
    site.server()
    site.agent()
    for index in range(2):
        site.rank("worker", index, 1_000_000, 0.02, 8)
    wait_until(lambda: site.steps("worker:1") > 20, what="the workers step")
    with looking(site) as found:
        yield found


def test_a_job_is_watched_while_it_runs(page: Browser, site: Site) -> None:
    page.waits_for("tr", "42.*running")
    page.tab.fill("#find", "no such job")
    page.waits_for("tr", "no job is like this")
    assert "find=no+such+job" in page.tab.url
    page.tab.fill("#find", "")
    page.tab.click("td a")
    page.waits_for("#verdict", "Throughput")
    for picture in ("account", "steps", "late", "roofline"):
        page.tab.locator(f"#{picture} .main-svg").first.wait_for(timeout=PATIENCE_MS)

    before = newest_step(page)
    wait_until(lambda: newest_step(page) > before, 20, "steps arrive in the picture")
    assert site.steps("worker:0") - newest_step(page) < 20 / 0.02, "what is drawn is not old"

    asked = site.ask("report", "--job", "42", "--format", "json")
    shown = page.tab.evaluate("fetch('/api/v1/report?job=42').then(answer => answer.json())")
    printed = json.loads(asked.stdout)
    assert shown.keys() == printed.keys()
    assert [rank["rank"] for rank in shown["ranks"]] == [rank["rank"] for rank in printed["ranks"]]
    assert page.problems == [] and page.elsewhere == []


def test_a_rank_that_is_slowed_meanwhile_turns_up_in_the_verdict(page: Browser, site: Site) -> None:
    page.tab.click("td a")
    page.waits_for("#verdict", "Throughput")
    worker = next(
        one for one in psutil.process_iter(["cmdline", "environ"])
        if "training.py" in " ".join((one.info["cmdline"] or [])[1:2])
        and '"index": 0' in (one.info["environ"] or {}).get("TF_CONFIG", "")
        and str(site.folder) in (one.info["environ"] or {}).get("ROOFLINE_SOCKET", "")
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while "worker:0 stopped" not in page.text("#verdict"):
        assert time.monotonic() < deadline, page.text("#verdict")
        worker.send_signal(signal.SIGSTOP)
        time.sleep(0.15)
        worker.send_signal(signal.SIGCONT)
        time.sleep(0.1)


def test_the_page_goes_on_when_the_server_is_back(page: Browser, site: Site, tmp_path: Path) -> None:
    page.tab.click("td a")
    page.waits_for("#verdict", "Throughput")
    server = next(p for p in site._running if "roofline-server" in str(p.args))
    server.kill()
    server.wait()
    page.waits_for("#link", "no roofline-server answers|away")
    assert "Throughput" in page.text("#verdict"), "what was seen last stays"
    site.server()
    wait_until(lambda: page.text("#link") == "", 40, "the page knows that the server is back")
    before = newest_step(page)
    wait_until(lambda: newest_step(page) > before, 20, "steps arrive again")
    assert page.problems == []


def drag_over_steps(page: Browser) -> tuple[int, int]:
    """The steps that are picked by it, first and last."""
    page.tab.locator("#late .main-svg").first.wait_for(timeout=PATIENCE_MS)
    steps = page.tab.locator("#steps .nsewdrag").first
    steps.scroll_into_view_if_needed()
    box = steps.bounding_box()
    page.tab.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 40)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60, steps=5)
    page.tab.mouse.up()
    page.tab.wait_for_url(re.compile(r"steps=\d+%3A\d+"))
    first, last = page.tab.url.partition("steps=")[2].split("%3A")
    return int(first), int(last)


def test_steps_of_a_job_that_is_over_are_picked_though_nothing_comes_any_more(site: Site) -> None:
    site.server()
    site.agent()
    ranks = [site.rank("worker", index, 60, 0.02, 8) for index in range(2)]
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    wait_until(lambda: site.report("42")["state"] != "running", what="the ends of the ranks arrive")
    with looking(site) as page:
        page.tab.goto(f"{page.home}/job?job=42")
        page.tab.locator("#verdict:not([aria-busy])").wait_for(timeout=PATIENCE_MS)
        first, last = drag_over_steps(page)
        page.waits_for("#verdict", f"only {first} to {last}")
        assert page.problems == []


def test_steps_that_are_picked_are_what_everything_is_of(page: Browser, site: Site) -> None:
    page.tab.click("td a")
    page.waits_for("#verdict", "Throughput")
    first, last = drag_over_steps(page)
    page.waits_for("#verdict", f"only {first} to {last}")
    newest = "document.getElementById('late').data[0].x.at(-1)"
    wait_until(lambda: page.tab.evaluate(newest) <= last, 20, "lateness is of these steps alone")
    found = page.tab.evaluate("fetch('/api/v1/report?' + query()).then(answer => answer.json())")
    assert (found["first_step"], found["last_step"]) == (first, last)
    account = page.tab.evaluate("document.getElementById('account').data.reduce((sum, d) => sum + d.x[0], 0)")
    assert account == pytest.approx(1e3 * found["verdict"]["accounts"][0]["step"]["value"], rel=0.01)

    page.tab.go_back()
    page.waits_for("#picked", "steady steps")
    page.tab.fill("input[name=first]", "5")
    page.tab.keyboard.press("Enter")
    page.waits_for("#verdict", "only 5 to the last")
    assert page.problems == [] and page.elsewhere == []


def test_every_page_is_there(page: Browser, site: Site) -> None:
    for path, words in (
        ("/agents", "clock error"),
        ("/machines", "held against"),
        ("/details?job=42", "steps|Notes|collectives"),
        ("/stragglers?job=42", "worker"),
    ):
        page.tab.goto(page.home + path)
        page.waits_for("main", words)
        assert page.tab.locator("[role=alert]").count() == 0
    assert page.problems == [] and page.elsewhere == []


def test_without_internet_the_timeline_is_a_file(page: Browser, site: Site) -> None:
    page.tab.context.route("https://ui.perfetto.dev/**", lambda route: route.abort())
    page.tab.goto(page.home + "/job?job=42")
    page.waits_for("#verdict", "Throughput")
    with page.tab.expect_download(timeout=PATIENCE_MS) as kept:
        page.tab.click("#perfetto")
    assert kept.value.suggested_filename == "timeline-job-42.json.gz"
    trace = json.loads(gzip.decompress(Path(kept.value.path()).read_bytes()))
    assert any(event.get("ph") == "X" for event in trace["traceEvents"])


def newest_step(page: Browser) -> int:
    """That is drawn."""
    return int(page.tab.evaluate("Math.max(...document.getElementById('steps').data.map(d => d.x.at(-1)))"))


def test_who_has_a_token_logs_in_and_out(guarded: tuple[Person, str]) -> None:
    owner, place = guarded
    with tab_at(f"http://{place}") as page:
        page.tab.fill("input[name=token]", owner.token("--role", "reader"))
        page.tab.get_by_role("button", name="look").click()
        page.waits_for("#jobs", "^no jobs")
        assert page.tab.url == f"{page.home}/"
        page.tab.get_by_role("button", name="log out").click()
        page.waits_for("h1", "Who looks")
        page.tab.goto(page.home)
        assert page.tab.url == f"{page.home}/login", "the session is over"
        assert page.problems == [] and page.elsewhere == []


def test_who_is_no_longer_logged_in_is_told_so_instead_of_a_timeline(guarded: tuple[Person, str]) -> None:
    owner, place = guarded
    with tab_at(f"http://{place}") as page:
        page.tab.context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(body=""))
        page.tab.fill("input[name=token]", owner.token("--role", "reader"))
        page.tab.get_by_role("button", name="look").click()
        page.tab.goto(f"{page.home}/job?job=42&steps=0:9")
        page.waits_for("#verdict", "no job")
        page.tab.context.clear_cookies()
        page.tab.locator("#perfetto").evaluate("link => link.click()")
        page.waits_for("#link", "log in first")
