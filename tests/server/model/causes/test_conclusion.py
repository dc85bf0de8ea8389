from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roofline_server.model.account.account import account, with_waits
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.causes.cause import parts_of_all
from roofline_server.model.causes.conclusion import Conclusion, beside_idle_cpus, conclude
from roofline_server.records import Floats

from ..jobs import COMPUTE, HOST, Played, job

STEPS = 200


def concluded(played: Played, foreign: dict[str, float] | None = None) -> Conclusion:
    """foreign: as for `conclude`; default: other programs keep two CPUs of each node busy."""
    if foreign is None:
        foreign = dict.fromkeys({one.host for one in played.signals}, 2.0)
    return conclude(played.signals, played.accounts, played.grid, foreign)


def named(found: Conclusion) -> tuple[str, tuple[str, ...]] | None:
    return (found.bottleneck.kind, found.bottleneck.ranks) if found.bottleneck else None


def pulses(every: int, seconds: float, steps: int = STEPS) -> Floats:
    return np.where(np.arange(steps) % every == 0, seconds, 0.0)


# -- golden cases ----------------------------------------------------------------------------------


def test_equal_ranks_are_healthy_and_bound_by_computing() -> None:
    found = concluded(job())
    assert (found.kind, found.bottleneck, found.also) == ("healthy", None, [])
    assert found.bound_by is not None
    assert found.bound_by.part == "compute"
    assert found.confidence == "high"


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        ("input", "input"),
        ("kernels", "slower"),
        ("host", "host"),
        ("delay", "contention"),
        ("blocked", "blocked"),
    ],
)
def test_rank_that_is_late_by_one_thing(planted: str, kind: str) -> None:
    played = job(plant={planted: {1: 0.010}})
    found = concluded(played)
    assert named(found) == (kind, ("ddp:1",))
    assert found.bottleneck is not None
    truth = float((played.step - job().step)[1:].mean())  # the same draws without it
    assert found.bottleneck.gain.mean == pytest.approx(truth, rel=0.03)
    assert found.bottleneck.gain.low < truth < found.bottleneck.gain.high
    assert (found.also, found.confidence) == ([], "high")


def test_rank_that_begins_to_be_late_amid_the_run_or_is_later_and_later() -> None:
    at = np.arange(STEPS) / STEPS
    for late in (np.where(at < 0.5, 0.0, 0.05), 0.08 * at):
        found = concluded(job(plant={"blocked": {1: late}}))
        assert named(found) == ("blocked", ("ddp:1",))
        assert found.bottleneck is not None
        assert found.bottleneck.gain.mean == pytest.approx(float(late.mean()), rel=0.05)


def test_lone_rank_that_pauses_now_and_then_is_not_called_healthy() -> None:
    played = with_threads(job(steps=60, ranks=1, plant={"blocked": {0: pulses(20, 1.9, 60)}}), 0.002)
    found = concluded(played)
    assert (found.kind, found.why) == ("unclear", ("uneven",))
    assert found.bound_by is not None and found.bound_by.part == "blocked"


def test_rank_with_twice_the_work() -> None:
    examples = {"examples": {0: 32.0, 1: 64.0}}
    found = concluded(job(plant={"kernels": {1: COMPUTE}}, columns=examples))
    assert named(found) == ("more_work", ("ddp:1",))
    assert found.bottleneck is not None
    assert found.bottleneck.work == pytest.approx(2.0)


def test_more_work_is_seen_where_the_others_spin_while_they_wait() -> None:
    """Horovod's ranks ask again and again whether an allreduce is done: that is CPU time, too."""
    plant = {"kernels": {1: COMPUTE / 2}, "blocked": {1: 0.002}}
    played = job(plant=plant, columns={"examples": {0: 32.0, 1: 48.0}})
    signals = []
    for one in played.signals:
        assert one.held is not None and one.run is not None
        signals.append(one._replace(run=one.run + one.held, held_run=one.held))
    assert named(concluded(played._replace(signals=signals))) == ("more_work", ("ddp:1",))


def test_work_of_every_kind_may_tell() -> None:
    columns = {"examples": {0: 32.0, 1: 32.0}, "flops": {0: 1e9, 1: 1.5e9}}  # longer sequences
    found = concluded(job(plant={"kernels": {1: COMPUTE / 2}}, columns=columns))
    assert named(found) == ("more_work", ("ddp:1",))


def test_little_more_work_is_not_why_a_rank_is_much_slower() -> None:
    found = concluded(job(plant={"kernels": {1: 0.030}}, columns={"examples": {0: 32.0, 1: 35.0}}))
    assert named(found) == ("slower", ("ddp:1",))


