from __future__ import annotations

import pytest
from roofline_server.model.causes.busy_node import BusyNode
from roofline_server.model.causes.server_causes import server_causes
from roofline_server.model.causes.server_use import ServerSignals

from .servers import BUSY, HEALTHY_WORKERS, WAITED_FOR, server, worker


def test_server_of_which_nothing_is_known_is_not_named() -> None:
    assert server_causes([ServerSignals("ps:0", "node")], HEALTHY_WORKERS) == []


def test_healthy_servers_are_not_named() -> None:
    """Small payloads: little use, though a worker's data may lie unread (other processes hold it up)."""
    found = server_causes(
        [server(received=8e3, unread=0.5, unread_readings=200), server("ps:1")], HEALTHY_WORKERS
    )
    assert found == []


def test_busy_server_that_nobody_waits_for_is_not_named() -> None:
    assert server_causes([server(**BUSY, unread=0.02, unread_readings=200)], HEALTHY_WORKERS) == []


def test_few_readings_are_no_wait() -> None:
    assert server_causes([server(**BUSY, unread=0.25, unread_readings=8)], HEALTHY_WORKERS) == []


def test_servers_that_are_all_overloaded_are_one_cause() -> None:
    """Four in use for 90 % of the time: a fifth would take 80 % of their work, and no more is gained. If
    one of them alone is relieved, nothing is."""
    workers = [worker(20.0, f"worker:{index}") for index in range(4)]
    every = [server(f"ps:{index}", **BUSY, **WAITED_FOR) for index in range(4)]
    (found,) = server_causes(every, workers)
    assert (found.kind, found.ranks) == ("server_overloaded", ("ps:0", "ps:1", "ps:2", "ps:3"))
    demand, cycle = 0.9 / 80, 4 / 80
    assert found.bounds.high == pytest.approx(4 * demand / 5)
    assert 4 / (cycle - found.bounds.high) <= 5 / 4 * 80 / 0.9, "the rate at which all five are always in use"
    beside = server("ps:4", **{**BUSY, "run": 0.75, "threads_run": 0.85}, **WAITED_FOR)
    assert server_causes([*every[:1], beside], workers)[0].others == ("ps:4",)


def test_another_server_limits_what_mending_one_gives() -> None:
    """Whatever is taken off one of them, the other is in use for 80 % of the time."""
    skewed = server("ps:0", **{**BUSY, "received": 9e6}, **WAITED_FOR)
    even = server("ps:1", **{**BUSY, "run": 0.7, "received": 1e6}, **WAITED_FOR)
    workers = [worker(20.0), worker(20.0, "worker:1")]
    found = {cause.rank: cause for cause in server_causes([skewed, even], workers)}
    assert found["ps:0"].kind == "server_skewed"
    assert found["ps:0"].bounds.high == pytest.approx(2 * (0.9 - 0.8) / 40), "to the demand of ps:1"


def test_overloaded_lone_server_is_named() -> None:
    (found,) = server_causes([server(**BUSY, **WAITED_FOR)], HEALTHY_WORKERS)
    assert (found.kind, found.rank) == ("server_overloaded", "ps:0")
    # 0.9 of the time for 20 steps a second; half of it saved, for the two workers that queue.
    assert found.cost == pytest.approx(2 * 0.045 / 2)
    assert found.bounds == pytest.approx((0.045 / 2, 0.045))


def test_idle_workers_wait_though_no_connection_tells() -> None:
    idle = [worker(run=0.1, threads_run=0.2), worker(name="worker:1", run=0.1, threads_run=0.2)]
    (found,) = server_causes([server(**BUSY)], idle)
    assert found.use.waiting == pytest.approx(0.8)


def test_nobody_waits_longer_than_the_kernels_leave() -> None:
    workers = [worker(kernels=0.95), worker(name="worker:1", kernels=0.95)]
    assert server_causes([server(**BUSY, **WAITED_FOR)], workers) == []


def test_of_servers_with_8_kib_and_4_mib_only_the_second_is_named() -> None:
    servers = [server("ps:0", received=8e4, **WAITED_FOR), server("ps:1", received=4e7, **BUSY, **WAITED_FOR)]
    (found,) = server_causes(servers, HEALTHY_WORKERS)
    assert (found.kind, found.rank) == ("server_skewed", "ps:1")
    assert found.use.share == pytest.approx(4e7 / (4e7 + 8e4))


def test_server_that_lacks_cpus_is_slow() -> None:
    slow = {"run": 0.1, "delay": 0.8, "threads_run": 0.1, "threads_delay": 0.9}
    (found,) = server_causes([server(**slow, **WAITED_FOR), server("ps:1")], HEALTHY_WORKERS)
    assert found.kind == "server_slow"
    # All its threads lack CPUs at once: it saves at the most what its kernels and threads leave.
    assert found.bounds == pytest.approx((0.9 * 0.8 / 0.9 / 20, 0.1 * 0.7))
    assert found.bounds.low < found.cost <= found.bounds.high


def test_slow_server_that_is_mended_still_lacks_cpus_as_the_workers_do() -> None:
    slow = {
        "run": 0.15,
        "delay": 0.45,
        "threads_run": 0.2,
        "threads_delay": 0.8,
    }  # three quarters of its time
    one, two = (
        server_causes(
            [server(**slow, **WAITED_FOR)],
            [worker(run=0.3, delay=delay), worker(name="b", run=0.3, delay=delay)],
        )[0].cost
        for delay in (0.0, 0.3)
    )
    # It takes 4 times as long as with a CPU, and 2 times as long as workers that wait half of their time.
    assert one > 1.4 * two


