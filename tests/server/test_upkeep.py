from __future__ import annotations

import math
from pathlib import Path

import pytest
from roofline_server.store.retention.plan import DAY_NS, Policy
from roofline_server.upkeep import Keep, disk_bytes, policy_of


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
