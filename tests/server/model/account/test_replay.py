from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.account.account import account, with_waits
from roofline_server.model.account.replay import Replay, median_of_others
from roofline_server.model.account.synchronous_job import BESIDE, MOST_STEPS, Job, job_of

from ..jobs import TRANSFER, Played, job

OWN = ("input", "compute", "host", "contention", "blocked")


def replayed(played: Played) -> Replay:
    found = job_of(played.signals, played.accounts, played.grid)
    assert found is not None
    return Replay(found)


def test_job_with_nothing_mended_is_the_job_as_it_was() -> None:
    played = job(ranks=3, plant={"input": {1: 0.01}})
    replay = replayed(played)
    assert replay.job.exact
    assert replay.job.played == pytest.approx(played.step[1:], abs=1e-8)
    assert replay.job.measured.mean() == pytest.approx(played.step[1:].mean(), rel=1e-3)


def test_parts_are_the_time_until_a_rank_comes() -> None:
    replay = replayed(job(ranks=3))
    assert replay.group(OWN) == pytest.approx(replay.job.own, abs=1e-7)


@pytest.mark.parametrize(
    ("planted", "part"),
    [("input", "input"), ("kernels", "compute"), ("host", "host"), ("blocked", "blocked")],
)
def test_mending_gives_what_was_planted(planted: str, part: str) -> None:
    # The job without it is known: the same draws without what is planted.
    with_it, without = job(plant={planted: {1: 0.010}}), job()
    replay = replayed(with_it)
    gain = (replay.job.played - replay.like_others([1], [part])).mean()
    assert gain == pytest.approx((with_it.step - without.step)[1:].mean(), rel=0.05)


def test_ranks_that_are_alike_gain_nothing_from_being_made_alike() -> None:
    replay = replayed(job(steps=1000, ranks=4))
    for rank in range(4):
        gain = (replay.job.played - replay.like_others([rank], ["compute", "host"])).mean()
        assert abs(gain) < 0.0005


def test_two_late_ranks_are_mended_only_together() -> None:
    replay = replayed(job(ranks=8, plant={"input": {1: 0.010, 5: 0.010}}))
    played = replay.job.played.mean()
    assert played - replay.like_others([1], ["input"]).mean() < 0.003
    assert played - replay.like_others([1, 5], ["input"]).mean() == pytest.approx(0.0085, abs=0.002)


def test_stops_amid_the_communication_are_gone_with_the_rank_or_the_part_that_is_mended() -> None:
    replay = replayed(job(transfer=0.035, columns={"stopped": {1: 0.020}}))
    played = replay.job.played.mean()
    gain = played - replay.without_parts(["stopped"]).mean()
    assert gain == pytest.approx(0.019, abs=0.002)
    assert played - replay.all_like_others(1).mean() == pytest.approx(gain, abs=0.002)
    assert played - replay.all_like_others(0).mean() < 0.002
    assert played - replay.without_transfer().mean() == pytest.approx(0.035 - gain, abs=0.002)


def test_part_on_no_rank() -> None:
    replay = replayed(job(plant={"input": {0: 0.02, 1: 0.02}}))
    assert (replay.job.played - replay.without(["input"])).mean() == pytest.approx(0.025, rel=0.05)


def test_communication_that_costs_nothing() -> None:
    replay = replayed(job())
    assert (replay.job.played - replay.without_transfer()).mean() == pytest.approx(TRANSFER, rel=0.05)


def test_steps_that_stand_alone_are_played_by_their_windows() -> None:
    """Every other step is left out: none follows another."""
    played = job(plant={"input": {1: 0.010}})
    some = played.grid.step % 2 == 0
    grid = played.grid._replace(step=played.grid.step[some], at=played.grid.at[some])
    found = job_of(played.signals, played.accounts, grid)
    assert found is not None
    assert not found.exact
    assert found.played.mean() == pytest.approx(found.measured.mean(), rel=0.01)


def test_stretch_between_steps_is_in_no_step() -> None:
    played = job()
    late = 10_000_000_000
    signals = []
    for one in played.signals:
        begin, end = one.begin_ns.copy(), one.end_ns.copy()
        begin[100:] += late  # an evaluation before step 100
        end[100:] += late
        signals.append(one._replace(begin_ns=begin, end_ns=end))
    found = job_of(signals, played.accounts, played.grid)
    assert found is not None
    assert len(found.own) == 198
    assert found.played.max() < 1


