"""What is said of a healthy job's next gain, of accounts made by hand."""

from __future__ import annotations

import pytest
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import AccountPart, RankAccount
from roofline_server.report.verdict.advising import _next_gain, _of_roof

STEP = 0.1


def account(roof: float | None, **parts: float) -> RankAccount:
    """parts: seconds of a step; "__" stands for "|"."""
    absent = Value(None, "core", reason="not asked")

    def seconds(number: float | None) -> Value:
        return value(number, "s", Provenance.MEASURED, Scope.PROCESS, missing="not known")

    return RankAccount(
        rank="ddp:0",
        role="ddp",
        host="a",
        steps=100,
        step=seconds(STEP),
        parts=[
            AccountPart(name.replace("__", "|"), seconds(number), seconds(number / STEP))
            for name, number in parts.items()
        ],
        roof=seconds(roof),
        cores=absent,
        received=absent,
        sent=absent,
        exit="",
    )


def test_kernels_reach_the_share_of_their_roof_that_they_need_of_it() -> None:
    assert _of_roof([account(0.03, compute=0.06), account(0.05, compute=0.04)]) == pytest.approx(0.8)
    assert _of_roof([account(None, compute=0.06)]) is None
    assert _of_roof([account(0.03, compute__transfer=0.06)]) is None, "what of it are kernels is not known"


def test_gpus_that_run_the_collectives_have_no_gain_of_what_their_roof_needs() -> None:
    found = _next_gain([account(0.06, compute__transfer=0.085, host=0.015)], {"ddp:0"})
    assert found is not None
    assert (found.kind, found.cost.value) == ("compute|transfer", pytest.approx(0.025))
    assert found.sentence == "kernels and communication of the GPU, slower than the roof allows"
    found = _next_gain([account(0.08, compute__transfer=0.085, host=0.015)], {"ddp:0"})
    assert found is not None and found.kind == "host"
