"""Waits that a worker surely has more of than others."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.account.account import Account
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.causes.by_need import UNSURE, with_sure_waits

STEPS = 4
PART = "input|wait_ps"


def worker(rank: int, waited: float, delay: float) -> tuple[RankSignals, Account]:
    """Its threads run 8 ms a step, the busiest 2 and lacks a CPU for `delay`; waited: what is left beside
    that one."""
    number = np.arange(STEPS, dtype=np.int64)
    parts = {"host": np.full(STEPS, 0.002), "contention": np.full(STEPS, delay), PART: np.full(STEPS, waited)}
    duration = sum(parts.values())
    assert not isinstance(duration, int)
    signals = RankSignals(
        f"worker:{rank}",
        "worker",
        "node",
        number,
        number,
        number,
        duration,
        threads_run=np.full(STEPS, 0.008),
        busiest_run=np.full(STEPS, 0.002),
        busiest_delay=np.full(STEPS, delay),
        waits_for_servers=True,
    )
    return signals, Account(f"worker:{rank}", "worker", "node", duration, parts, {}, None)


def waits(*workers: tuple[RankSignals, Account]) -> list[float]:
    found = with_sure_waits(*map(list, zip(*workers, strict=True)))  # type: ignore[arg-type]
    for (_, before), after in zip(workers, found, strict=True):
        whole = float(after.parts[PART].mean()) + float(after.parts.get(UNSURE, np.zeros(1)).mean())
        assert whole == pytest.approx(float(before.parts[PART].mean()))
    return [float(one.parts[PART].mean()) for one in found]


def test_worker_whose_threads_may_have_lacked_a_cpu_one_after_the_other_does_not_surely_wait() -> None:
    """The busiest lacked one for 18 of 40 ms: all of them for 72, if none did at the same time."""
    assert waits(worker(0, 0.008, 0.003), worker(1, 0.019, 0.018)) == [0.0, 0.0]


def test_worker_that_waits_for_input_where_cpus_are_free() -> None:
    """Nothing of it ran for 30 of its 36 ms; at least 30 - 6, if its threads all ran by themselves."""
    assert waits(worker(0, 0.010, 0.0), worker(1, 0.030, 0.0)) == pytest.approx([0.010, 0.024])
    assert waits(worker(0, 0.010, 0.0), worker(1, 0.015, 0.0)) == [0.0, 0.0]
