from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.model.barrier import lateness
from roofline_server.model.stragglers import (
    RankTimes,
    late_ranks,
    medians_of_others,
    slow_ranks,
    starved,
    starved_of_input,
    verdict,
)
from roofline_server.records import Floats

STEPS = 40
STEP_S = 0.1


def noise(seed: int, size: float = 0.003) -> Floats:
    return np.abs(np.random.default_rng(seed).normal(0, size, STEPS))


def ranks_that(*late: Floats, **columns: list[Floats]) -> tuple[list[RankTimes], Floats]:
    """Ranks that come to the barrier of 100 ms steps `late` after their time; columns: one array per rank."""
    ranks = [
        RankTimes(
            f"ddp:{at}",
            "node",
            np.full(STEPS, STEP_S) + noise(90),
            **{name: values[at] for name, values in columns.items()},
        )
        for at in range(len(late))
    ]
    return ranks, lateness(1.0 - np.column_stack(late))


def test_healthy_ranks_are_not_named() -> None:
    assert late_ranks(*ranks_that(noise(1), noise(2), noise(3))) == []


@given(st.integers(0, 10_000), st.integers(2, 8))
def test_chance_names_nobody(seed: int, count: int) -> None:
    assert late_ranks(*ranks_that(*(noise(seed * 10 + at, 0.02) for at in range(count)))) == []


def test_late_rank_is_named_with_what_it_costs_the_others() -> None:
    (found,) = late_ranks(*ranks_that(noise(1), noise(2) + 0.05, noise(3)))
    assert (found.rank, found.kind) == ("ddp:1", "delay")
    assert found.cost == pytest.approx(0.05, rel=0.1)
    assert found.share == pytest.approx(0.5, rel=0.1)
    assert (found.steps, found.of_steps) == (STEPS - 1, STEPS - 1)


def test_of_two_late_ranks_the_later_stands_first() -> None:
    found = late_ranks(*ranks_that(noise(1), noise(2) + 0.03, noise(3), noise(4) + 0.06, noise(5)))
    assert [f.rank for f in found] == ["ddp:3", "ddp:1"]


def test_rank_that_is_late_only_now_and_then_is_named() -> None:
    seldom = np.where(np.arange(STEPS) % 4 == 3, 0.2, 0.0)
    (found,) = late_ranks(*ranks_that(noise(1), noise(2) + seldom))
    assert found.rank == "ddp:1"
    assert found.cost == pytest.approx(0.05, rel=0.2)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("input", "input"), ("starved", "cpu"), ("kernels", "compute"), ("cpu", "compute"), ("lead", "input")],
)
def test_reason_is_what_it_has_more_of_than_the_others(column: str, kind: str) -> None:
    usual = np.full(STEPS, 0.01)
    ranks, late = ranks_that(noise(1), noise(2) + 0.05, **{column: [usual, usual + 0.045]})
    (found,) = late_ranks(ranks, late)
    assert found.kind == kind
    assert any("45 ms" in sentence for sentence in found.evidence)


def test_small_differences_explain_nothing() -> None:
    usual = np.full(STEPS, 0.01)
    (found,) = late_ranks(*ranks_that(noise(1), noise(2) + 0.05, input=[usual, usual + 0.004]))
    assert found.kind == "delay"
    assert not any("input than" in sentence for sentence in found.evidence)


def test_stopped_process_is_a_delay_whatever_else_it_has() -> None:
    usual = np.full(STEPS, 0.01)
    ranks, late = ranks_that(noise(1), noise(2) + 0.05, starved=[usual, usual + 0.05])
    (found,) = late_ranks([ranks[0], ranks[1]._replace(stopped=0.5)], late)
    assert found.kind == "delay"
    assert "stopped in 50%" in found.evidence[1]


def test_too_few_steps_say_nothing() -> None:
    ranks, late = ranks_that(noise(1), noise(2) + 1)
    assert late_ranks(ranks, late[:4]) == []
    assert "too few steps" in verdict([], "", late[:4], STEP_S)


@pytest.mark.parametrize("steps", [6, 12, 20])
def test_chance_hardly_ever_names_one_of_many_ranks_in_a_short_job(steps: int) -> None:
    ranks = [RankTimes(f"ddp:{at}", "node", np.full(steps, STEP_S)) for at in range(64)]
    named = 0
    for seed in range(100):
        late = np.abs(np.random.default_rng(seed).normal(0, 0.03, (steps, 64)))
        named += bool(late_ranks(ranks, lateness(1.0 - late)))
    assert named <= 3


