from __future__ import annotations

import pytest
from roofline_server.store.steps import shares
from roofline_server.store.steps.shares import in_shares

from ...builders import GAUGE, metric

METRICS = [metric("a"), metric("b"), metric("a.coverage", GAUGE)._replace(coverage_of="a"), metric("c")]


def names(samples: int) -> list[list[str]]:
    return [[one.name for one in some] for some in in_shares(METRICS, samples)]


def test_few_samples_are_read_at_once() -> None:
    assert names(0) == names(1000) == [[one.name for one in METRICS]]


def test_a_counter_is_read_with_its_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    # A gap between its samples would else not be seen.
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    assert names(1000) == [["a", "a.coverage"], ["b"], ["a.coverage"], ["c"]]
