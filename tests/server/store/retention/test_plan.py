from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.records import CutLevel
from roofline_server.store.retention.plan import (
    DAY_NS,
    ENDED_NS,
    TIMES_AS_LONG,
    Cut,
    Policy,
    StoredJob,
    Stretch,
    is_tagged,
    plan,
    useless,
)

RAW, STEPS, REPORT = CutLevel
NOW = 1000 * DAY_NS
SIZES = {RAW: 100, STEPS: 10, REPORT: 1}


def stored(name: str, days: float, **more: Any) -> StoredJob:
    """A job that ended so many days ago."""
    end_ns = NOW - int(days * DAY_NS)
    return StoredJob(name, end_ns - DAY_NS, end_ns, **{"bytes": SIZES, "ended": True, **more})


OLD, MIDDLE, YOUNG = stored("old", 100), stored("middle", 40), stored("young", 2)
ALL = [YOUNG, OLD, MIDDLE]


def cut(policy: Policy, jobs: list[StoredJob] = ALL) -> list[tuple[str, CutLevel]]:
    return [(one.job, one.level) for one in plan(jobs, policy, NOW)]


def test_what_is_stored_besides_the_jobs_counts_for_the_size() -> None:
    policy, fits = Policy(most_bytes=333), plan(ALL, Policy(most_bytes=333), NOW)
    assert fits == []
    assert plan(ALL, policy, NOW, other_bytes=1) == [Cut("old", RAW, 100)]


def test_no_policy_removes_nothing() -> None:
    assert plan(ALL, Policy(), NOW) == []


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (200, []),
        (100, [("old", RAW)]),
        (30, [("old", RAW), ("middle", RAW)]),
        (25, [("old", STEPS), ("middle", RAW)]),
        (2, [("old", REPORT), ("middle", REPORT), ("young", RAW)]),
    ],
)
def test_steps_are_kept_four_and_reports_sixteen_times_as_long(
    days: int, expected: list[tuple[str, CutLevel]]
) -> None:
    assert cut(Policy(older_ns=days * DAY_NS)) == expected


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (333, []),
        (332, [("old", RAW)]),
        (233, [("old", RAW)]),
        (232, [("old", RAW), ("middle", RAW)]),
        (33, [("old", RAW), ("middle", RAW), ("young", RAW)]),
        (32, [("old", STEPS), ("middle", RAW), ("young", RAW)]),
        (3, [("old", STEPS), ("middle", STEPS), ("young", STEPS)]),
        (0, [("old", REPORT), ("middle", REPORT), ("young", REPORT)]),
    ],
)
def test_raw_data_of_all_jobs_go_before_steps_of_any(most: int, expected: list[tuple[str, CutLevel]]) -> None:
    assert cut(Policy(most_bytes=most)) == expected


def test_cut_says_what_becomes_free() -> None:
    assert plan([OLD], Policy(older_ns=25 * DAY_NS), NOW) == [Cut("old", STEPS, 110)]


@pytest.mark.parametrize(
    "job",
    [
        stored("a", 0),
        stored("a", 0.9, ended=False),
        stored("a", 99, unsealed=True),
        stored("a", (ENDED_NS - 1) / DAY_NS),
    ],
)
def test_job_that_may_still_send_data_is_never_cut(job: StoredJob) -> None:
    assert cut(Policy(0, 0, times=dict.fromkeys(CutLevel, 1)), [job]) == []


def test_job_without_an_end_is_over_after_a_day() -> None:
    assert cut(Policy(0, deepest=RAW), [stored("a", 1, ended=False)]) == [("a", RAW)]


def test_job_with_a_tag_to_be_kept_stays_whole() -> None:
    kept = stored("kept", 100, tags={"experiment": "scaling"})
    assert cut(Policy(0, 0, tagged=["experiment=scaling"]), [kept, OLD]) == [("old", REPORT)]


@pytest.mark.parametrize(
    ("wanted", "is_kept"),
    [
        (["a"], True),
        (["a=1"], True),
        (["a=2"], False),
        (["b"], False),
        (["b", "a=1"], True),
        ([""], False),
        ([], False),
    ],
)
def test_tags_are_named_alone_or_with_their_value(wanted: list[str], is_kept: bool) -> None:
    assert is_tagged({"a": "1"}, wanted) is is_kept


def test_one_job_alone_down_to_what_shall_stay() -> None:
    policy = Policy(0, deepest=STEPS, job="middle", times=dict.fromkeys(CutLevel, 1))
    assert cut(policy) == [("middle", STEPS)]


def test_what_is_gone_is_not_cut_again() -> None:
    assert cut(Policy(0, deepest=RAW), [stored("a", 9, bytes={STEPS: 5})]) == []


@given(
    st.lists(
        st.builds(
            stored,
            st.uuids().map(str),
            st.floats(0, 500),
            bytes=st.dictionaries(st.sampled_from(CutLevel), st.integers(1, 10**12)),
            ended=st.booleans(),
            unsealed=st.booleans(),
        )
    ),
    st.integers(0, 10**13),
)
def test_size_is_kept_to_wherever_jobs_that_are_over_allow_it(jobs: list[StoredJob], most: int) -> None:
    cuts = plan(jobs, Policy(most_bytes=most), NOW)
    left = sum(sum(job.bytes.values()) for job in jobs) - sum(one.bytes for one in cuts)
    fixed = sum(sum(job.bytes.values()) for job in jobs if not job.is_over(NOW))
    assert left <= max(most, fixed)
    assert not {one.job for one in cuts} & {job.job for job in jobs if not job.is_over(NOW)}
    assert len({one.job for one in cuts}) == len(cuts)


def test_table_of_times_has_every_level() -> None:
    assert set(TIMES_AS_LONG) == set(CutLevel)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (Stretch(0, 9), False),
        (Stretch(0, 100), True),  # overlaps the job
        (Stretch(150, 160), True),
        (Stretch(195, 196), True),  # within the slack
        (Stretch(210, 211), False),
        (Stretch(80, 89), False),
        (Stretch(80, 90), True),
        (Stretch(0, 450), True),
        (Stretch(321, 450), False),
        (Stretch(400, 600), True),  # too young to tell
    ],
)
def test_events_of_nodes_are_needed_while_a_job_that_is_left_ran(events: Stretch, expected: bool) -> None:
    jobs = [Stretch(100, 110), Stretch(105, 190), Stretch(115, 120), Stretch(300, 310)]
    assert useless([events], jobs, before_ns=500, slack_ns=10) == [not expected]


def test_events_of_nodes_without_any_job_are_useless() -> None:
    assert useless([Stretch(0, 9), Stretch(1, 20)], [], before_ns=15, slack_ns=10) == [True, False]
