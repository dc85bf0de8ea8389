"""What lies between steps."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.evidence import StepEvidence
from roofline_server.model.times import beside


def steps(gap_ns: int) -> StepEvidence:
    # Of such a length that sums of seconds differ from the sum of ns in their last digits.
    lasting = np.random.default_rng(2).integers(50_000_000, 70_000_000, 80)
    end = np.cumsum(lasting + gap_ns)
    return StepEvidence(np.arange(len(lasting)), end - lasting, end, np.zeros(len(lasting), np.int64))


def test_nothing_lies_between_steps_that_follow_each_other() -> None:
    assert beside(steps(0)) == 0.0


def test_what_lies_between_two_steps_in_a_row_is_counted() -> None:
    assert beside(steps(1000)) == pytest.approx(1e-6 * 79 / 80)
