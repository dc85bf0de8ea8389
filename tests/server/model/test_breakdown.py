from __future__ import annotations

import pytest
from roofline.answers.values import Scope
from roofline_server.model.breakdown import breakdown, why_phases_lack
from roofline_server.model.evidence import RankEvidence
from roofline_server.model.roofline import compose
from roofline_server.model.times import durations
from roofline_server.records import ABSENT
from roofline_server.sentences import breakdowns as texts
from roofline_server.sentences.breakdowns import phases_known

from .evidence import TEN, evidence, ints

STEP_S = float(durations(TEN).mean())


def rank(index: int = 0, *told: str) -> RankEvidence:
    """A rank of which hooks tell these phases, 0.1 s of each step in each."""
    columns = {f"phase.{name}.ns": ints(*[100_000_000] * 10) for name in told}
    return evidence(key=f"worker:{index}", steps=TEN, columns=columns)


def test_phase_that_no_hook_tells_says_which_are_told() -> None:
    found = breakdown([rank(0, "backward", "optimizer")], Scope.PROCESS)
    assert found["backward_time_per_step"].value
    assert found["input_time_per_step"].value is None
    why = phases_known(["backward", "optimizer"])
    assert found["input_time_per_step"].reason == found["communicate_time_per_step"].reason == why


def test_without_any_phase_no_hook_tells_them() -> None:
    found = breakdown([rank(0), rank(1)], Scope.ROLE)
    assert {v.value for v in found.values()} == {None}
    assert found["forward_time_per_step"].reason == phases_known([])
    assert found["other_time_per_step"].reason == phases_known([])


def test_ranks_that_differ_are_named() -> None:
    found = breakdown([rank(0, "input"), rank(1), rank(2, "input")], Scope.ROLE)
    assert found["input_time_per_step"].value
    assert found["forward_time_per_step"].reason == (
        f"{phases_known([], ['worker:1'])}; {phases_known(['input'], ['worker:0', 'worker:2'])}"
    )


def test_many_ranks_are_not_all_named() -> None:
    assert why_phases_lack([rank(0, "input"), *(rank(n) for n in range(1, 20))]).count("worker") == 8 + 1


def times(*ranks: RankEvidence) -> dict[str, float | None]:
    return {part.part: part.value.value for part in compose.time(ranks, Scope.ROLE)}


def test_phases_of_the_trainings_own_are_parts_of_the_step() -> None:
    found = times(rank(0, "input", "rollout"), rank(1, "input"))
    assert list(found)[-2:] == ["rollout", "other"]
    assert found["input"] == pytest.approx(0.1)
    assert found["rollout"] == pytest.approx(0.05)  # rank 1 marks its phases, and is in none of that name
    assert found["other"] == pytest.approx(STEP_S - 0.15)
    assert times(rank(0, "rollout"))["other"] == pytest.approx(STEP_S - 0.1)
    assert {"phase wait", "wait"} <= set(times(rank(0, "wait")))


def test_phases_that_overlap_are_not_taken_from_the_rest_of_the_step() -> None:
    names = ["input", *(f"own-{n}" for n in range(int(STEP_S / 0.1)))]
    parts = compose.time([rank(0, *names)], Scope.ROLE)
    assert parts[-1].part == "other" and parts[-1].value.value == pytest.approx(STEP_S - 0.1)
    assert parts[-1].words == texts.overlapping(names[1:])
    by_kernels = rank(0, "input", "rollout")._replace(barrier="kernels")
    assert compose.time([by_kernels], Scope.ROLE)[-1].words == texts.overlapping(["rollout"])


def test_many_own_phases_are_in_the_rest_of_the_step_and_named() -> None:
    columns = {f"phase.own-{n}.ns": ints(*[(n + 1) * 1_000_000] * 10) for n in range(10)}
    parts = compose.time([evidence(steps=TEN, columns=columns)], Scope.ROLE)
    assert parts[-1].words == texts.with_phases(["own-1", "own-0"])
    assert sum(part.value.value or 0.0 for part in parts) == pytest.approx(STEP_S)


def test_phase_that_only_others_of_the_job_have_is_not_told() -> None:
    mine = evidence(steps=TEN, columns={"phase.input.ns": ints(*[ABSENT] * 10)})
    assert why_phases_lack([mine]) == phases_known([])


def test_reason_that_is_known_goes_before() -> None:
    found = breakdown([rank(0)._replace(reasons={"phases": "no step is in the range"})], Scope.PROCESS)
    assert found["input_time_per_step"].reason == "no step is in the range"
