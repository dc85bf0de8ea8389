"""Dashboards and rules ask for what /metrics gives, and for nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from roofline_server.health.jobs import Figures, JobFigures, RoleFigures
from roofline_server.health.metrics import text

from .server.health.conditions import condition

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RULES = DEPLOY / "prometheus" / "roofline.rules.yml"
NAME = re.compile(r"\b(?:roofline|process)_[a-z_]+\b|\broofline:[a-z_]+:[a-z0-9]+\b")
ROLE = RoleFigures("worker", 2, 1e9, 0.3, {"compute": 0.5, "wait_ps": 0.5})
JOB = JobFigures("42", 2, {}, 10.0, 0.1, 400.0, 0.2, "server_overloaded", 0.4, [ROLE])


def given() -> set[str]:
    """All names of samples that /metrics can have, and those that rules record."""
    shown = text(condition(refusals=0), Figures([JOB]))
    names = {re.split(r"[{ ]", line)[0] for line in shown.splitlines() if not line.startswith("#")}
    return names | set(re.findall(r"record: (\S+)", RULES.read_text()))


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_there_are_two_dashboards() -> None:
    assert [one.stem for one in DASHBOARDS] == ["jobs", "server"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_asks_for_what_there_is(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    variables = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    asked = {name for one in (*expressions(dashboard), *variables) for name in NAME.findall(one)}
    assert asked and asked <= given()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_numbers_and_places_of_their_own(path: Path) -> None:
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken)) and all(x < 24 for x, _ in taken)


def test_every_metric_of_a_job_is_on_a_dashboard_or_in_a_rule() -> None:
    asked = RULES.read_text() + "".join(path.read_text() for path in DASHBOARDS)
    of_jobs = {name for name in given() if name.startswith("roofline_job_")}
    assert of_jobs - set(NAME.findall(asked)) <= {
        *("roofline_job_seconds", "roofline_job_ranks", "roofline_job_flops_per_second")
    }


def test_rules_ask_for_what_there_is() -> None:
    expressions = re.findall(r"expr: (.*)", RULES.read_text())
    assert {name for one in expressions for name in NAME.findall(one)} <= given()


@pytest.mark.skipif(not shutil.which("promtool"), reason="this machine has no promtool (Debian: prometheus)")
@pytest.mark.parametrize(
    "command",
    [
        ["check", "rules", "roofline.rules.yml"],
        ["test", "rules", "roofline.rules.test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ],
    ids=" ".join,
)
def test_rules_pass_promtool(command: list[str]) -> None:
    done = subprocess.run(["promtool", *command], cwd=RULES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
