"""Whatever a job lacks, its report is made: no verdict makes it fail, and none costs more than a step."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest
from roofline_server.errors import BadRequest, UnknownRank
from roofline_server.report.comparison.comparisons import compare
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, STEADY_STEPS
from roofline_server.report.waits.stragglers import find
from roofline_server.report.what_if.what_if import WhatIfQuery, what_if

from ...builders import S
from ..odd_jobs import FIRST, Odd, stored

MANY = range(60)
JOBS = {
    "no steps": [Odd("ddp"), Odd("ddp")],
    "one step": [Odd("ddp", [0]), Odd("ddp", [0])],
    "one rank": [Odd("ddp", MANY, readings=5)],
    "one rank of which nothing is known": [Odd("worker", MANY, spanned=False)],
    "servers without workers": [Odd("ps", readings=5), Odd("ps")],
    "servers that were never read": [Odd("ps"), Odd("worker", MANY), Odd("worker", MANY)],
    "counters without values": [Odd(r, MANY, readings=9, growth=None) for r in ("worker", "worker")],
    "servers whose counters have no values": [
        Odd("ps", readings=9, growth=None),
        Odd("worker", MANY, readings=9, growth=None),
    ],
    "servers that were stopped all the time": [
        Odd("ps", readings=9, growth=S),
        Odd("worker", MANY, readings=9),
        Odd("worker", range(0, 300, 5), readings=9),
    ],
    "a worker with one step": [Odd("ps", readings=9), Odd("worker", MANY, readings=9), Odd("worker", [7])],
    "steps that nobody shares": [Odd("ddp", MANY), Odd("ddp", range(1000, 1060))],
    "ranks at other times": [Odd("ddp", MANY), Odd("ddp", MANY, begin=FIRST + 5 * S)],
    "a rank that left early": [Odd("ddp", MANY), Odd("ddp", range(9))],
    "steps of no length": [Odd("ddp", MANY, lasting=0), Odd("ddp", MANY, lasting=0, readings=3)],
    "a worker with steps of no length": [Odd("ps", readings=9), Odd("worker", MANY, 0), Odd("worker", MANY)],
    "two attempts": [Odd("ddp", [*range(30), *range(20, 60)]), Odd("ddp", [*range(30), *range(20, 60)])],
    "kernels of ranks without steps": [Odd("ps", readings=9, calls=3), Odd("worker", calls=1)],
    "an evaluator alone": [Odd("evaluator", MANY)],
    "a chief alone": [Odd("chief", MANY), Odd("ps", readings=5)],
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["", "asynchronous"])
@pytest.mark.parametrize("name", JOBS)
def test_report_is_made(tmp_path: Path, name: str, asynchronous: bool) -> None:
    view = stored(tmp_path, JOBS[name], asynchronous).view("job")
    assert view is not None
    for steps in (STEADY_STEPS, ALL_STEPS):
        found = build(view, steps).verdict
        assert found is not None and found.headline
        for one in [found.bottleneck, *found.also]:
            if one is not None:
                assert one.cost.value is not None and isfinite(one.cost.value)
                assert one.share.value is not None and 0 <= one.share.value <= 1
        for account in found.accounts:
            assert sum(part.share.value or 0.0 for part in account.parts) == pytest.approx(
                1 if account.parts else 0
            )
        assert find(view, steps).verdict
    assert compare(view, view).headline
    for asked in (WhatIfQuery(ranks=3), WhatIfQuery(bandwidth_times=2.0), *map(fixed, ("input", "ps:0"))):
        try:
            assert what_if(view, asked).sentence
        except (BadRequest, UnknownRank) as refused:
            assert str(refused)


def fixed(what: str) -> WhatIfQuery:
    return WhatIfQuery(fix=what)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no steps", "not known: no steps were seen"),
        ("one step", "not known: 1 steady step is too few"),
        ("one rank of which nothing is known", "worker:0 is the only rank: no rank waits"),
    ],
)
def test_stragglers_of_a_job_that_can_have_none(tmp_path: Path, name: str, says: str) -> None:
    view = stored(tmp_path, JOBS[name], False).view("job")
    assert view is not None
    assert find(view, STEADY_STEPS).verdict == says
