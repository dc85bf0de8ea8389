"""Steps that trainings say by OpenTelemetry's own SDK, through a real agent and server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import free_port

from .conftest import COMMANDS, Site, values, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TRAINING = Path(__file__).with_name("otlp_training.py")
STEPS = 60


def test_spans_of_two_ranks_are_their_steps_and_phases(site: Site) -> None:
    site.server()
    place = f"127.0.0.1:{free_port()}"
    state = site.folder / "agent"
    site.start(
        [COMMANDS / "roofline-agent", "--interval", "0.1", "--state", state, "--otlp", place], "agent.log"
    )
    wait_until(site.listens, what="the agent listens")
    environ = {**site.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{place}", "ROOFLINE_JOB": "42"}
    ranks = []
    try:
        for rank in range(2):
            command = [sys.executable, TRAINING, str(rank), str(STEPS)]
            ranks.append(subprocess.Popen(command, env=environ, stdin=subprocess.PIPE))
        names = [f"ddp:{rank}" for rank in range(2)]
        wait_until(lambda: all(site.steps(name) == STEPS for name in names), what="all steps are there")
        report = site.report()
    finally:
        for one in ranks:
            one.kill()
            one.communicate()
    assert [one["rank"] for one in report["ranks"]] == names
    for name in names:
        found = values(report, name)
        assert found["steps"] == STEPS and found["step_time_median"] >= 0.02
        assert 0 < found["examples_per_second"] <= 32 / 0.02
        assert found["forward_time_per_step"] >= 0.015 and found["optimizer_time_per_step"] >= 0.005
