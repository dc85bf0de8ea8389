"""The text that Prometheus reads."""

from __future__ import annotations

import re

from roofline_server.health.metrics import text

from .conditions import WELL, condition
from .samples import samples


def test_numbers_of_a_server() -> None:
    found = samples(text(WELL))
    assert found['roofline_build_info{version="0.1.0",python="3.11.7"}'] == 1
    assert found["roofline_ready"] == 1
    assert found["roofline_agents"] == 3
    assert found["roofline_batches_total"] == 500
    assert found["roofline_last_seal_age_seconds"] == 10
    assert found["roofline_clock_error_seconds"] == 0.00012
    assert found["process_resident_memory_bytes"] == 1 << 27


def test_buckets_of_a_histogram_add_up() -> None:
    found = samples(text(WELL))
    assert [found[f'roofline_commit_seconds_bucket{{le="{le}"}}'] for le in ("0.01", "0.1", "+Inf")] == [
        5,
        7,
        8,
    ]
    assert found["roofline_commit_seconds_count"] == 8
    assert found["roofline_commit_seconds_sum"] == 1.5


def test_what_is_not_known_is_not_shown() -> None:
    unknown = condition(last_seal=None, clock_error_s=None, refusals=None, memory_bytes=None)
    found = text(unknown)
    for name in ("last_seal_age", "clock_error", "refused_calls", "resident_memory"):
        assert name not in found
    assert samples(text(condition(refusals=0)))["roofline_refused_calls_total"] == 0


def test_every_metric_says_what_it_is() -> None:
    lines = text(WELL).splitlines()
    named = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert named == {line.split()[2] for line in lines if line.startswith("# HELP ")}
    bare = {re.sub(r"_(bucket|sum|count)$", "", name.partition("{")[0]) for name in samples(text(WELL))}
    assert bare == named


def test_odd_labels_are_escaped() -> None:
    assert r'version="a\"b\\c\nd"' in text(condition(version='a"b\\c\nd'))


def test_not_ready_is_zero() -> None:
    assert samples(text(condition(reasons=("it is stopping",))))["roofline_ready"] == 0
