"""How results are scored, on results made up by hand."""

from __future__ import annotations

from typing import Any

import pytest

from . import tables
from .plans import CAUSES, FRAMEWORKS, HEALTHY, LOADS, SEVERITIES, plans, reason_against
from .score import FALSE, FOREIGN, MISSED, OTHER, RIGHT, SILENT, UNFELT, scored, summary, upper_bound


def result(
    *found: tuple[str, str, float], cause: str = "sleep_step", severity: float = 0.2, **delay_s: float
) -> dict[str, Any]:
    """A run with 10 ms planted on ddp:1 of steps of 50 ms, or a healthy one. found: (kind, rank, cost)."""
    rank = "" if cause == HEALTHY else "ddp:1"
    plan = {
        "framework": "ddp",
        "model": "cnn",
        "cause": cause,
        "severity": severity,
        "load": "quiet",
        "seed": 0,
    }
    cost = None if cause == HEALTHY else 0.01
    findings = [
        {
            "kind": k,
            "rank": r,
            "cost_s": c,
            "gain_low_s": 0.9 * c,
            "gain_high_s": 1.1 * c,
            "confidence": "high",
        }
        for k, r, c in found
    ]
    return {
        "key": f"ddp-{cause}",
        "plan": {**plan, "rank": rank},
        "truth": {
            "cost_s": cost,
            "gain_s": cost,
            "step_s": 0.06,
            "reference": {"step_s": 0.05},
            "others": 0.01,
            "delay_s": {"ddp:0": 0.0, "ddp:1": 0.0, **{k.replace("_", ":"): v for k, v in delay_s.items()}},
        },
        "said": {"kind": "bottleneck" if found else "healthy", "findings": findings},
        "date": "2026-01-01T00:00:00",
        "machine": {"cpus": 2, "processor": "x"},
        "versions": {"framework": "torch 2"},
    }


def test_planted_rank_named_first_is_right() -> None:
    one = scored(result(("blocked", "ddp:1", 0.012), ("input", "ddp:0", 0.002)))
    assert (one.outcome, one.is_right_cause, one.is_first) == (RIGHT, True, True)
    assert one.cost_error == pytest.approx(0.2)
    assert one.without_error == pytest.approx(0.04)  # 48 ms instead of 50
    assert one.holds_gain is False


def test_run_whose_pair_had_no_profiler_tells_no_gain() -> None:
    earlier = result(("more_work", "ddp:1", 0.012), cause="batch")
    earlier["truth"]["bare"] = earlier["truth"].pop("reference")
    one = scored(earlier)
    assert (one.outcome, one.cost_error, one.without_error, one.holds_gain) == (RIGHT, None, None, None)
    earlier["plan"]["cause"] = "sleep_step"  # what a plant measures of itself does not need the pair
    assert scored(earlier).cost_error == pytest.approx(0.2)


def test_another_rank_named_before_the_planted_one_is_wrong() -> None:
    one = scored(result(("input", "ddp:0", 0.012), ("blocked", "ddp:1", 0.002)))
    assert (one.outcome, one.is_right_cause, one.is_first) == (OTHER, False, False)
    assert one.cost_error is None


def test_one_kind_of_merged_parts_has_to_be_right() -> None:
    assert scored(result(("host|blocked", "ddp:1", 0.01))).is_right_cause
    assert not scored(result(("host|input", "ddp:1", 0.01))).is_right_cause


def test_what_is_about_no_rank_names_nobody() -> None:
    assert scored(result(("input", "", 0.01))).outcome == MISSED
    assert scored(result(("input", "", 0.01), cause=HEALTHY)).outcome == SILENT


def test_healthy_run_with_a_name_is_a_false_alarm() -> None:
    assert scored(result(("input", "ddp:0", 0.01), cause=HEALTHY)).outcome == FALSE
    assert scored(result(cause=HEALTHY)).outcome == SILENT


@pytest.mark.parametrize(("delay", "outcome"), [(0.003, FOREIGN), (0.001, FALSE)])
def test_foreign_load_is_no_false_alarm_where_it_fell_on_the_rank(delay: float, outcome: str) -> None:
    one = result(("contention", "ddp:0", 0.01), cause=HEALTHY, ddp_0=delay)
    assert scored(one).outcome == outcome


