"""Figures of jobs for /metrics: what they are, when they are computed, and how Prometheus reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from roofline.answers.jobs import Job
from roofline.answers.report import Report
from roofline_server.health.jobs import EVERY_S, REST, WANTED_S, Figures, FiguresOfJobs, figures
from roofline_server.health.metrics import text

from tests.client.reports import absent, rank, report, roof, seen
from tests.client.verdicts import account, verdict

from .conditions import WELL
from .samples import samples

TAGS = {"slurm.user": "alice", "slurm.account": "physics", "experiment": "scaling"}
JOB = Job("42", 1_000_000_000, 9_000_000_000, 3, {"worker": 2, "ps": 1}, ["node1"], True, TAGS)
ACCOUNTS = [
    account("worker:0", compute=0.5, wait_ps=0.5),
    account("worker:1", compute=0.7),
    account("ps:0", None),
]


def made(**more: Any) -> Report:
    return report(
        [rank("worker:0"), rank("worker:1"), rank("ps:0")], verdict=verdict(accounts=ACCOUNTS, **more)
    )


def test_figures_of_a_job() -> None:
    found = figures(JOB, made(), 11_000_000_000)
    assert (found.job, found.nodes, found.seconds) == ("42", 1, 10.0)
    assert (found.step_seconds, found.examples_per_second) == (0.093, 404.4)
    assert (found.bottleneck, found.bottleneck_share) == ("server_overloaded", 0.48)
    shares = {role.role: role.shares for role in found.roles}
    assert shares["worker"] == pytest.approx({"compute": 0.6, "wait_ps": 0.25})
    assert shares["ps"] == {}, "a rank without an account has no share, not 0"


def test_what_is_not_known_is_none() -> None:
    nothing = figures(JOB, report([rank("worker:0")], verdict=None), 2_000_000_000)
    assert (nothing.step_seconds, nothing.examples_per_second, nothing.peak_share) == (None, None, None)
    unknown = made(bottleneck=None, step_median=absent("s"))
    found = figures(JOB, unknown, 2_000_000_000)
    assert (found.step_seconds, found.bottleneck, found.bottleneck_share) == (None, "", None)


def test_share_of_the_peak_needs_all_ranks_and_all_peaks() -> None:
    def share(second: float | None, **more: Any) -> float | None:
        ranks = [rank("worker:0"), rank("worker:1"), rank("ps:0")]
        for one, flops in zip(ranks, (1e9, second), strict=False):
            one.summary.values["flops_per_second"] = (
                absent("FLOP/s") if flops is None else seen(flops, "FLOP/s")
            )
        return figures(JOB, report(ranks, **more), 0).peak_share

    roofed = {"roofs": [roof("node1")]}
    peak = max(one.value for one in roof("node1").ceilings if one.kind == "compute")
    assert share(3e9, **roofed) == pytest.approx(4e9 / peak)
    assert share(None, **roofed) is None
    assert share(3e9, roofs=[]) is None


def test_figures_as_prometheus_reads_them() -> None:
    found = samples(text(WELL, Figures([figures(JOB, made(), 11_000_000_000)], omitted=2)))
    labels = 'job="42",user="alice",account="physics",partition="",name="",experiment="scaling"'
    assert found["roofline_jobs_running"] == 3
    assert f"roofline_job_info{{{labels}}} 1" in text(WELL, Figures([figures(JOB, made(), 0)]))
    assert found['roofline_job_step_seconds{job="42"}'] == 0.093
    assert found['roofline_job_part_share{job="42",role="worker",part="wait_ps"}'] == 0.25
    assert found['roofline_job_bottleneck_share{job="42",kind="server_overloaded"}'] == 0.48
    assert "account" not in "".join(name for name in found if not name.startswith("roofline_job_info"))


def test_nothing_is_said_before_anything_is_known() -> None:
    assert "roofline_job" not in text(WELL, None)
    assert samples(text(WELL, Figures()))["roofline_jobs_running"] == 0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_figures_are_computed_while_somebody_scrapes_and_rest_after_that() -> None:
    clock, looks = Clock(), []

    def look() -> Figures:
        looks.append(clock.now)
        clock.now += 2.0
        return Figures(omitted=1)

    jobs = FiguresOfJobs(look, clock)
    assert asyncio.run(jobs.turn()) == 1.0 and looks == [], "nobody has asked"
    assert jobs.asked() is None
    assert asyncio.run(jobs.turn()) == REST * 2.0 > EVERY_S
    assert jobs.asked() == Figures(omitted=1)
    clock.now += WANTED_S
    asyncio.run(jobs.turn())
    assert len(looks) == 1 and jobs.asked() is None


def test_figures_that_cannot_be_computed_are_missing(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Figures:
        raise ValueError("odd job")

    jobs = FiguresOfJobs(look, Clock())
    jobs.asked()
    assert asyncio.run(jobs.turn()) == EVERY_S
    assert jobs.asked() is None and "odd job" in caplog.text