def test_rank_that_came_late_to_the_job_does_not_hide_the_others() -> None:
    played = job(ranks=3)
    at = played.grid.at.copy()
    at[:150, 2] = -1
    found = job_of(played.signals, played.accounts, played.grid._replace(at=at))
    assert found is not None
    assert found.ranks == ["ddp:0", "ddp:1"]


@pytest.mark.parametrize("clock_error", [0.0, 1.0])
def test_what_a_rank_does_between_its_steps_makes_it_late(clock_error: float) -> None:
    played = job(ranks=3, plant={"input": {1: 0.030}})
    marked = played.signals[1]._replace(begin_ns=played.signals[1].begin_ns + 30_000_000)
    duration = (marked.end_ns - marked.begin_ns) / 1e9
    marked = marked._replace(duration=duration, input=np.maximum(0.0, marked.input - 0.030))
    signals = [played.signals[0], marked, played.signals[2]]
    grid = played.grid._replace(clock_error=clock_error)
    found = job_of(signals, with_waits([account(one) for one in signals], grid), grid)
    assert found is not None
    assert found.played.mean() == pytest.approx(played.step.mean(), rel=0.02)
    assert found.measured.mean() == pytest.approx(played.step.mean(), rel=0.02)
    gain = (found.played - Replay(found).like_others([1], [BESIDE])).mean()
    assert gain == pytest.approx(played.step.mean() - job(ranks=3).step.mean(), rel=0.05)


def test_clocks_that_are_not_known_well_are_not_compared() -> None:
    played = job(ranks=2, plant={"input": {1: 0.006}})
    ahead = played.signals[0]._replace(
        begin_ns=played.signals[0].begin_ns + 8_000_000, end_ns=played.signals[0].end_ns + 8_000_000
    )
    signals = [ahead, played.signals[1]]
    for error, exact in ((0.0001, True), (0.009, False)):
        found = job_of(signals, played.accounts, played.grid._replace(clock_error=error))
        assert found is not None and found.exact == exact
    gain = (found.played - Replay(found).like_others([1], ["input"])).mean()
    assert gain == pytest.approx(0.006, rel=0.2)


def test_long_job_is_played_by_some_of_its_steps() -> None:
    found = replayed(job(steps=5000)).job
    assert (len(found.own), found.aligned) == (MOST_STEPS, 5000)


@pytest.mark.parametrize("steps", [MOST_STEPS, 2 * MOST_STEPS, 2 * MOST_STEPS + 2, 4 * MOST_STEPS])
@pytest.mark.parametrize("period", [2, 4, 10])
def test_pattern_of_the_steps_does_not_fall_in_with_those_that_are_played(steps: int, period: int) -> None:
    more = np.where(np.arange(steps) % period == 0, 0.008 * period, 0.0)
    replay = replayed(job(steps=steps, plant={"input": {1: more}}))
    gain = (replay.job.played - replay.like_others([1], ["input"])).mean()
    alone = job(steps=steps)
    assert replay.job.played.mean() - alone.step[1:].mean() == pytest.approx(gain, rel=0.05)
    assert gain == pytest.approx(0.008, rel=0.1)


def test_ranks_without_a_barrier_have_no_replay() -> None:
    played = job()
    signals = [one._replace(held=None) for one in played.signals]
    assert job_of(signals, played.accounts, played.grid) is None


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.law
@given(st.integers(0, 1000), st.integers(1, 5), st.sampled_from(OWN))
def test_mending_never_makes_a_step_longer_than_its_parts_allow(seed: int, ranks: int, part: str) -> None:
    found = replayed(job(steps=30, ranks=ranks, seed=seed)).job
    replay = Replay(found)
    played = found.played
    assert (replay.without([part]) <= played + 1e-12).all()
    assert (replay.without_transfer() <= played + 1e-12).all()
    assert (replay.without(OWN) >= -1e-9).all()
    for rank in range(ranks):
        mended = replay.like_others([rank], [part])
        most = found.parts[part].max() if part in found.parts else 0.0
        assert (mended <= played + most + 1e-12).all()
        if ranks > 1:
            assert (mended >= np.delete(found.arrival, rank, axis=1).max(axis=1) - 1e-12).all()


@pytest.mark.law
@given(st.lists(st.floats(0, 10), min_size=2, max_size=12))
def test_median_of_others_is_that_of_the_rest(values: list[float]) -> None:
    expected = [float(np.median(values[:at] + values[at + 1 :])) for at in range(len(values))]
    assert median_of_others(np.array(values)) == pytest.approx(expected)


def test_same_job_gives_the_same_answer() -> None:
    found: Job = replayed(job()).job
    assert (Replay(found).like_others([1], ["input"]) == Replay(found).like_others([1], ["input"])).all()