@pytest.mark.parametrize(
    ("kind", "delay", "outcome"),
    [("contention", 0.001, RIGHT), ("contention", 0.003, MISSED), ("contention_own", 0.001, MISSED)],
)
def test_hog_that_fell_on_all_ranks_is_contention_of_all(kind: str, delay: float, outcome: str) -> None:
    one = result((kind, "", 0.01), cause="hog", ddp_1=delay)
    assert (scored(one).outcome, scored(one).is_right_cause) == (outcome, outcome == RIGHT)


def test_second_finding_of_a_healthy_run_is_an_alarm_too() -> None:
    assert scored(result(("input", "", 0.01), ("host", "ddp:0", 0.01), cause=HEALTHY)).outcome == FALSE


def test_plant_that_costs_nothing_is_not_missed() -> None:
    one = result()
    assert scored(one).outcome == MISSED
    one["truth"]["gain_s"] = 0.0005  # it slept, but the others were not there earlier
    assert scored(one).outcome == UNFELT
    assert summary([scored(one), scored(result(("blocked", "ddp:1", 0.01)))]).recall == 1


def test_what_all_ranks_have_may_stand_before_the_plant() -> None:
    one = scored(result(("contention", "", 0.02), ("blocked", "ddp:1", 0.01)))
    assert (one.outcome, one.is_right_cause, one.is_first) == (RIGHT, True, False)


def test_quiet_run_that_strangers_disturb_is_counted_apart() -> None:
    one = result(("contention", "", 0.02), ("blocked", "ddp:1", 0.01))
    one["truth"]["others"] = 0.3
    assert (scored(one).load, scored(one).outcome) == ("disturbed", RIGHT)


def test_shares_are_of_the_runs_they_are_about() -> None:
    right = [result(("blocked", "ddp:1", 0.01)), result(("host", "ddp:1", 0.02))]
    other, missed = result(("host", "ddp:0", 0.01)), result()
    one = summary(scored(each) for each in [*right, other, missed])
    assert (one.precision, one.recall, one.cause) == (2 / 3, 2 / 4, 1 / 2)
    assert one.cost_error == pytest.approx(0.5)  # of 0 and 1
    assert one.holding == (1, 2)


def test_bound_of_no_event_is_exact() -> None:
    assert upper_bound(0, 150) == pytest.approx(1 - 0.05 ** (1 / 150))
    assert upper_bound(0, 150) < 0.02 < upper_bound(0, 148)
    assert upper_bound(1, 20) == pytest.approx(0.2161, abs=1e-4)  # Clopper and Pearson's tables
    assert upper_bound(3, 3) == 1


def test_every_combination_is_run_or_has_a_reason() -> None:
    made = list(plans(range(1), cores=2))
    assert len({one.key for one in made}) == len(made)
    run = {(one.framework, one.cause, one.load) for one in made}
    for framework in FRAMEWORKS:
        for cause in CAUSES:
            for load in LOADS:
                assert ((framework, cause, load) in run) != bool(reason_against(framework, cause, 2))


def test_first_runs_are_a_sample_of_all() -> None:
    first = list(plans(range(1), cores=2))[:150]
    assert {one.framework for one in first} == set(FRAMEWORKS)
    assert {one.load for one in first} == set(LOADS)
    assert {one.severity for one in first} == {0, *SEVERITIES}
    assert 30 < sum(one.cause == HEALTHY for one in first) < 75


def test_a_third_of_the_healthy_runs_has_servers() -> None:
    sound = [one for one in plans(range(1), cores=2) if one.cause == HEALTHY]
    assert 3 * sum(bool(one.servers) for one in sound) == len(sound)


def test_tables_stand_between_the_markers_alone() -> None:
    page = tables.page([result(("blocked", "ddp:1", 0.01)), result(cause=HEALTHY, severity=0)], 2)
    text = tables.into(f"before\n{tables.BEGIN}\nof last time\n{tables.END}\nafter\n", page)
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "of last time" not in text
    assert "| quiet, 20% | 1 | - | 100% | 100% |" in text
    assert tables.into(text, page) == text
