"""A calibration is of the machine as it is then: runs that are over keep theirs. Real processes."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_client import connect

from .conftest import COMMANDS, Site, wait_until
from .runs import JOB, STEPS, report_that_stays, train, until_finished, whole_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_calibration_made_later_does_not_change_a_finished_run(site: Site) -> None:
    site.server("--seal", "0.5")
    site.agent()
    calibrate(site)
    before = wait_until(lambda: ceilings(site), what="the server has the ceilings")
    train(site)
    until_finished(site, JOB)
    wait_until(lambda: site.steps("worker:0", JOB) == STEPS)
    first = report_that_stays(site)
    assert first["roofs"][0]["ceilings"]
    calibrate(site)
    wait_until(lambda: ceilings(site) != before, what="the server has the new ceilings")
    assert whole_report(site, JOB) == first


def calibrate(site: Site) -> None:
    state = ["--state", site.folder / "agent"]
    command = [COMMANDS / "roofline-agent", *state, "calibrate", "--quick", "--force"]
    assert site.start(command, "calibrate.log").wait(timeout=240) == 0, site.log("calibrate.log")


def ceilings(site: Site) -> list[Any]:
    """Of the machine as it is now."""
    with connect(site.address, timeout=20) as client:
        return [ceiling for version in client.machines() for ceiling in version.machine.ceilings]