def test_kernels_stretched_by_waits_for_a_cpu_are_contention() -> None:
    """The same work, its kernels take half as long again."""
    played = job(plant={"delay": {1: 0.030}}, columns={"examples": {0: 32.0, 1: 32.0}})
    stretched = played.signals[1]
    assert stretched.kernels is not None
    signals = [played.signals[0], stretched._replace(kernels=stretched.kernels + 0.030)]
    found = concluded(played._replace(signals=signals, accounts=[played.accounts[0], account(signals[1])]))
    assert named(found) == ("contention", ("ddp:1",))


def test_rank_with_more_work_waits_longer_for_its_cpus_too() -> None:
    """A crowded node: each rank waits as long for a CPU as it has one."""
    work = {"examples": {0: 32.0, 1: 48.0}}
    waits = {0: COMPUTE + HOST, 1: 1.5 * (COMPUTE + HOST)}
    more = {"kernels": {1: COMPUTE / 2}, "host": {1: HOST / 2}, "delay": waits}
    found = concluded(job(plant=more, columns=work), {"node": 1.0})
    kinds = [(cause.kind, cause.ranks) for cause in [found.bottleneck, *found.also] if cause]
    assert kinds == [("contention", ()), ("more_work", ("ddp:1",))]
    # Of its 105 ms on a CPU and 105 waiting for one a third is what it has more to do.
    assert found.also[0].gain.mean == pytest.approx(0.07, rel=0.1)


def test_rank_that_lacks_cpus_more_than_its_work_needs() -> None:
    waits = {0: COMPUTE + HOST, 1: 2.5 * (COMPUTE + HOST)}
    found = concluded(job(plant={"delay": waits}), {"node": 1.0})
    assert named(found) == ("contention", ("ddp:1",))


def test_stopped_rank() -> None:
    stops = pulses(10, 0.1)
    found = concluded(job(plant={"blocked": {1: stops}}, columns={"stopped": {1: 0.01}}))
    assert named(found) == ("stopped", ("ddp:1",))
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.0099, rel=0.1)


@pytest.mark.parametrize("kept_off", ["stopped", "throttled"])
def test_rank_that_is_kept_off_its_cpu_amid_the_communication_holds_all_up(kept_off: str) -> None:
    """It was counted for 20 ms a step, all of them while the ranks communicate, which takes 20 ms longer."""
    usual = job(transfer=0.015)
    assert concluded(usual).kind == "healthy"
    played = job(transfer=0.035, columns={kept_off: {1: 0.020}})
    found = concluded(played)
    assert named(found) == (kept_off, ("ddp:1",))
    assert found.bottleneck is not None
    truth = float((played.step - usual.step)[1:].mean())
    assert found.bottleneck.gain.mean == pytest.approx(truth, rel=0.2)
    seen = found.bottleneck.more.get(kept_off, 0.0) + found.bottleneck.amid
    assert seen == pytest.approx(0.020, rel=0.2)


def test_rank_whose_threads_of_communication_lack_a_cpu_holds_all_up() -> None:
    """They wait for one for 15 ms a step of the 30 that the communication takes; the others' hardly ever."""
    delays = {"threads_delay": {0: 0.002, 1: 0.017}}
    usual, played = job(transfer=0.015), job(transfer=0.030, columns=delays)
    found = concluded(played)
    assert named(found) == ("contention", ("ddp:1",))
    assert found.bottleneck is not None
    truth = float((played.step - usual.step)[1:].mean())
    assert found.bottleneck.gain.mean == pytest.approx(truth, rel=0.2)
    assert found.bottleneck.amid == pytest.approx(0.015, rel=0.2)


def test_threads_of_communication_that_lack_cpus_alike_have_nobody_to_blame() -> None:
    found = concluded(job(transfer=0.030, columns={"threads_delay": {0: 0.017, 1: 0.017}}))
    assert not [one for one in (found.bottleneck, *found.also) if one and one.ranks]


def test_communication_that_a_rank_without_a_cpu_holds_up_is_not_slow_itself() -> None:
    found = concluded(job(transfer=0.060, columns={"threads_delay": {0: 0.002, 1: 0.027}}))
    assert [one.kind for one in (found.bottleneck, *found.also) if one] == ["contention"]


