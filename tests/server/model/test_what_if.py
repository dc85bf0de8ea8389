from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model import what_if as model
from roofline_server.model.queueing import rate_if_all_queue
from roofline_server.model.what_if import Asynchronous, JobChange, LinkCost, Synchronous
from roofline_server.records import Floats, Ints

LINK = LinkCost(1e-4, 1e9)
STEPS = 400


def job(ranks: int = 2, own: float = 0.02, noise: float = 0.0, **changes: object) -> Synchronous:
    times = own + noise * np.random.default_rng(1).exponential(size=(STEPS, ranks))
    exposed = 0.005
    known = Synchronous(
        own=times,
        step=float(times.max(axis=1).mean()) + exposed,
        error=0.0,
        kernels=None,
        fixed=0.0,
        floor=0.0,
        cpu=None,
        cpus=None,
        nodes=ranks,
        payload=None,
    )
    return known._replace(**changes)  # type: ignore[arg-type]


# -- collectives -----------------------------------------------------------------------------------


def test_ring_and_tree_cost_what_their_formulas_say() -> None:
    # 4 ranks, 1 GB, 0.1 ms and 1 GB/s.
    assert model.ring(4, 1e9, LINK) == pytest.approx(6 * (1e-4 + 0.25))
    assert model.tree(4, 1e9, LINK) == pytest.approx(4 * (1e-4 + 1.0))
    assert model.tree(1, 1e9, LINK) == 0


def test_transfer_of_unknown_links_lies_between_bandwidth_and_latency() -> None:
    found = model.transfer(0.01, 2, 4, None, None)
    assert found.low == pytest.approx(0.01 * (3 / 4) / (1 / 2))
    assert found.high == pytest.approx(0.03)
    assert found.low < found.likely < found.high
    assert model.transfer(0.01, 3, 3, None, None) == (0.01, 0.01, 0.01)


def test_transfer_over_a_known_link_follows_the_ring() -> None:
    found = model.transfer(0.01, 2, 8, 1e9, LINK)
    assert found.likely == pytest.approx(0.01 * model.ring(8, 1e9, LINK) / model.ring(2, 1e9, LINK))


def test_faster_links_save_what_is_not_latency() -> None:
    assert model.faster_link(0.01, 2.0, 4, None, None) == (0.005, 0.005, 0.01)
    slow = LinkCost(1.0, 1e9)  # all latency
    assert model.faster_link(0.01, 2.0, 4, 1e3, slow).likely == pytest.approx(0.01, rel=1e-3)


# -- the last to arrive ----------------------------------------------------------------------------


def test_the_last_of_fewer_ranks_is_the_mean_over_all_choices() -> None:
    own = np.array([[1.0, 2.0, 4.0]])
    assert model.last_of(own, 2).likely == pytest.approx((2 + 4 + 4) / 3)
    assert model.last_of(own, 1).likely == pytest.approx(7 / 3)
    assert model.last_of(own, 3) == (4, 4, 4)


def test_the_last_of_more_ranks_grows_as_order_statistics_do() -> None:
    """Maxima of exponential times have the mean 1 + 1/2 + ... + 1/N."""
    own = np.random.default_rng(3).exponential(size=(4000, 2))
    assert model.last_of(own, 2).likely == pytest.approx(1.5, rel=0.05)
    found = model.last_of(own, 8)
    assert found.likely == pytest.approx(sum(1 / n for n in range(1, 9)), rel=0.05)
    assert found.low < found.likely < found.high


# -- synchronous jobs ------------------------------------------------------------------------------


def test_of_many_ranks_few_steps_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    own = 1 + np.random.default_rng(2).exponential(size=(1000, 1))
    whole, drawn = model.last_of(own, 100), []
    real = model._drawn

    def counted(own: Floats, played: Ints, ranks: int, random: np.random.Generator) -> float:
        drawn.append(len(played) * ranks)
        return real(own, played, ranks, random)

    monkeypatch.setattr(model, "MOST_TIMES", 10_000)
    monkeypatch.setattr(model, "_drawn", counted)
    assert model.last_of(own, 100).likely == pytest.approx(whole.likely, rel=0.05)
    assert max(drawn) <= 10_000
    monkeypatch.setattr(model, "MOST_TIMES", 600_000)
    assert model.last_of(own, 100_000).likely == pytest.approx(float(own.max()), rel=0.01)


