from __future__ import annotations

import numpy as np
import pytest
from roofline_server.correlate.sampling import LIKE, RECORDED
from roofline_server.model.cost import Reported, cost, sentence
from roofline_server.model.evidence import RankEvidence, StepEvidence

from ..builders import ABSENT, MS
from .evidence import evidence


def sampled(count: int = 200, one_in: int = 10, slower: float = 0.2, warm_up: float = 1.0) -> RankEvidence:
    """Steps of 10 ms and, of every second like, of 20 ms; recorded ones take `slower` more."""
    number = np.arange(count)
    like = number // 10 % 2 + 1
    recorded = number % one_in == 0
    lasted = 10 * MS * like * np.where(recorded, 1 + slower, 1.0)
    lasted[:5] *= warm_up
    end = np.cumsum(lasted).astype(np.int64)
    steps = StepEvidence(number, np.append(0, end[:-1]), end, np.full(count, ABSENT), like)
    return evidence(steps=steps, columns={"kernels.origin": np.where(recorded, RECORDED, LIKE)})


def test_sampled_steps_are_held_against_others_of_the_same_like() -> None:
    found = cost([sampled()], Reported([], [None], 10))
    assert found["cost.kernels.slower"].value == pytest.approx(0.2, rel=0.01)
    assert found["cost.kernels.sampled_share"].value == pytest.approx(0.1)
    assert found["cost.kernels.share"].value == pytest.approx(0.02 / 1.02, rel=0.08)
    assert found["cost.share"].value == found["cost.kernels.share"].value


def test_lines_that_all_steps_print_cost_their_time_whatever_steps_were_read() -> None:
    found = cost([sampled(slower=0.0)], Reported([], [None], 10, [2_000.0, 12_000.0]))
    assert found["cost.kernels.share"].value == pytest.approx(0.06)
    assert found["cost.share"].value == found["cost.kernels.share"].value
    assert found["cost.kernels.slower"].value is None
    assert "about 6% to print 12,000 lines of kernels a second" in sentence(found)


def test_warm_up_is_no_cost() -> None:
    found = cost([sampled(slower=0.0, warm_up=50.0)], Reported([], [None], 10))
    assert found["cost.kernels.slower"].value == pytest.approx(0.0)


def test_steps_that_are_faster_with_kernels_cost_nothing() -> None:
    found = cost([sampled(slower=-0.1)], Reported([], [None], 10))
    assert found["cost.kernels.share"].value == 0
    assert found["cost.kernels.slower"].value == pytest.approx(-0.1, rel=0.02)


def test_cpu_time_counts_in_shares_of_the_node_and_hooks_in_shares_of_a_step() -> None:
    reported = Reported([(0.004, 0.02, 4), (0.008, None, 4)], [6e-6, None, 2e-6])
    found = cost([sampled(slower=0.0)], reported)
    assert found["cost.agent.cpu_utilization"].value == pytest.approx(0.006)
    assert found["cost.agent.share"].value == pytest.approx(0.0015)
    assert found["cost.wrapper.share"].value == pytest.approx(0.005)
    assert found["cost.hooks.share"].value == pytest.approx(4e-6 / 15e-3)
    assert found["cost.share"].value == pytest.approx(0.0015 + 0.005 + 4e-6 / 15e-3)


def test_parts_that_are_not_known_are_absent() -> None:
    found = cost([evidence()], Reported([(None, None, 4)], [None]))
    assert all(value.value is None and value.reason for value in found.values())
    assert sentence(found) == ""


def test_line_says_what_is_known_and_nothing_else() -> None:
    found = cost([sampled()], Reported([(0.004, None, 2)], [6e-6], 64))
    line = sentence(found)
    assert line.startswith("The profiler itself: ")
    assert "agent 0.4% of a core, hooks 6 us a step, kernels of 1 step in 64, +20.0% each" in line
    assert "wrapper" not in line
    assert "kernels" not in sentence(cost([evidence()], Reported([(0.004, 0.01, 2)], [None])))
