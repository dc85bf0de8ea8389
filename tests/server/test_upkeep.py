from __future__ import annotations

import math
from pathlib import Path

import pytest
from roofline_server.store.retention.plan import DAY_NS, Policy
from roofline_server.upkeep import WAIT_NS, AgeLimit, Keep, _age_limit, disk_bytes, policy_of

from .builders import open_store
from .store.histories import OF_A, OF_B, A, B, greet


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep(), Policy(None, 800)),
        (Keep(gb=0), Policy(None, None)),
        (Keep(days=math.inf, gb=math.inf), Policy(None, None)),
        (Keep(gb=0.5), Policy(None, 500_000_000)),
        (Keep(days=30), Policy(30 * DAY_NS, 800)),
        (Keep(days=0.5, gb=0, tagged=("a", "b=1")), Policy(DAY_NS // 2, None, tagged=("a", "b=1"))),
    ],
)
def test_options_make_a_policy(keep: Keep, expected: Policy) -> None:
    assert policy_of(keep, disk_bytes=1000) == expected


def test_size_of_a_file_system_is_known(tmp_path: Path) -> None:
    assert disk_bytes(tmp_path) > 1 << 20


NOW = 2_000 * DAY_NS


def test_ages_are_believed_if_newest_data_are_of_today() -> None:
    assert AgeLimit(NOW - DAY_NS // 2, NOW).applies(NOW, NOW)
    assert AgeLimit(None, NOW).applies(NOW, NOW)


def test_server_whose_clock_is_ahead_at_its_start_removes_nothing_by_age_for_an_hour() -> None:
    ahead = NOW + 400 * DAY_NS
    limit = AgeLimit(NOW, ahead)
    assert not limit.applies(ahead, ahead)
    assert not limit.applies(ahead + WAIT_NS - 1, ahead + WAIT_NS - 1)
    # It may just as well have been off for a year.
    assert limit.applies(ahead + WAIT_NS, ahead + WAIT_NS)


def test_server_whose_clock_was_set_back_since_its_start_removes_nothing_by_age() -> None:
    limit = AgeLimit(NOW, NOW)
    assert not limit.applies(NOW + 400 * DAY_NS, NOW)
    assert limit.applies(NOW + 400 * DAY_NS, NOW + 400 * DAY_NS)


def test_server_that_is_started_again_within_the_hour_goes_on_waiting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)  # years before now
    store.seal()
    now_ns = store.now_ns()
    before = _age_limit(store)
    assert before.wait_until_ns >= now_ns + WAIT_NS
    B.put(store, *OF_B)
    store.close()
    again = open_store(tmp_path)
    assert _age_limit(again).wait_until_ns == before.wait_until_ns
    again.close()
    assert AgeLimit(NOW, NOW, NOW + 400 * DAY_NS).wait_until_ns == 0  # noted by a clock that was ahead