def test_slow_server_need_not_be_in_use_most_of_the_time() -> None:
    slow = {"run": 0.01, "delay": 0.25, "threads_run": 0.08, "threads_delay": 3.0}
    (found,) = server_causes([server(**slow, **WAITED_FOR)], HEALTHY_WORKERS)
    assert found.kind == "server_slow"


def test_lack_of_cpus_that_workers_share_is_no_trouble_of_the_server() -> None:
    short = [worker(run=0.1, delay=0.5), worker(name="worker:1", run=0.1, delay=0.5)]
    slow = {"run": 0.15, "delay": 0.6, "threads_run": 0.2, "threads_delay": 0.9}
    (found,) = server_causes([server(**slow, **WAITED_FOR)], short)
    assert found.kind == "server_overloaded"


def test_server_among_workers_that_lack_cpus_too_is_not_slow() -> None:
    """As on a node where other programs compute: its bursts are short, and each waits for a CPU."""
    crowded = [worker(run=0.1, delay=0.14), worker(name="worker:1", run=0.09, delay=0.15)]
    short = {"run": 0.029, "delay": 0.188, "threads_run": 0.1, "threads_delay": 0.87}
    assert server_causes([server(**short, **WAITED_FOR)], crowded) == []
    assert [found.kind for found in server_causes([server(**short, **WAITED_FOR)], HEALTHY_WORKERS)] == [
        "server_slow"
    ]


def test_server_that_needs_more_cpu_time_than_one_that_holds_as_much() -> None:
    """Ten ms of 100 for each step, where one with four times the bytes needs 2.1. On a node
    whose two CPUs are in use all or most of the time they are lost to all."""
    large = server("ps:0", threads_run=0.042, variables=2, bytes=1_058_816)
    small = server("ps:1", threads_run=0.057, variables=1, bytes=262_144)
    full = BusyNode("node", 3.0, 3.0, 1.0)  # of three CPUs others have one
    loaded = small._replace(threads_run=0.2)
    (found,) = server_causes([large, loaded], HEALTHY_WORKERS, full)
    assert (found.kind, found.rank, found.beside) == ("server_work", "ps:1", "ps:0")
    # Of 100 ms: at least what is above 0.042 of the 2 CPUs that it has, at most above a quarter of that.
    assert found.bounds == pytest.approx((0.1 * 0.158 / 2, 0.1 * (0.2 - 0.042 * 262_144 / 1_058_816) / 2))
    assert found.bounds.low < found.cost < found.bounds.high
    assert server_causes([large, loaded], HEALTHY_WORKERS, full._replace(busy=2.2)) == [found]
    for servers, node in [
        ([large, loaded], None),  # where CPUs are free it may keep up
        ([large, small], full),  # 1 % of the CPUs
        ([large._replace(variables=0, bytes=0), loaded], full),  # what they hold is not known
        ([large, loaded._replace(has_link=True)], full),  # sending over it takes CPU time
        ([large, loaded._replace(variables=3)], full),  # each variable may take as long as a MiB
        ([large._replace(threads_run=0.2), small._replace(threads_run=0.05)], full),
        ([loaded], full),
    ]:
        assert server_causes(servers, HEALTHY_WORKERS, node) == []


def test_throttled_server_is_named_by_its_counter() -> None:
    """Figures of a real one: nobody was seen to wait for it, but it was held back for a third of the time."""
    held = server(run=0.016, delay=0.22, threads_run=0.09, threads_delay=1.59, throttled=0.33, cpus=2)
    workers = [
        worker(16.2, name, run=0.28, delay=0.2, threads_run=0.57, threads_delay=0.6, kernels=0.66)
        for name in ("worker:0", "worker:1")
    ]
    (found,) = server_causes([held], workers)
    assert found.kind == "throttled"
    assert found.cost == pytest.approx(
        0.0132, rel=0.25
    )  # it took 61.8 ms a step with the limit, 48.6 without
    assert server_causes([held._replace(throttled=0.05)], workers) == []


def test_throttled_server_that_costs_next_to_nothing_is_not_named() -> None:
    assert (
        server_causes([server(run=0.001, delay=0, threads_run=0.001, throttled=0.2)], HEALTHY_WORKERS) == []
    )


def test_stopped_server_costs_the_time_it_was_stopped() -> None:
    """A lone one, too. 48 % of 157 ms a step are 76 ms (mean steps, not median ones)."""
    workers = [worker(1 / 0.157), worker(1 / 0.157, "worker:1")]
    (found,) = server_causes([server(stopped=0.48, stop_readings=300)], workers)
    assert (found.kind, found.rank) == ("stopped", "ps:0")
    assert found.cost == pytest.approx(0.0754, rel=0.01)


def test_server_found_stopped_once_is_not_named() -> None:
    assert server_causes([server(stopped=0.02, stop_readings=50)], HEALTHY_WORKERS) == []


def test_stop_that_no_reading_speaks_for_is_none() -> None:
    assert server_causes([server(stopped=0.5, stop_readings=0)], HEALTHY_WORKERS) == []


def test_without_steps_nobody_is_named() -> None:
    assert server_causes([server(**BUSY, **WAITED_FOR)], []) == []


def test_the_dearest_is_first() -> None:
    servers = [server("ps:0", **BUSY, **WAITED_FOR), server("ps:1", stopped=0.6, stop_readings=300)]
    assert [found.rank for found in server_causes(servers, HEALTHY_WORKERS)] == ["ps:1", "ps:0"]


def test_uneven_bytes_alone_name_nobody() -> None:
    servers = [server("ps:0", received=1e6), server("ps:1", received=9e6)]
    assert server_causes(servers, HEALTHY_WORKERS) == []
