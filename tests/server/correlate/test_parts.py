"""Nodes, sockets, interfaces and peers: summed up by stretch, and the stretches add up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.parts import PartTotal, of_parts, summarise, totals
from roofline_server.records import ABSENT, NODE_RANK, Table, concatenate, take

from ..builders import GAUGE, S, metric

SENT, LOAD = metric("sent"), metric("load", GAUGE)


def sampled(*found: tuple[str, int, int, int], rank: int = NODE_RANK) -> Table:
    """found: (instance, time_s, sent, load)."""
    count = len(found)
    return {
        "rank": np.full(count, rank, np.int64),
        "node": np.zeros(count, np.int64),
        "start_ns": np.zeros(count, np.int64),
        "instance": np.array([f[0] for f in found], object),
        "time_ns": np.array([f[1] * S for f in found], np.int64),
        "sent": np.array([f[2] for f in found], np.int64),
        "load": np.array([f[3] for f in found], np.int64),
    }


def by_part(found: list[PartTotal]) -> dict[tuple[str, str], PartTotal]:
    return {(t.instance, t.metric.name): t for t in found}


@pytest.mark.parametrize("cut", range(5))
def test_time_in_which_nothing_was_counted_does_not_count(cut: int) -> None:
    share = metric("sent.coverage", GAUGE, True)._replace(coverage_of="sent")
    covered = sampled(*(("a", at, sent, 0) for at, sent in enumerate((0, 100, 100, 200))))
    covered |= {"sent.coverage": np.array([1.0, 1.0, 0.0, 1.0])}
    fell = sampled(*(("a", at, sent, 0) for at, sent in enumerate((0, 100, 0, 100))))
    for samples, metrics in ((covered, [SENT, share]), (fell, [SENT])):
        both = [
            summarise(take(samples, mine), metrics) for mine in np.split(np.arange(4), [cut]) if len(mine)
        ]
        total = by_part(totals(concatenate(both), metrics))["a", "sent"]
        assert (total.grown, total.seconds) == (200, 2)


def test_each_part_is_counted_apart() -> None:
    samples = sampled(("eth0", 0, 100, 1), ("eth1", 0, 0, 5), ("eth0", 10, 400, 3), ("eth1", 10, 7, 5))
    found = by_part(totals(summarise(samples, [SENT, LOAD]), [SENT, LOAD]))
    assert (found["eth0", "sent"].grown, found["eth0", "sent"].seconds) == (300, 10)
    assert found["eth1", "sent"].grown == 7
    assert (found["eth0", "load"].mean, found["eth0", "load"].largest) == (2, 3)


def test_mask_of_bits_has_the_share_of_each_and_no_mean() -> None:
    """0x04 and 0x48 in turn are never 0x26."""
    reasons = metric("throttle_reasons", GAUGE)
    samples = sampled(*(("gpu 0", at, 0, 0) for at in range(8)))
    samples["throttle_reasons"] = np.array([0x04, 0x48, 0x04, 0x48, ABSENT, 0, 0, 0], np.int64)
    halves = [summarise(take(samples, np.arange(8) // 4 == half), [reasons]) for half in (0, 1)]
    (total,) = totals(concatenate(halves), [reasons])
    assert (total.mean, total.largest, total.samples) == (None, None, 7)
    assert total.shares is not None
    assert {bit: round(7 * share) for bit, share in total.shares.items() if share} == {
        "power_cap": 2,
        "hw_slowdown": 2,
        "hw_thermal": 2,
    }


def test_mask_that_an_older_server_summed_up_has_no_shares() -> None:
    reasons = metric("throttle_reasons", GAUGE)
    samples = sampled(("gpu 0", 0, 0, 0)) | {"throttle_reasons": np.array([4], np.int64)}
    old = {name: column for name, column in summarise(samples, [reasons]).items() if ".has." not in name}
    (total,) = totals(old, [reasons])
    assert (total.mean, total.shares) == (None, {})
    later = sampled(("gpu 0", 9, 0, 0)) | {"throttle_reasons": np.array([0x20], np.int64)}
    (total,) = totals(concatenate([old, summarise(later, [reasons])]), [reasons])
    assert total.shares is not None and total.shares["sw_thermal"] == 1


def test_counter_that_begins_anew_loses_nothing_it_had_counted() -> None:
    samples = sampled(("a", 0, 100, 0), ("a", 1, 150, 0), ("a", 2, 10, 0), ("a", 3, 30, 0))
    assert by_part(totals(summarise(samples, [SENT]), [SENT]))["a", "sent"].grown == 70


def test_single_reading_has_no_growth_and_absent_ones_are_none() -> None:
    assert by_part(totals(summarise(sampled(("a", 0, 5, 1)), [SENT]), [SENT]))["a", "sent"].grown is None
    assert totals(summarise(sampled(("a", 0, ABSENT, 1), ("a", 1, ABSENT, 1)), [SENT]), [SENT]) == []


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50)), min_size=2, max_size=40),
    st.lists(st.integers(1, 39), max_size=4),
)
def test_stretches_add_up_to_the_whole(found: list[tuple[str, int]], cuts: list[int]) -> None:
    level = {"a": 0, "b": 0}
    rows = []
    for at, (part, more) in enumerate(found):
        level[part] += more
        rows.append((part, at, level[part], more))
    samples = sampled(*rows)
    whole = by_part(totals(summarise(samples, [SENT, LOAD]), [SENT, LOAD]))
    edges = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    stretches = [summarise(take(samples, np.arange(a, b)), [SENT, LOAD]) for a, b in pairwise(edges)]
    again = by_part(totals(concatenate(stretches[::-1]), [SENT, LOAD]))
    assert again.keys() == whole.keys()
    for key, one in whole.items():
        other = again[key]
        assert (other.grown, other.largest, other.seconds) == (one.grown, one.largest, one.seconds)
        assert other.mean == pytest.approx(one.mean) if one.mean is not None else other.mean is None


def test_rows_of_whole_ranks_are_no_parts() -> None:
    samples = concatenate([sampled(("", 0, 1, 1), ("ps:0", 0, 1, 1), rank=3), sampled(("", 0, 1, 1))])
    found = of_parts(samples)
    assert list(zip(found["rank"].tolist(), found["instance"].tolist(), strict=True)) == [
        (3, "ps:0"),
        (NODE_RANK, ""),
    ]
