"""What the page shows of the steps of a job, of jobs in a store."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from roofline.answers.step_overview import StepOverview
from roofline_server.report.questions import ALL_STEPS
from roofline_server.report.steps.overview import step_overview

from ..odd_jobs import Odd, stored

MANY = range(20)


def overview(folder: Path, *ranks: Odd) -> StepOverview:
    view = stored(folder, ranks, asynchronous=False).view("job")
    assert view is not None
    return step_overview(view, ALL_STEPS, 0)


def test_a_rank_whose_communication_nobody_reports_is_not_late(tmp_path: Path) -> None:
    """The others are known to be blocked for half of each step."""
    found = overview(tmp_path, Odd("ddp", MANY), Odd("ddp", MANY), Odd("ddp", MANY, spanned=False))
    assert [row.mean for row in found.lateness[:2]] == [0, 0]
    assert math.isnan(found.lateness[2].mean) and found.lateness[2].latest == ""


def test_where_nobody_reports_communication_the_slower_is_late(tmp_path: Path) -> None:
    found = overview(
        tmp_path, *(Odd("ddp", MANY, lasting=20_000_000 + 1000 * r, spanned=False) for r in range(3))
    )
    assert [row.mean for row in found.lateness] == pytest.approx([-1e-6, 0, 1e-6])
