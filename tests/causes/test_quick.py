"""A few runs of the benchmark, on real trainings: about two minutes of `make test-frameworks`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..frameworks.conftest import interpreter
from .observe import Setting
from .plans import HEALTHY, Plan
from .runs import run
from .score import is_disturbed

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

SECONDS = 8


def found(plan: Plan, raw: Path) -> dict[str, Any]:
    name, variable = ("tensorflow", "TF") if plan.servers else ("torch", "TORCH")
    result = run(plan, Setting({name: interpreter(f"ROOFLINE_{variable}_PYTHON")}, SECONDS, raw))
    if is_disturbed(result):
        pytest.skip("other programs compute here: what is said would be of them")
    return result


@pytest.mark.parametrize(("cause", "kind"), [("sleep_input", "input"), ("sleep_step", "blocked")])
def test_rank_that_sleeps_is_named_with_cause_and_cost(cause: str, kind: str, tmp_path: Path) -> None:
    result = found(Plan("ddp", "cnn", cause, 0.5, "quiet", 1), tmp_path)
    said = result["said"]["findings"]
    assert said, result["said"]
    assert (said[0]["rank"], said[0]["kind"]) == ("ddp:1", kind), result["said"]
    assert said[0]["cost_s"] == pytest.approx(result["truth"]["cost_s"], rel=0.25)


@pytest.mark.parametrize(("framework", "model"), [("ddp", "gpt"), ("ps_async", "cnn")])
def test_healthy_training_names_nobody(framework: str, model: str, tmp_path: Path) -> None:
    result = found(Plan(framework, model, HEALTHY, 0, "quiet", 0), tmp_path)
    assert [one for one in result["said"]["findings"] if one["rank"]] == [], result["said"]