def test_steps_in_which_all_come_at_once_have_no_last_rank() -> None:
    seldom = np.where(np.arange(STEPS) % 4 == 3, 0.3, 0.0)
    ranks, late = ranks_that(np.zeros(STEPS), seldom)
    (found,) = late_ranks(ranks, late)
    assert (found.rank, found.steps) == ("ddp:1", 10)


def test_steps_of_no_length_name_nobody() -> None:
    nothing = np.zeros(STEPS)
    ranks = [RankTimes(f"ddp:{at}", "node", nothing, input=nothing) for at in range(2)]
    assert late_ranks(ranks, np.zeros((STEPS, 2))) == []
    assert slow_ranks(ranks) == []
    assert starved_of_input(ranks) == []


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(0, 9)), min_size=4, max_size=4), min_size=1, max_size=9)
)
def test_median_of_the_others_is_that_of_the_table_without_one(found: list[list[float | None]]) -> None:
    late = np.array([[np.nan if v is None else v for v in row] for row in found])
    got = medians_of_others(late)
    for step, row in enumerate(late):
        for rank in range(4):
            others = np.delete(row, rank)
            known = others[~np.isnan(others)]
            expected = np.median(known) if len(known) else np.nan
            assert got[step, rank] == pytest.approx(expected, nan_ok=True)


def test_one_rank_has_nobody_to_be_later_than() -> None:
    assert late_ranks(*ranks_that(noise(1))) == []


def test_more_cpu_time_is_work_and_no_lack_of_cpus() -> None:
    usual = np.full(STEPS, 0.01)
    ranks, late = ranks_that(
        noise(1), noise(2) + 0.05, cpu=[usual, usual + 0.04], starved=[usual, usual + 0.03]
    )
    assert late_ranks(ranks, late)[0].kind == "compute"


def test_longer_step_on_a_busy_node_lacks_no_more_cpu() -> None:
    usual = np.full(STEPS, 0.04)
    ranks, late = ranks_that(
        noise(1), noise(2) + 0.05, starved=[usual, usual * 1.5], lead=[usual, usual + 0.05]
    )
    longer = ranks[1]._replace(duration=ranks[0].duration * 1.5)
    assert late_ranks([ranks[0], longer], late)[0].kind == "input"


def test_lack_of_a_cpu_is_counted_once_for_threads_that_wait_together() -> None:
    one, four = (starved(np.array([0.1]), np.array([0.05 * n]), np.array([0.05 * n])) for n in (1, 4))
    assert one.tolist() == four.tolist() == [pytest.approx(0.05)]


# -- without barriers ------------------------------------------------------------------------------


def alone(name: str, duration: float, **columns: Floats) -> RankTimes:
    return RankTimes(name, "node", np.full(STEPS, duration) + noise(len(name)), **columns)


def test_independent_rank_with_longer_steps_is_slow() -> None:
    (found,) = slow_ranks([alone("worker:0", 0.1), alone("worker:1", 0.1), alone("worker:2", 0.2)])
    assert (found.rank, found.kind) == ("worker:2", "delay")
    assert found.cost == pytest.approx(0.1, rel=0.05)


def test_independent_ranks_of_one_pace_are_not_named() -> None:
    assert slow_ranks([alone("worker:0", 0.1), alone("worker:1", 0.11)]) == []


def test_rank_that_waits_for_input_is_named_even_alone() -> None:
    ranks = [alone("ddp:0", 0.1, input=np.full(STEPS, 0.04)), alone("ddp:1", 0.1, input=np.full(STEPS, 0.01))]
    (found,) = starved_of_input(ranks)
    assert (found.rank, found.kind) == ("ddp:0", "input")
    assert found.share == pytest.approx(0.4, rel=0.05)
    assert starved_of_input([alone("ddp:0", 0.1)]) == []


# -- in words --------------------------------------------------------------------------------------


def test_verdict_names_the_dearest_cause() -> None:
    causes = late_ranks(*ranks_that(noise(1), noise(2) + 0.05, noise(3)))
    assert verdict(causes, "", np.zeros((STEPS, 3)), STEP_S).startswith("ddp:1: ")


def test_verdict_tells_health_from_ignorance() -> None:
    waits = np.full((STEPS, 2), 0.001)
    assert verdict([], "", waits, STEP_S) == "no rank holds the others up"
    assert "no hook tells" in verdict([], "no hook tells", waits, STEP_S)
    assert "for none in particular" in verdict([], "", waits * 50, STEP_S)
    assert verdict([], "", np.zeros((0, 2)), STEP_S) == "no rank holds the others up"
