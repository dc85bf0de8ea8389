"""A restart within a run is no time between steps, and the slow first step after it no steady one."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.model.times import beside
from roofline_server.report.evidence.gathering import gather
from roofline_server.report.evidence.steady import left_out_of
from roofline_server.report.job.build import build
from roofline_server.report.questions import STEADY_STEPS
from roofline_server.store.view import JobView

from ...builders import ABSENT, BEGIN, BORDER, END, MS, Node, S, batch, marks, open_store, rank

FIRST, STEPS, DOWN = 100 * S, 60, 30 * S


def restarted(folder: Path, second: int, pairs: bool, sealed: bool) -> JobView:
    """Two ranks, each a process of 60 steps of 50 ms and, half a minute after it has ended, another. The
    first step of each process takes 1 s. second: number of the first step of the second; pairs: steps have
    an end of their own; sealed: the first has been sealed before the second is there."""
    store, node = open_store(folder), Node("a")
    node.greet(store)
    now = FIRST
    for sequence, (first, pid) in enumerate(((0, 100), (second, 200)), 1):
        begun, said = now, [] if pairs else [(who, BORDER, first - 1, ABSENT, now) for who in (0, 1)]
        for step in range(first, first + STEPS):
            end = now + (S if step == first else 50 * MS)
            for who in (0, 1):
                said += [(who, BEGIN, step, ABSENT, now)] if pairs else []
                said.append((who, END if pairs else BORDER, step, 8, end))
            now = end
        ranks = [
            rank(role="ddp", index=who, pid=pid + who, start_ns=begun - 5 * S, launch="one") for who in (0, 1)
        ]
        node.put(store, batch(sequence, begun, now + 10 * S, ranks=ranks, marks=marks(said)))
        if sealed:
            store.seal()
        now += DOWN
    view = store.view("job")
    assert view is not None
    return view


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("second", [STEPS, 0])
def test_a_restart_costs_no_step_anything(tmp_path: Path, second: int, pairs: bool, sealed: bool) -> None:
    view = restarted(tmp_path, second, pairs, sealed)
    left = [(one.reason, one.steps, one.seconds) for one in left_out_of(view, STEADY_STEPS)]
    assert left == [("warm-up", 1, pytest.approx(1)), ("after a break", 1, pytest.approx(1))]
    assert [beside(one.steps) for one in gather(view).evidence.values()] == [pytest.approx(0)] * 2
    verdict = build(view).verdict
    assert verdict is not None and verdict.examples_per_second.value == pytest.approx(2 * 8 / 0.05)
