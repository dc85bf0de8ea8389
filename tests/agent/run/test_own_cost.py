"""What the wrapper and the agent take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from roofline_agent.run.own_cost import EVERY_NS, OwnCost

TICKS = os.sysconf("SC_CLK_TCK")


def agent(proc: Path, seconds: float) -> None:
    (proc / "7").mkdir(exist_ok=True)
    ticks = round(seconds * TICKS)
    (proc / "7" / "stat").write_text(f"7 (agent) x) S {' 0' * 10} {ticks} {ticks} 0 0")


def test_agents_cpu_time_counts_from_the_second_look_on(tmp_path: Path) -> None:
    cost = OwnCost(tmp_path)
    begin = cost._began_ns
    assert not cost.is_due(begin) and cost.is_due(begin + EVERY_NS)
    agent(tmp_path, 1)
    first = cost.share(begin + 10**12, 7)
    agent(tmp_path, 51)
    second = cost.share(begin + 2 * 10**12, 7)
    assert first < 0.01
    assert second == pytest.approx(0.1 / (os.cpu_count() or 1), rel=0.05)


@pytest.mark.parametrize("pid", [0, 8])
def test_agent_that_cannot_be_read_is_left_out(tmp_path: Path, pid: int) -> None:
    cost = OwnCost(tmp_path)
    assert cost.share(cost._began_ns + 10**12, pid) < 0.01
