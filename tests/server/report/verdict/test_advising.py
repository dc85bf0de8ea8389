"""What is said of a healthy job's next gain, and whom advice is about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import AccountPart, Gain, RankAccount
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.job.build import first_screen
from roofline_server.report.verdict import advising
from roofline_server.report.verdict.advising import _of_roof
from roofline_server.report.verdict.findings import _finding
from roofline_server.report.verdict.signals import signals_of
from roofline_server.sentences import verdict as texts
from roofline_server.sentences.advice import Advised
from roofline_server.sentences.advice_cases import Case
from roofline_server.sentences.verdict import next_gain

from ..odd_jobs import Odd, stored

STEP = 0.1
GAIN = Gain(STEP, 0.09, 0.08, STEP)


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


def test_next_gain_says_whether_the_roof_is_known() -> None:
    assert texts.next_gain("compute|transfer") == (
        "kernels and communication of the GPU, slower than the roof allows"
    )
    for part in ("compute|host", "compute|contention", "input|compute|host"):
        assert texts.next_gain(part).endswith(", more than the roof needs")
        assert "overlap" not in texts.next_gain(part, roof_known=False)


@pytest.mark.parametrize(("known", "more"), [(False, ""), (True, ", not overlapped with kernels")])
def test_kernels_are_named_beside_a_gain_only_where_some_were_recorded(known: bool, more: str) -> None:
    assert next_gain("input|blocked", kernels_known=known) == f"input or time off the CPU{more}"


def test_advice_is_about_the_ranks_that_compute_on_the_node_of_the_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers on one node, one on another, and who evaluates there."""
    roles = ["worker"] * 4 + ["evaluator"]
    view = stored(tmp_path, [Odd(role, range(60)) for role in roles], asynchronous=False).view("job")
    assert view is not None
    found, made = gather(view), first_screen(view).verdict
    assert made is not None
    hosts = dict(zip(sorted(found.evidence), ["a", "a", "a", "b", "b"], strict=True))
    evidence = {number: rank._replace(host=hosts[number]) for number, rank in found.evidence.items()}
    cases: list[Case] = []
    monkeypatch.setattr(advising.advice, "advise", lambda case: cases.append(case) or Advised([], []))
    for host, ranks in (("a", "worker:0"), ("b", "worker:3")):
        one = _finding("slower", [ranks], host, cost=0.01, gain=GAIN, rate=Value(0.0, "1"), evidence=[])
        named = made._replace(kind="bottleneck", bottleneck=one, also=[])
        advising.advised(view, found._replace(evidence=evidence), named)
    assert [(case.per_node, case.on_node, case.workers) for case in cases] == [(3, 3, 4), (1, 2, 4)]


@pytest.mark.parametrize(("optimizer", "stretched"), [(0.002, True), (0.001, False)])
def test_advice_knows_that_all_phases_of_a_rank_are_stretched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: float, stretched: bool
) -> None:
    view = stored(tmp_path, [Odd("ddp", range(60))] * 3, asynchronous=False).view("job")
    assert view is not None
    found, made = gather(view), first_screen(view).verdict
    assert made is not None
    usual = {"kernels": np.full(60, 0.01), "phases": np.array([0.01, 0.02, 0.001])}
    slow = {"kernels": np.full(60, 0.02), "phases": np.array([0.02, 0.04, optimizer])}
    signals = {n: one._replace(**usual) for n, one in signals_of(view, found).items()}
    late = next(n for n, one in signals.items() if one.rank == "ddp:1")
    signals[late] = signals[late]._replace(**slow)
    monkeypatch.setattr(advising, "signals_of", lambda view, gathered: signals)
    cases: list[Case] = []
    monkeypatch.setattr(advising.advice, "advise", lambda case: cases.append(case) or Advised([], []))
    one = _finding("slower", ["ddp:1"], "a", cost=0.01, gain=GAIN, rate=Value(0.0, "1"), evidence=[])
    advising.advised(view, found, made._replace(kind="bottleneck", bottleneck=one, also=[]))
    assert [case.stretched for case in cases] == [stretched]
