from __future__ import annotations

import os
import threading
import time
from functools import partial

import pytest
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.team import run_together

CPUS = tuple(sorted(os.sched_getaffinity(0)))


def test_each_task_runs_on_its_own_cpu() -> None:
    seen: dict[int, set[int]] = {}

    def look(key: int) -> None:
        seen[key] = os.sched_getaffinity(0)

    run_together(CPUS, [lambda cpu=cpu: look(cpu) for cpu in CPUS])  # type: ignore[misc]
    assert seen == {cpu: {cpu} for cpu in CPUS}


def test_caller_keeps_its_cpus() -> None:
    run_together(CPUS, [lambda: None] * len(CPUS))
    assert tuple(sorted(os.sched_getaffinity(0))) == CPUS


def test_tasks_run_at_the_same_time() -> None:
    # Each waits for the other: run one after the other, they would not get past it.
    meeting = threading.Barrier(2, timeout=60)
    assert run_together((CPUS[0], CPUS[-1]), [lambda: (meeting.wait(), None)[1]] * 2).whole > 0


def test_time_of_each_is_its_own_and_that_of_the_whole_holds_all() -> None:
    took = run_together((CPUS[0], CPUS[-1]), [partial(time.sleep, 0.002), partial(time.sleep, 0.05)])
    assert took.each[0] >= 0.002
    assert took.each[1] >= 0.05
    assert took.whole >= max(took.each)


def test_error_of_one_task_is_raised_and_the_others_end() -> None:
    def fail() -> None:
        raise ValueError("broken task")

    with pytest.raises(ValueError, match="broken task"):
        run_together((CPUS[0], CPUS[-1]), [fail, lambda: None])


def test_cpu_that_does_not_exist_is_named_and_no_task_starts_without_it() -> None:
    ran: list[int] = []
    with pytest.raises(CalibrationError, match="CPU 1000000"):
        run_together((CPUS[0], 1_000_000), [lambda: ran.append(0), lambda: ran.append(1)])
    assert ran == []
