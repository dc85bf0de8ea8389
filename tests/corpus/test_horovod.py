"""Horovod's timelines: the numbers of the corpus."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.collector import Collector

from tests.agent.recorded.traces import phases, read, read_once
from tests.recordings import Oracle, corpus, meets, oracles

pytestmark = pytest.mark.corpus


def value(quantity: str, got: Collector) -> float | None:
    """An oracle's quantity, in its unit; fails on one that nobody mapped."""
    sums = {one.name: one for one in got.phases}
    kind, _, name = quantity.partition(" ")
    if kind == "total":
        return sums[name].time_s * 1e6 if name in sums else None
    if kind == "count":
        return sums[name].count if name in sums else None
    fact = {"events": "events", "tensors": "tensors", "ranks": "ranks", "span": "span_s"}[quantity]
    known = float(got.facts[fact])
    return known * 1e6 if quantity == "span" else known


@pytest.mark.parametrize("oracle", oracles("horovod"), ids=str)
def test_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, value(oracle.quantity, read_once(corpus(oracle.file))))


def test_timeline_without_an_end_is_read_without_a_warning() -> None:
    got = read(corpus("horovod/timeline_4ranks.json"))
    assert got.warnings == []
    assert got.tool == "horovod timeline"
    # 660 tensors of [4096, 1001] and smaller float32: known from the args of every E.
    assert phases(got)["ALLREDUCE"][2] == 13_815_490_040