def test_bursts_in_which_threads_of_communication_lack_a_cpu_are_as_uncertain_as_others() -> None:
    """A second or two of them in 15: no reason to think that the next run has them."""
    burst = np.where(np.arange(STEPS) // 10 == 7, 0.1, 0.0)
    found = concluded(job(transfer=0.030, columns={"threads_delay": {0: 0.0, 1: burst}}))
    assert found.bottleneck is None


def test_ranks_that_are_all_stopped_amid_the_communication_have_nobody_to_blame() -> None:
    found = concluded(job(transfer=0.035, columns={"stopped": {0: 0.020, 1: 0.020}}))
    assert not [one for one in (found.bottleneck, *found.also) if one and one.ranks]


def test_communication_that_a_rank_holds_up_is_not_slow_itself() -> None:
    """It takes 60 of 135 ms, which would be named; but for 25 of them a rank was stopped."""
    assert named(concluded(job(transfer=0.060))) == ("transfer", ())
    found = concluded(job(transfer=0.060, columns={"stopped": {1: 0.025}}))
    assert [one.kind for one in (found.bottleneck, *found.also) if one] == ["stopped"]


def test_throttled_rank_among_others_that_lack_cpus_too() -> None:
    lacks = {rank: np.random.default_rng(rank).exponential(0.05, STEPS) for rank in (0, 1)}
    limited = np.where(np.arange(STEPS) % 2 == 0, 0.012, 0.008)
    planted = {"delay": {0: lacks[0], 1: lacks[1] + limited}}
    assert named(concluded(job(plant=planted))) in (None, ("contention", ()))
    found = concluded(job(plant=planted, columns={"throttled": {1: limited}}))
    assert ("throttled", ("ddp:1",)) in [
        (one.kind, one.ranks) for one in [found.bottleneck, *found.also] if one
    ]


def test_throttled_rank() -> None:
    found = concluded(job(plant={"delay": {1: 0.02}}, columns={"throttled": {1: 0.019}}))
    assert named(found) == ("throttled", ("ddp:1",))


@pytest.mark.parametrize(("column", "kind"), [("faults", "paging"), ("blocks", "disk")])
def test_rank_that_is_blocked_while_it_reads_a_disk(column: str, kind: str) -> None:
    reads = pulses(2, 8.0)
    found = concluded(job(plant={"blocked": {1: pulses(2, 0.03)}}, columns={column: {1: reads}}))
    assert named(found) == (kind, ("ddp:1",))


def test_loader_that_reads_a_slow_disk() -> None:
    found = concluded(job(plant={"input": {1: 0.01}}, columns={"blocks": {1: 512.0}}))
    assert named(found) == ("disk", ("ddp:1",))


def test_loader_whose_reads_are_known_of_few_steps() -> None:
    """The thread is measured in one step of eight."""
    known = np.where(np.arange(STEPS) % 8 == 0, 512.0, np.nan)
    idle = np.where(np.isnan(known), np.nan, 0.0)
    found = concluded(job(plant={"input": {1: 0.01}}, columns={"blocks": {0: idle, 1: known}}))
    assert named(found) == ("disk", ("ddp:1",))


def test_waits_for_a_cpu_within_longer_input_follow_from_it() -> None:
    """A crowded node: the rank that reads for 10 ms more finds no CPU for 15 ms after it has read."""
    delays = {"input_delay": {1: 0.015}}
    played = job(plant={"input": {1: 0.025}, "delay": {1: 0.015}}, columns=delays)
    found = concluded(played)
    assert named(found) == ("input", ("ddp:1",))
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.022, abs=0.004)


def test_pauses_of_garbage_collection() -> None:
    pauses = pulses(5, 0.04)
    found = concluded(job(plant={"host": {1: pauses}}, columns={"gc": {1: pauses}}))
    assert named(found) == ("gc", ("ddp:1",))


@pytest.mark.parametrize(
    ("foreign", "kind"),
    [({"node": 0.9}, "contention"), ({"node": 0.01}, "contention_own"), ({}, "contention_unknown")],
)
def test_who_has_the_cpus_that_a_rank_lacks(foreign: dict[str, float], kind: str) -> None:
    assert named(concluded(job(plant={"delay": {1: 0.02}}), foreign)) == (kind, ("ddp:1",))


def test_who_lacks_cpus_on_a_node_with_idle_ones_has_no_use_of_them() -> None:
    found = concluded(job(plant={"delay": {1: 0.02}}), {"node": 0.9})
    beside = beside_idle_cpus(found, {"node"}, {"node"})
    assert beside.bottleneck is not None and beside.bottleneck.kind == "contention_bound"
    assert beside_idle_cpus(found, {"other"}, {"node", "other"}) == found
    everywhere = concluded(job(plant={"delay": {0: 0.03, 1: 0.03}}, hosts=("a", "b")))
    assert named(everywhere) == ("contention", ())
    assert named(beside_idle_cpus(everywhere, {"a", "b"}, {"a", "b"})) == ("contention_bound", ())
    assert beside_idle_cpus(everywhere, {"a"}, {"a", "b"}) == everywhere
    slow_input = concluded(job(plant={"input": {1: 0.02}}))
    assert beside_idle_cpus(slow_input, {"node"}, {"node"}) == slow_input