def test_nothing_changed_is_the_job_as_it_was() -> None:
    for one in (job(), job(noise=0.005), job(cpu=0.02, cpus=2.0, nodes=1)):
        assert model.synchronous(one, JobChange()) == pytest.approx((one.step,) * 3)


def test_other_ranks_on_other_nodes_keep_their_cpus() -> None:
    found = model.synchronous(job(cpu=0.02), JobChange(ranks=4))
    assert found.low == pytest.approx(0.02 + 0.005 * 1.5)
    assert found.high == pytest.approx(0.02 + 0.005 * 3)


def test_more_ranks_than_cpus_stretch_each_other() -> None:
    crowded = job(cpu=0.02, cpus=2.0, nodes=1)
    found = model.synchronous(crowded, JobChange(ranks=4))
    assert found.low >= 4 * 0.02 / 2  # no schedule is faster
    assert found.high == pytest.approx(2 * (0.02 + 0.005 * 3))
    assert model.synchronous(crowded._replace(cpus=8.0), JobChange(ranks=4)).high == pytest.approx(0.035)


def test_a_larger_batch_takes_as_much_longer_as_its_kernels() -> None:
    found = model.synchronous(job(ranks=1, step=0.02, kernels=0.01, fixed=0.004), JobChange(batch=2.0))
    # The kernels again; of the 6 ms besides them and the optimizer none or all.
    assert found == pytest.approx((np.sqrt(0.030 * 0.036), 0.030, 0.036))


def test_kernels_that_move_weights_do_not_grow_with_the_batch() -> None:
    alone = job(ranks=1, step=0.02, kernels=0.01, fixed=0.01, floor=0.5)
    found = model.synchronous(alone, JobChange(batch=3.0))
    assert found.low == pytest.approx(0.02 + 0.01)
    assert found.high == pytest.approx(0.02 + 0.02)


def test_kernels_of_two_threads_take_twice_the_cpu_time() -> None:
    """CPU time in proportion to the step, not one second for each second of kernels."""
    two = job(ranks=1, step=0.02, kernels=0.02, cpu=0.04, cpus=2.0, nodes=1)
    assert model.synchronous(two, JobChange(batch=0.25)) == pytest.approx((0.005,) * 3)


def test_a_larger_batch_may_hide_the_transfer() -> None:
    some = job(kernels=0.02)
    found = model.synchronous(some, JobChange(batch=2.0))
    # 20 ms more, behind which none, or all of the 5 ms of transfer go.
    assert found == pytest.approx((0.040, 0.040, 0.045))
    found = model.synchronous(some, JobChange(batch=1.1))
    assert found == pytest.approx((0.026, 0.025, 0.027)), "2 ms more hide no more than 2 ms"


def test_a_smaller_batch_may_uncover_what_was_hidden() -> None:
    known = job(kernels=0.02, payload=9e6, link=LinkCost(0.0, 1e9))  # 9 ms, of which 5 are seen
    assert model.synchronous(known, JobChange(batch=0.5)) == pytest.approx((0.017, 0.015, 0.019))
    unknown = known._replace(link=None)
    assert model.synchronous(unknown, JobChange(batch=0.5)).high == pytest.approx(0.025)


def test_more_ranks_than_a_lone_one_exchange_what_a_ring_takes_or_hide_it() -> None:
    alone = job(ranks=1, step=0.02, payload=10e6, link=LinkCost(0.0, 1e9))
    assert model.synchronous(alone, JobChange(ranks=2)) == pytest.approx((0.025, 0.02, 0.03))


def test_a_rank_that_is_left_alone_may_get_the_cpus_it_lacked() -> None:
    found = model.synchronous(job(lacking=0.006), JobChange(ranks=1))
    assert found == pytest.approx((0.02, 0.014, 0.025))


