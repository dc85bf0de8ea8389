"""The live page in a real browser while real trainings start, run and end: PS and DDP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..end_to_end.browser import CHROMIUM, PATIENCE_MS, Browser, looking
from ..end_to_end.conftest import Site, wait_until
from .tensorflow_ps_example import launch
from .torch_runs import DDP, torchrun, wrapping

pytestmark = [
    pytest.mark.framework,
    pytest.mark.timeout(300),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]
STARTING_MS = 90_000


def test_a_ps_training_is_seen_from_its_start_to_its_end(site: Site, tensorflow_python: str) -> None:
    watched(site, launch(site, tensorflow_python, True, 150), "tensorflow-ps", "worker:0")


def test_a_ddp_training_is_seen_from_its_start_to_its_end(site: Site, torch_python: str) -> None:
    watched(site, torchrun(torch_python, wrapping("--job", "ddp"), [DDP, "--steps", 1000]), "ddp", "ddp:0")


def watched(site: Site, command: list[str], job: str, rank: str) -> None:
    """Nothing runs yet when the list of jobs is opened; what the job's page shows in the end is what the
    command line prints."""
    site.server()
    site.agent()
    with looking(site) as page:
        page.waits_for("tr", "no jobs yet")
        training = site.start(command, "training.log")
        page.waits_for("tr", f"{job}.*running", STARTING_MS)
        page.tab.click("td a")
        page.tab.locator("#steps .main-svg").first.wait_for(timeout=STARTING_MS)
        before = newest_step(page)
        wait_until(lambda: newest_step(page) > before, what="steps arrive while it runs")
        assert training.wait(240) == 0, site.log("training.log")
        page.waits_for("#state", "finished", PATIENCE_MS)
        wait_until(lambda: shown(page) == printed(site, job), 60, "the page shows what is printed")
        found = printed(site, job)
        assert found["accounts"] and rank in found["accounts"] and found["points"]
        assert page.problems == [] and page.elsewhere == []


def newest_step(page: Browser) -> int:
    """That is drawn."""
    drawn = "Math.max(-1, ...(document.getElementById('steps').data || []).map(one => one.x.at(-1)))"
    return int(page.tab.evaluate(drawn))


def shown(page: Browser) -> dict[str, Any]:
    """The headline, the account of each rank (s a step) and the points under the roof, as they are drawn."""
    bars = page.tab.evaluate("document.getElementById('account').data.map(one => [one.y, one.x])")
    unit = page.tab.evaluate("document.getElementById('account').layout.xaxis.title.text")
    scale = 1e3 if "(ms)" in unit else 1.0
    accounts: dict[str, float] = {}
    for ranks, times in bars:
        for rank, time in zip(ranks, times, strict=True):
            accounts[rank] = accounts.get(rank, 0.0) + time / scale
    points = page.tab.evaluate(
        "document.getElementById('roofline').data.filter(one => one.mode === 'markers')"
        ".map(one => [one.name, one.x[0], one.y[0]])"
    )
    return {
        "headline": page.text("#headline"),
        "accounts": {rank: float(f"{time:.9g}") for rank, time in accounts.items()},
        "points": sorted((name, float(f"{x:.9g}"), float(f"{y:.9g}")) for name, x, y in points),
    }


def printed(site: Site, job: str) -> dict[str, Any]:
    """The same from `--format json`."""
    verdict = asked(site, "report", "--job", job)["verdict"]
    roofline = asked(site, "roofline", "--job", job, "--points", "role")
    accounts = [one for one in verdict["accounts"] if one["parts"]]
    points = [
        (one["label"], one["intensity"]["value"], one["flops_per_second"]["value"])
        for one in roofline["points"]
    ]
    return {
        "headline": verdict["headline"],
        "accounts": {
            one["rank"]: float(f"{sum(part['time']['value'] or 0.0 for part in one['parts']):.9g}")
            for one in accounts
        },
        "points": sorted((name, float(f"{x:.9g}"), float(f"{y:.9g}")) for name, x, y in points if x and y),
    }


def asked(site: Site, *question: str) -> Any:
    done = site.ask(*question, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