def test_more_time_of_kernels_or_python_is_not_said_to_be_python() -> None:
    """Of ranks whose kernels were not recorded."""
    played = job(plant={"kernels": {1: COMPUTE / 2}})
    signals = [one._replace(kernels=None) for one in played.signals]
    found = concluded(played._replace(signals=signals, accounts=[account(one) for one in signals]))
    assert named(found) == ("cpu_time", ("ddp:1",))


def test_most_ranks_are_slower_than_the_few_others() -> None:
    found = concluded(job(ranks=4, plant={"input": dict.fromkeys((0, 2, 3), 0.02)}))
    assert named(found) == ("input", ("ddp:0", "ddp:2", "ddp:3"))
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.02, rel=0.2)


def test_time_after_the_last_kernels_may_be_something_else_than_communication() -> None:
    played = job(transfer=0.060)
    signals = [one._replace(barrier="kernels") for one in played.signals]
    assert named(concluded(played._replace(signals=signals))) == ("after_kernels", ())


def test_healthy_ranks_whose_gpus_wait_for_each_other_in_kernels_may_not_be() -> None:
    """A GPU spins in a kernel of NCCL until the last rank has come."""
    played = job()
    assert concluded(played).confidence == "high"
    signals = [one._replace(on_gpu=True, on_gpu_meets=True) for one in played.signals]
    found = concluded(played._replace(signals=signals))
    assert (found.confidence, found.why) == ("low", ("waits_in_kernels",))


def test_kernels_known_of_few_steps_do_not_turn_python_into_computing() -> None:
    """Of 4 traced steps the kernels of the late rank seem 6 ms shorter, and those of the other longer."""
    played = job(plant={"host": {1: 0.012}})
    traced = pulses(50, 1.0) > 0
    signals = [
        one._replace(kernels=np.full(STEPS, COMPUTE + extra), traced=traced)
        for one, extra in zip(played.signals, (0.003, -0.003), strict=True)
    ]
    found = concluded(played._replace(signals=signals, accounts=[account(one) for one in signals]))
    assert named(found) == ("host", ("ddp:1",))
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.012, rel=0.1)


@pytest.mark.parametrize(
    ("kernels", "host", "kinds"),
    [
        (0.0270, 0.0215, []),  # 8 % longer, as seen of a healthy rank: CPUs differ by as much
        (0.0300, 0.0260, ["slower"]),
        (0.0260, 0.0300, ["host"]),
    ],
)
def test_rank_whose_python_and_kernels_are_stretched_alike_has_a_slower_cpu(
    kernels: float, host: float, kinds: list[str]
) -> None:
    """The other takes 25 ms for kernels and 20 ms outside them."""
    plant = {
        "kernels": {0: 0.025 - COMPUTE, 1: kernels - COMPUTE},
        "host": {0: 0.020 - HOST, 1: host - HOST},
    }
    found = concluded(job(plant=plant))
    assert [one.kind for one in (found.bottleneck, *found.also) if one and one.ranks] == kinds


@pytest.mark.parametrize(
    ("phases", "kernels", "kind"),
    [
        ((0.024, 0.050, 0.0022), 0.017, "slower"),  # about twice as long each: its CPU is slower
        ((0.024, 0.050, 0.0010), 0.017, "host"),  # the optimizer's as on the other: its code does more
        ((0.048, 0.025, 0.0022), 0.017, "host"),
        ((0.024, 0.050, 0.0022), 0.0, "host"),  # Python alone, as under a tracer
    ],
)
def test_rank_all_phases_of_which_are_stretched_has_a_slower_cpu(
    phases: tuple[float, ...], kernels: float, kind: str
) -> None:
    """Most of it is seen outside kernels, of which few steps have been recorded."""
    played = job(plant={"kernels": {1: kernels}, "host": {1: 0.060}})
    means = (0.012, 0.025, 0.001), phases
    signals = [one._replace(phases=np.array(mean)) for one, mean in zip(played.signals, means, strict=True)]
    assert named(concluded(played._replace(signals=signals))) == (kind, ("ddp:1",))


# -- more than one rank ----------------------------------------------------------------------------


def test_ranks_that_are_late_alike_are_named_together() -> None:
    found = concluded(job(ranks=8, plant={"input": {1: 0.015, 5: 0.015}}))
    assert named(found) == ("input", ("ddp:1", "ddp:5"))


