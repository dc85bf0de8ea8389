"""What is known of a rank's training thread, per step."""

from __future__ import annotations

import numpy as np
from roofline_server.correlate.spans import total
from roofline_server.correlate.steps import OWN
from roofline_server.model.evidence import StepEvidence
from roofline_server.records import ABSENT
from roofline_server.report.evidence.ranks import columns_of


def test_step_that_was_not_measured_is_absent_and_one_without_delay_has_none() -> None:
    steps = 4
    begin = np.arange(steps) * 100
    windows = {
        "rank": np.ones(steps, np.int64),
        "window": np.full(steps, OWN),
        "step": np.arange(steps),
        "begin_ns": begin,
        "end_ns": begin + 100,
    }
    sent = [
        ("thread.run.step", 50, 80),
        ("thread.delay.step", 50, 7),
        ("thread.run.step", 250, 90),
        ("thread.faults", 250, 3),
        ("phase.input", 10, 1),
    ]
    spans = {
        "rank": np.ones(len(sent), np.int64),
        "name": np.array([name for name, _, _ in sent], object),
        "time_ns": np.array([middle for _, middle, _ in sent]),
        "end_ns": np.array([middle + (name == "phase.input") for name, middle, _ in sent]),
        "bytes": np.full(len(sent), ABSENT),
        "count": np.array([count for _, _, count in sent]),
    }
    found = columns_of(
        StepEvidence(windows["step"], begin, begin + 100, np.full(steps, ABSENT)),
        {"steps_spans": total(windows, spans)},
    )
    assert found["thread.run.step.count"].tolist() == [80, ABSENT, 90, ABSENT]
    assert found["thread.delay.step.count"].tolist() == [7, ABSENT, 0, ABSENT]
    assert found["thread.faults.count"].tolist() == [0, ABSENT, 3, ABSENT]
    # They are amounts: no time of their own, and nothing where nobody reports them.
    assert "thread.run.step.ns" not in found
    assert "thread.gc.count" not in found
    assert found["phase.input.ns"].tolist() == [1, ABSENT, ABSENT, ABSENT]
