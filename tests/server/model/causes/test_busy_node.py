"""A node whose CPUs are in use all the time or most of it: CPU time beyond need costs everybody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from roofline_server.model.account.account import account
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.causes.busy_node import BusyNode, with_its_causes
from roofline_server.model.causes.conclusion import Conclusion, conclude
from roofline_server.records import Floats

STEPS, STEP, KERNELS, OTHER = 300, 0.015, 0.002, 0.006
FULL = BusyNode("node", 2.0, 1.95, 0.02)


def worker(rank: int, more: float = 0.0, delay: float = 0.0005, **columns: Floats) -> RankSignals:
    """Of parameter servers. Its threads work side by side, so that the busiest has a part of the CPU time;
    its steps are as long as those of the others, because all wait for the same CPUs."""
    random = np.random.default_rng(rank)
    run = (KERNELS + OTHER + more) * random.uniform(0.8, 1.2, STEPS)
    number = np.arange(STEPS, dtype=np.int64)
    duration = STEP * random.uniform(0.8, 1.2, STEPS)
    waits = np.random.default_rng(1).exponential(5 * delay, STEPS)
    return RankSignals(
        f"worker:{rank}",
        "worker",
        "node",
        number,
        number,
        number,
        duration,
        waits_for_servers=True,
        cores=1.0,
        kernels=KERNELS * random.uniform(0.9, 1.1, STEPS),
        threads_run=run,
        threads_delay=waits,
        busiest_run=run / 3,
        busiest_delay=random.exponential(delay, STEPS),
    )._replace(**columns)


def concluded(signals: Sequence[RankSignals], node: BusyNode | None = FULL) -> Conclusion:
    foreign = {"node": node.foreign} if node is not None else {}
    return conclude(signals, [account(one) for one in signals], None, foreign, node)


def named(found: Conclusion) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.kind, one.ranks) for one in (found.bottleneck, *found.also) if one]


def test_equal_workers_are_healthy() -> None:
    assert named(concluded([worker(0), worker(1)])) == []


def test_worker_that_needs_more_cpu_time_though_its_steps_are_no_longer() -> None:
    """3 ms of two CPUs that are always in use are a tenth of a step of 15 ms."""
    signals = [worker(0), worker(1, more=0.003)]
    found = concluded(signals)
    assert named(found) == [("host", ("worker:1",))]
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.0015, rel=0.1)
    assert found.bottleneck.gain.low < 0.0015 < found.bottleneck.gain.high
    crowded = concluded(signals, BusyNode("node", 4.0, 3.95, 2.02)).bottleneck
    assert crowded is not None and crowded.gain.mean == pytest.approx(found.bottleneck.gain.mean, rel=1e-6)
    assert named(concluded(signals, None)) == [], "where CPUs are free its steps would tell"


def test_more_cpu_time_also_costs_where_a_sixth_of_the_cpus_is_idle() -> None:
    """Of what all lack, what others took is told apart only on a full node."""
    node = FULL._replace(busy=1.65)
    assert named(concluded([worker(0), worker(1, more=0.003)], node)) == [("host", ("worker:1",))]
    lacking = [worker(rank, delay=0.006) for rank in (0, 1)]
    assert named(concluded(lacking, node._replace(foreign=0.3))) == [("contention_own", ())]
    burst = np.where(np.arange(STEPS) < STEPS // 2, 0.02, 0.0)
    varied = [one._replace(busiest_delay=burst, duration=one.duration + burst) for one in lacking]
    assert named(concluded(varied, node._replace(foreign=1.4))) == []


def test_worker_with_a_larger_batch() -> None:
    examples = [np.full(STEPS, count) for count in (32.0, 40.0)]
    signals = [worker(0, examples=examples[0]), worker(1, more=0.0018, examples=examples[1])]
    assert named(concluded(signals)) == [("more_work", ("worker:1",))]


@pytest.mark.parametrize("more", [0.0, 0.0004])  # 0.4 ms: 5 % of its CPU time, 1.3 % of a step
def test_little_more_cpu_time_is_no_cause(more: float) -> None:
    assert named(concluded([worker(0), worker(1, more=more)])) == []


def test_an_eighth_more_cpu_time_is_a_cause_where_nobody_empties_caches() -> None:
    signals = [worker(0), worker(1, more=0.0012)]
    assert named(concluded(signals)) == [("host", ("worker:1",))]
    assert named(concluded(signals, FULL._replace(foreign=0.3))) == []


def test_worker_that_lacks_cpus_more_than_it_needs_them_has_its_caches_emptied() -> None:
    """Seen of one on whose CPU another program ran: a fifth more CPU time, and waits longer by a quarter."""
    signals = [worker(0), worker(1, more=0.0018)]
    assert named(concluded(signals)) == [("host", ("worker:1",))]
    assert signals[0].threads_delay is not None
    late = signals[1]._replace(threads_delay=1.3 * signals[0].threads_delay)
    assert named(concluded([signals[0], late], FULL._replace(foreign=0.3))) == []
    assert named(concluded([signals[0], late])) == [("host", ("worker:1",))], "nobody else ran there"
    # Caches do not double it.
    twice = worker(1, more=0.008)._replace(threads_delay=3 * signals[0].threads_delay)
    assert ("host", ("worker:1",)) in named(concluded([signals[0], twice], FULL._replace(foreign=0.3)))


def test_what_passes_is_none() -> None:
    once = np.where(np.arange(STEPS) < STEPS // 4, 0.012, 0.0)
    signals = [worker(0), worker(1)]
    assert signals[1].threads_run is not None
    assert (
        named(concluded([signals[0], signals[1]._replace(threads_run=signals[1].threads_run + once)])) == []
    )


def test_a_worker_whose_cpu_time_is_not_known() -> None:
    assert named(concluded([worker(0), worker(1, more=0.003)._replace(threads_run=None)])) == []


def test_what_others_take_of_the_cpus_that_all_lack_is_apart_from_what_the_job_lacks() -> None:
    signals = [worker(rank, delay=0.006) for rank in (0, 1)]
    assert named(concluded(signals)) == [("contention_own", ())]
    found = concluded(signals, FULL._replace(foreign=0.3))
    assert sorted(named(found)) == [("contention", ()), ("contention_own", ())]
    of_others = next(one for one in (found.bottleneck, *found.also) if one and one.kind == "contention")
    assert of_others.gain.mean == pytest.approx(0.15 * found.step, rel=0.01)
    assert named(concluded(signals, FULL._replace(foreign=1.8))) == [("contention", ())]


def test_what_a_worker_causes_is_not_lost_a_second_time_by_all() -> None:
    """All lack CPUs for 6 ms a step; half as much goes to what one of them needs more."""
    found = concluded([worker(rank, delay=0.0034, more=0.008 * rank) for rank in (0, 1)])
    assert named(found) == [("host", ("worker:1",))]
    assert named(concluded([worker(rank, delay=0.0034) for rank in (0, 1)])) == [("contention_own", ())]


def test_what_others_take_is_a_cause_though_waits_for_a_cpu_vary() -> None:
    """Of two ranks one after the other has long waits: no mean of them is sure."""
    signals = []
    for rank in (0, 1):
        burst = np.where(np.arange(STEPS) // (STEPS // 3) == 2 * rank, 0.02, 0.0)
        one = worker(rank)
        signals.append(one._replace(duration=one.duration + burst, busiest_delay=burst + 0.0005))
    assert named(concluded(signals)) == []
    assert named(concluded(signals, FULL._replace(foreign=1.4))) == [("contention", ())]
    patient = [worker(0), worker(1)]  # others get what the job leaves
    assert named(concluded(patient, FULL._replace(foreign=1.4))) == []


def test_others_cost_no_more_than_a_rank_lacks_cpus() -> None:
    """A rank that sleeps most of its step, next to programs that have nearly all of the node."""
    one = worker(0, delay=0.0)
    lacks = np.random.default_rng(2).uniform(0.007, 0.009, STEPS)
    sleeps = one._replace(waits_for_servers=False, busiest_delay=lacks, threads_delay=lacks)
    found = concluded([sleeps._replace(duration=one.duration + 0.03)], FULL._replace(foreign=1.9))
    assert named(found) == [("contention", ())]
    assert found.bottleneck is not None and found.bottleneck.gain.mean == pytest.approx(0.008, rel=0.1)


def test_others_cost_no_more_than_the_steps_in_question_lacked() -> None:
    """Which may be others than those of the accounts: these have a first step that all waited in, too."""
    signals = [worker(rank, delay=0.006)._replace(waits_for_servers=False) for rank in (0, 1)]
    accounts, full = [account(one) for one in signals], FULL._replace(foreign=1.9)
    (found,) = with_its_causes([], signals, accounts, STEP, full, [0.003, 0.004])
    assert found.part == "contention" and found.gain.mean == pytest.approx(0.003)


def test_no_step_is_shorter_than_what_one_rank_needs_for_it() -> None:
    """Ranks that do not wait for servers; one lacks a CPU for 30 ms of its steps of 45, the other for 10."""
    signals = []
    for rank, lacks in ((0, 0.03), (1, 0.01)):
        one = worker(rank)._replace(waits_for_servers=False)
        lacking = np.random.default_rng(rank).uniform(0.95 * lacks, 1.05 * lacks, STEPS)
        signals.append(
            one._replace(duration=one.duration + 0.03, busiest_delay=lacking, threads_delay=lacking)
        )
    found = concluded(signals, FULL._replace(foreign=1.9))
    assert named(found)[0] == ("contention", ())
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.01, rel=0.1)


def test_evidence_is_what_was_measured_and_no_multiple_of_it() -> None:
    signals = [worker(rank, delay=0.006) for rank in (0, 1)]
    own = concluded(signals).bottleneck
    found = concluded(signals, FULL._replace(foreign=1.8)).bottleneck
    assert own is not None and found is not None
    assert found.gain.mean > own.gain.mean
    assert found.more == own.more


@pytest.mark.slow
def test_chance_names_at_most_2_of_2000_healthy_jobs() -> None:
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(2000):
        count = int(random.choice([2, 2, 4, 8]))
        signals = [worker(int(seed)) for seed in random.integers(0, 2**31, count)]
        wrong += any(ranks for _, ranks in named(concluded(signals)))
    assert wrong <= 2