def test_ranks_of_one_node() -> None:
    hosts = ["a", "a", "b", "b"]
    found = concluded(job(ranks=4, hosts=hosts, plant={"delay": {2: 0.015, 3: 0.015}}))
    assert named(found) == ("contention", ("ddp:2", "ddp:3"))
    assert found.bottleneck is not None
    assert found.bottleneck.host == "b"


def test_node_of_many_ranks_among_many() -> None:
    hosts = [f"node{rank // 16}" for rank in range(64)]
    late = dict.fromkeys(range(32, 48), 0.03)
    found = concluded(job(steps=100, ranks=64, hosts=hosts, plant={"input": late}))
    assert found.bottleneck is not None
    assert (found.bottleneck.kind, found.bottleneck.host, len(found.bottleneck.ranks)) == (
        "input",
        "node2",
        16,
    )


def test_input_that_holds_every_rank_up() -> None:
    found = concluded(job(plant={"input": {0: 0.05, 1: 0.05}}))
    assert named(found) == ("input", ())
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.054, rel=0.05)


def test_node_with_too_few_cpus_for_its_ranks() -> None:
    found = concluded(job(plant={"delay": {0: 0.03, 1: 0.03}}), {"node": 0.0})
    assert named(found) == ("contention_own", ())


@pytest.mark.parametrize(("more", "is_named"), [(0.004, False), (0.02, True)])
def test_little_more_cpu_time_where_cpus_lack_is_no_cause(more: float, is_named: bool) -> None:
    """Others have emptied its caches: seen of a healthy rank on a crowded node."""
    found = concluded(job(plant={"delay": {0: 0.03, 1: 0.03}, "host": {1: more}}), {"node": 1.0})
    kinds = [(one.kind, one.ranks) for one in [found.bottleneck, *found.also] if one]
    assert (("host", ("ddp:1",)) in kinds) is is_named
    assert ("contention", ()) in kinds


def test_rank_that_lacks_cpus_more_and_so_needs_more_cpu_time_is_in_contention() -> None:
    """Seen of a healthy rank: 16 % more CPU time and 43 % longer waits, as foreign load fell on its CPU."""
    waits = {0: 0.093, 1: 0.134}
    more = {"kernels": {1: 0.16 * COMPUTE}, "host": {1: 0.16 * HOST}}
    found = concluded(job(plant={"delay": waits, **more}), {"node": 1.6})
    assert named(found) == ("contention", ())
    kinds = [(one.kind, one.ranks) for one in found.also]
    assert kinds == [("contention", ("ddp:1",))]


def test_communication_that_takes_most_of_a_step() -> None:
    found = concluded(job(transfer=0.1))
    assert named(found) == ("transfer", ())
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.1, rel=0.05)


def test_two_things_are_put_in_order() -> None:
    found = concluded(job(plant={"input": {1: 0.006}, "host": {1: 0.060}}))
    assert named(found) == ("host", ("ddp:1",))
    assert [cause.kind for cause in found.also] == ["input"]


def test_ranks_that_are_late_by_turns_have_no_single_cause() -> None:
    turns = {rank: np.where(np.arange(STEPS) % 4 == rank, 0.05, 0.0) for rank in range(4)}
    found = concluded(job(ranks=4, plant={"blocked": turns}))
    assert (found.kind, found.bottleneck) == ("unclear", None)
    assert found.lost > 0.03