def test_smaller_batches_are_quicker() -> None:
    found = model.synchronous(job(kernels=0.01, cpu=0.02, cpus=2.0, nodes=1), JobChange(batch=0.5))
    assert found.low < found.likely <= found.high
    assert found.likely < 0.025


@given(st.integers(1, 16), st.floats(0.1, 8), st.floats(0.1, 10))
def test_predictions_lie_in_their_range(ranks: int, batch: float, bandwidth: float) -> None:
    some = job(ranks=4, noise=0.01, kernels=0.01, fixed=0.002, cpu=0.02, cpus=4.0, nodes=1, error=0.001)
    found = model.synchronous(some, JobChange(ranks, None, batch, bandwidth))
    assert 0 < found.low <= found.likely <= found.high


# -- parameter servers -----------------------------------------------------------------------------


def servers(*demands: float, rate: float = 20.0, **changes: object) -> Asynchronous:
    known = Asynchronous(2, rate, 0.0, demands or (0.01,), kernels=0.02, cpu=0.03, cpus=None)
    return known._replace(**changes)  # type: ignore[arg-type]


def test_the_same_workers_and_servers_do_what_they_did() -> None:
    assert model.asynchronous(servers(), JobChange()) == pytest.approx((20, 20))


def test_more_workers_lie_between_the_bounds() -> None:
    found = model.asynchronous(servers(), JobChange(ranks=4))
    think = 2 / 20 - 2 * 0.01
    assert found.low == pytest.approx(rate_if_all_queue(4, think, 0.01))
    assert found.high == pytest.approx(40)  # nobody queues: 4 / (0.09 + 0.01)


def test_a_saturated_server_gains_nothing_from_more_workers() -> None:
    found = model.asynchronous(servers(0.05), JobChange(ranks=8))
    assert found == pytest.approx((20, 20), rel=0.01)


def test_a_second_server_takes_half_or_nothing() -> None:
    found = model.asynchronous(servers(0.05), JobChange(servers=2))
    assert found.low == pytest.approx(20)
    assert found.high > 20
    assert model.asynchronous(servers(0.03, 0.03), JobChange(servers=1)).low < 20


def test_a_node_without_free_cpus_gives_no_more() -> None:
    full = servers(cpu=0.1, cpus=2.0)
    found = model.asynchronous(full, JobChange(ranks=6))
    assert found == pytest.approx((20, 20))


def test_more_workers_get_at_least_the_cpus_that_nobody_used() -> None:
    roomy = servers(cpu=0.03, cpus=8.0, free=0.3)
    assert model.asynchronous(roomy, JobChange(ranks=4)).low == pytest.approx(20 * (1 + 0.3 / 0.6))
    assert model.asynchronous(roomy._replace(free=7.0), JobChange(ranks=4)).low > 30


def test_a_larger_batch_does_fewer_steps() -> None:
    found = model.asynchronous(servers(), JobChange(batch=4.0))
    # 60 ms more of kernels, of which 10 may have been spent queueing; and up to three times the 70 ms that
    # are neither these nor the server.
    assert found.high == pytest.approx(2 / 0.15)
    assert found.low == pytest.approx(2 / (0.16 + 0.21))
    found = model.asynchronous(servers(floor=0.5), JobChange(batch=4.0))
    assert found.high == pytest.approx(2 / 0.12), "half of the bytes of the kernels are weights"


def test_a_smaller_batch_does_not_help_workers_that_queue() -> None:
    found = model.asynchronous(servers(0.04, kernels=0.06), JobChange(batch=0.5))
    assert found.low == pytest.approx(20), "they queue for as much longer"
    assert found.high == pytest.approx(25), "more the server does not do"


def test_a_lone_worker_queues_for_nobody() -> None:
    alone = servers(0.04, rate=10.0, kernels=0.06)._replace(workers=1)
    assert model.asynchronous(alone, JobChange(batch=0.5)) == pytest.approx((1 / 0.07, 1 / 0.07))
