from __future__ import annotations

import pytest
from roofline_server.model.causes.server_use import (
    ServerSignals,
    WorkerSignals,
    busy,
    idle,
    skewed,
    surely,
    use_of,
)

from .servers import HEALTHY_WORKERS, server, worker


def test_use_lies_between_the_busiest_thread_and_the_sum_of_all() -> None:
    assert busy(server(run=0.3, delay=0.1, threads_run=0.6, threads_delay=0.2)) == pytest.approx((0.4, 0.8))


def test_without_the_busiest_thread_use_is_what_the_cpus_must_have_done() -> None:
    found = busy(ServerSignals("ps:0", "node", threads_run=1.2, threads_delay=0.4, cpus=2))
    assert found == pytest.approx((0.6, 1.0))


def test_a_server_stopped_half_of_the_time_is_used_twice_as_much_while_it_runs() -> None:
    half = busy(server(run=0.2, delay=0.0, threads_run=0.2, threads_delay=0.0, stopped=0.5))
    assert half == pytest.approx((0.4, 0.4))


def test_nothing_known_of_a_server_is_not_zero() -> None:
    use = use_of(ServerSignals("ps:0", "node"), [], [WorkerSignals("worker:0", 10.0)])
    assert (use.busy, use.demand, use.waiting, use.share) == (None, None, None, None)


def test_demand_is_the_use_of_each_worker_step() -> None:
    use = use_of(server(run=0.3, delay=0.1), [server()], HEALTHY_WORKERS)
    assert use.demand is not None and use.demand.low == pytest.approx(0.4 / 20)


def test_delays_of_threads_that_wake_together_do_not_add_up() -> None:
    crowded = worker(run=0.05, delay=0.1, threads_run=0.2, threads_delay=0.9)
    assert idle(crowded) == pytest.approx((1 - 0.2 * 3, 1 - 0.15))
    assert idle(crowded._replace(run=None)) == pytest.approx((0, 1))
    assert idle(WorkerSignals("worker:0", 10.0)) is None


def test_uneven_bytes_are_seen() -> None:
    servers = [server("ps:0", received=1e6), server("ps:1", received=9e6)]
    uses = [use_of(one, servers, HEALTHY_WORKERS) for one in servers]
    assert [skewed(use, 2) for use in uses] == [False, True]
    assert not skewed(uses[1], 1)


def test_a_few_readings_surely_mean_less_than_they_show() -> None:
    assert surely(0.5, 10) < surely(0.5, 1000) < 0.5
    assert surely(0.0, 1000) == pytest.approx(0.0, abs=1e-9)