@pytest.mark.parametrize("lasting", [1, 10, 12])  # steps of a turn
@pytest.mark.parametrize("planted", ["blocked", "host", "kernels"])
def test_rank_that_has_one_turn_more_is_not_named(planted: str, lasting: int) -> None:
    """The first of two ranks has 13 turns of 10 steps, the other one 12."""
    turns = {rank: np.where(np.arange(250) // lasting % 2 == rank, 0.06, 0.0) for rank in range(2)}
    found = concluded(job(steps=250, plant={planted: turns}))
    assert (found.kind, found.bottleneck, found.also) == ("unclear", None, [])
    assert found.lost > 0.02


def test_rank_that_is_late_while_another_is_not_late_by_the_same_takes_no_turns() -> None:
    turns = [np.where(np.arange(STEPS) % 2 == rank, 0.06, 0.0) for rank in range(2)]
    found = concluded(job(plant={"host": {0: turns[0]}, "blocked": {1: turns[1]}}))
    gains = {
        (cause.kind, *cause.ranks): cause.gain.mean for cause in [found.bottleneck, *found.also] if cause
    }
    assert gains == {
        ("host", "ddp:0"): pytest.approx(0.03, rel=0.1),
        ("blocked", "ddp:1"): pytest.approx(0.03, rel=0.1),
    }


def test_what_passes_is_no_bottleneck() -> None:
    once = np.where(np.arange(STEPS) < 50, 0.05, 0.0)
    found = concluded(job(plant={"delay": {1: once}}))
    assert found.bottleneck is None


# -- how sure --------------------------------------------------------------------------------------


def test_few_steps_are_said() -> None:
    found = concluded(job(steps=20, plant={"input": {1: 0.05}}))
    assert named(found) == ("input", ("ddp:1",))
    assert (found.confidence, found.why) == ("low", ("few_steps",))


def test_next_to_no_steps_say_nothing() -> None:
    found = concluded(job(steps=7, plant={"input": {1: 0.05}}))
    assert (found.kind, found.bottleneck) == ("unknown", None)


def test_ranks_that_meet_unseen_are_not_called_healthy() -> None:
    played = job(plant={"input": {1: 0.02}})
    signals = [one._replace(held=np.where(np.arange(STEPS) == 3, one.held, np.nan)) for one in played.signals]
    found = concluded(played._replace(signals=signals, accounts=[account(one) for one in signals]))
    assert (found.kind, found.bottleneck) == ("unknown", None)


def test_account_with_much_that_is_unknown_is_unsure() -> None:
    played = job(plant={"input": {1: 0.02}})
    signals = [one._replace(run=None, delay=None, kernels=None) for one in played.signals]
    found = concluded(played._replace(signals=signals, accounts=[account(one) for one in signals]))
    assert named(found) == ("input", ("ddp:1",))
    assert "unattributed" in found.why


def test_a_rank_that_does_nothing_but_compute_is_healthy() -> None:
    (some,) = workers({})
    only = some._replace(kernels=None, threads_run=some.duration, threads_delay=np.zeros(STEPS))
    found = conclude([only], [account(only)], None)
    assert found.bound_by is not None and found.bound_by.share == 1.0
    assert found.kind == "healthy"


def test_one_rank_alone_is_bound_by_what_it_does() -> None:
    found = concluded(job(ranks=1))
    assert (found.kind, found.lost) == ("healthy", 0.0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_job_that_sleeps_a_third_of_its_steps_is_not_healthy(ranks: int) -> None:
    asleep = {"blocked": dict.fromkeys(range(ranks), 0.040)}
    found = concluded(with_threads(job(ranks=ranks, plant=asleep), 0.002))
    assert named(found) == ("blocked", ())
    assert found.bottleneck is not None
    assert found.bottleneck.gain.mean == pytest.approx(0.040, rel=0.03)
    little = job(ranks=ranks, plant={"blocked": dict.fromkeys(range(ranks), 0.010)})
    assert concluded(with_threads(little, 0.002)).kind == "healthy"
    if ranks > 1:  # threads of communication are active while ranks are held
        communicating = with_threads(job(ranks=ranks, plant=asleep, transfer=0.020), 0.025)
        assert named(concluded(communicating)) == ("blocked", ())
    # As in JAX: other threads compute, or wait for a CPU, while the main one is blocked.
    waits = with_threads(job(ranks=ranks, plant=asleep), 0.030)
    assert concluded(waits).bottleneck is None


def with_threads(played: Played, others: float) -> Played:
    """others: seconds a step in which other threads than the main one wait for a CPU, or run (a fifth)."""
    signals = [
        one._replace(
            threads_run=(0.0 if one.run is None else one.run) + others / 5,
            threads_delay=(0.0 if one.delay is None else one.delay) + others * 4 / 5,
        )
        for one in played.signals
    ]
    return played._replace(signals=signals)


@pytest.mark.parametrize("unseen", [{"on_gpu": True, "kernels": None}, {"held": None, "held_run": None}])
def test_who_may_wait_for_a_gpu_or_for_others_unseen_is_not_said_to_sleep(unseen: dict[str, Any]) -> None:
    played = job(plant={"blocked": {0: 0.040, 1: 0.040}})
    signals = [one._replace(**unseen) for one in played.signals]
    found = conclude(signals, [account(one) for one in signals], None)
    assert found.bottleneck is None or found.bottleneck.kind != "blocked"
    assert "blocked" not in parts_of_all(signals)
    idle = [one._replace(threads_run=one.run, threads_delay=one.delay) for one in signals]
    found = conclude(idle, [account(one) for one in idle], None)
    assert (found.kind == "unknown") == ("held" in unseen), "they may wait for each other"


def test_what_most_time_goes_to_but_unevenly_is_not_named_and_the_job_not_called_healthy() -> None:
    found = concluded(job(ranks=1, plant={"delay": {0: pulses(STEPS // 3, 20.0)}}))
    assert found.bound_by is not None and found.bound_by.part == "contention"
    assert found.bound_by.share > 0.5
    assert (found.kind, found.bottleneck, found.why) == ("unclear", None, ("uneven",))


@pytest.mark.parametrize(
    ("ranks", "plant", "saved"),
    [
        (2, {"input": {0: 0.020}, "kernels": {1: 0.020}}, 0.020),
        (4, {"input": {0: 0.015}, "kernels": {1: 0.015}, "host": {2: 0.015}}, 0.0145),
    ],
)
def test_ranks_that_are_late_for_different_reasons_are_named_together(
    ranks: int, plant: dict[str, dict[int, float]], saved: float
) -> None:
    found = concluded(job(ranks=ranks, plant=plant))
    assert (found.kind, found.bottleneck) == ("unclear", None)
    assert found.several is not None
    planted = {"input": "input", "kernels": "compute", "host": "host"}
    expected = {(f"ddp:{rank}", planted[part]) for part, more in plant.items() for rank in more}
    assert {(late.rank, late.part) for late in found.several.late} == expected
    assert found.several.gain.mean == pytest.approx(saved, rel=0.1)


def test_what_all_do_half_of_the_time_but_unevenly_makes_no_job_healthy() -> None:
    pauses = np.where(np.arange(STEPS) % 50 == 25, 3.5, 0.0)
    found = concluded(with_threads(job(plant={"blocked": {0: pauses, 1: pauses}}), 0.002))
    assert found.bound_by is not None and found.bound_by.part == "blocked"
    assert (found.kind, found.bottleneck, found.why) == ("unclear", None, ("uneven",))


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.15])
@pytest.mark.parametrize("ranks", [2, 8])
def test_chance_names_nobody(noise: float, ranks: int) -> None:
    for seed in range(25):
        found = concluded(job(steps=60, ranks=ranks, noise=noise, seed=seed))
        assert (found.bottleneck, found.several) == (None, None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_chance_names_at_most_10_of_10000_healthy_jobs() -> None:
    random = np.random.default_rng(0)
    wrong = 0
    for seed in range(10_000):
        steps, ranks = int(random.choice([40, 100, 300])), int(random.choice([2, 2, 4, 8]))
        found = concluded(job(steps, ranks, noise=float(random.choice([0.01, 0.05, 0.15])), seed=seed))
        wrong += found.bottleneck is not None or found.several is not None
    assert wrong <= 10


@pytest.mark.slow
def test_more_work_that_costs_nothing_names_at_most_2_of_1000_jobs() -> None:
    """What is known needs less proof, and must still cost something."""
    random = np.random.default_rng(0)
    wrong = 0
    for seed in range(1000):
        work = {"examples": {rank: 36.0 if rank == 1 else 32.0 for rank in range(4)}}
        ranks, noise = int(random.choice([2, 3, 4])), float(random.choice([0.01, 0.05, 0.15]))
        found = concluded(job(100, ranks, noise=noise, seed=seed, columns=work))
        wrong += found.bottleneck is not None
    assert wrong <= 2


def bursts(random: np.random.Generator, steps: int, lasting: float, share: float, mean: float) -> Floats:
    """Waits for a CPU that come in bursts of so many steps, in so great a share of the steps."""
    on = np.zeros(steps)
    now = random.random() < share
    for at in range(steps):
        now = random.random() > 1 / lasting if now else random.random() < share / (1 - share) / lasting
        on[at] = now
    return on * random.exponential(mean, steps)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("lasting", "share", "steps", "most"),
    [(5, 0.2, 300, 2), (20, 0.1, 300, 2), (50, 0.1, 300, 3), (50, 0.3, 300, 20), (200, 0.1, 1000, 14)],
)
def test_bursts_that_fall_on_one_rank_by_chance(lasting: float, share: float, steps: int, most: int) -> None:
    """Of 200 jobs; docs/accuracy.md states the rates."""
    random = np.random.default_rng(7)
    named_ranks = 0
    for seed in range(200):
        waits = {rank: bursts(random, steps, lasting, share, 0.02) for rank in range(2)}
        found = concluded(job(steps, plant={"delay": waits}, seed=seed)).bottleneck
        named_ranks += found is not None and bool(found.ranks)
    assert named_ranks <= most


# -- ranks that step independently -----------------------------------------------------------------


def workers(*extra: dict[str, float | Floats], steps: int = STEPS, seed: int = 4) -> list[RankSignals]:
    """Workers of parameter servers; extra: part -> seconds more."""
    random = np.random.default_rng(seed)
    found = []
    for rank, more in enumerate(extra):
        host = HOST * random.uniform(0.7, 1.3, steps) + more.get("host", 0.0)
        kernels = COMPUTE * random.uniform(0.9, 1.1, steps) + more.get("kernels", 0.0)
        waits = random.exponential(0.03, steps) + more.get("wait", 0.0)
        delay = random.exponential(0.001, steps) + more.get("delay", 0.0)
        begin = np.zeros(steps, np.int64)
        number = np.arange(steps, dtype=np.int64)
        columns: dict[str, Any] = {"kernels": kernels, "threads_run": kernels + host, "threads_delay": delay}
        found.append(
            RankSignals(
                f"worker:{rank}",
                "worker",
                "node",
                number,
                begin,
                begin,
                kernels + host + waits + delay,
                waits_for_servers=True,
                cores=1.0,
                **columns,
            )
        )
    return found


def of_workers(*extra: dict[str, float | Floats]) -> Conclusion:
    signals = workers(*extra)
    return conclude(signals, [account(one) for one in signals], None, {"node": 2.0})


def test_equal_workers_are_healthy() -> None:
    assert of_workers({}, {}, {}).kind == "healthy"


@pytest.mark.slow
def test_chance_names_at_most_2_of_2000_healthy_jobs_of_workers() -> None:
    random = np.random.default_rng(0)
    wrong = 0
    for seed in range(2000):
        steps, count = int(random.choice([40, 100, 300])), int(random.choice([2, 2, 4, 8]))
        signals = workers(*[{}] * count, steps=steps, seed=seed)
        found = conclude(signals, [account(one) for one in signals], None)
        wrong += any(cause.ranks for cause in [found.bottleneck, *found.also] if cause)
    assert wrong <= 2


def test_worker_that_computes_longer() -> None:
    found = of_workers({}, {"kernels": 0.04}, {})
    assert named(found) == ("slower", ("worker:1",))
    assert found.bottleneck is not None
    # It is one of three: their rate rises by less than its own.
    assert found.bottleneck.share == pytest.approx(0.10, abs=0.03)


def test_one_slow_worker_of_many_is_named_by_its_own_step() -> None:
    """It costs the job at most the sixteenth that it could contribute."""
    found = of_workers(*[{}] * 15, {"kernels": 0.4})
    assert named(found) == ("slower", ("worker:15",))
    assert found.bottleneck is not None and found.bottleneck.share == pytest.approx(0.05, abs=0.01)


def test_slow_worker_that_costs_the_job_hardly_anything_is_no_bottleneck() -> None:
    found = of_workers(*[{}] * 63, {"kernels": 0.4})
    assert (found.kind, found.bottleneck) == ("healthy", None)
    assert [(one.kind, one.ranks) for one in found.also] == [("slower", ("worker:63",))]
    assert found.also[0].is_minor and found.also[0].gain.mean > 0


def test_slow_workers_of_which_each_costs_hardly_anything_are_named_together() -> None:
    found = of_workers(*[{}] * 40, *[{"kernels": 0.03}] * 24)
    assert found.bottleneck is not None and not found.also
    assert (found.bottleneck.kind, len(found.bottleneck.ranks)) == ("slower", 24)
    gain = 24 * (1 / 0.101 - 1 / 0.131)
    assert found.bottleneck.share == pytest.approx(gain / (gain + 40 / 0.101 + 24 / 0.131), rel=0.1)


def test_worker_that_waits_longer_for_servers_is_not_at_fault() -> None:
    assert of_workers({}, {"wait": 0.04}, {}).bottleneck is None


def test_worker_that_lacks_cpus() -> None:
    assert named(of_workers({}, {"delay": 0.03}, {})) == ("contention", ("worker:1",))


@pytest.mark.parametrize(("planted", "kind"), [("kernels", "unexplained"), ("input", "input")])
def test_rank_whose_threads_were_not_measured_is_not_said_to_sleep(planted: str, kind: str) -> None:
    played = job(plant={planted: {1: 0.010}})
    signals = [one._replace(kernels=None, run=None, delay=None) for one in played.signals]
    accounts = with_waits([account(one) for one in signals], played.grid)
    assert "other" in accounts[0].parts and "blocked" not in accounts[0].parts
    found = concluded(played._replace(signals=signals, accounts=accounts))
    assert named(found) == (kind, ("ddp:1",))


def test_known_work_is_one_place_to_look_at() -> None:
    """What times alone do not prove yet: the gain is a few of its errors."""
    noise = {rank: np.random.default_rng(rank).exponential(0.012, STEPS) for rank in (0, 1)}
    plant = {"kernels": {1: 0.007}, "host": noise}
    assert named(concluded(job(plant=plant, columns={"examples": {0: 32.0, 1: 32.0}}))) is None
    more = concluded(job(plant=plant, columns={"examples": {0: 32.0, 1: 36.0}}))
    assert named(more) == ("more_work", ("ddp:1",))
