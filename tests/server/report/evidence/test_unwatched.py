"""Ranks that worked while nobody watched their node, in the throughput of their job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from roofline.answers.verdict import Verdict
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.store.store import Store

from ...builders import ABSENT, BEGIN, END, MS, UNIX, Node, S, batch, marks, rank

HOSTS = ("n0", "n1", "n2")
STEP = 100 * MS
FIRST, LAST = 100, 160  # s


def put(store: Store, host: str, index: int, stretches: Sequence[tuple[int, int]], **more: bool) -> None:
    """A worker of one step a tenth of a second, of 32 examples, that was seen in these stretches, seconds."""
    node = Node(host, UNIX, host)
    node.greet(store)
    who = [rank(index=index, pid=100 + index, start_ns=90 * S)]
    exits, asynchronous = more.get("exits", False), more.get("asynchronous", False)
    for number, (begin, end) in enumerate(stretches):
        found = []
        for k in range((begin - FIRST) * 10, (end - FIRST) * 10):
            at = FIRST * S + k * STEP
            found += [(0, BEGIN, k, ABSENT, at), (0, END, k, 32, at + STEP)]
        gone = pb.Event(kind=pb.EVENT_KIND_RANK_EXITED, rank=0, begin_ns=end * S, end_ns=end * S)
        events = [gone] if exits and (begin, end) == stretches[-1] else []
        node.put(
            store,
            batch(
                number + 1,
                begin * S,
                end * S,
                ranks=who,
                marks=marks(found, asynchronous),
                events=events,
            ),
        )


def verdict(
    store: Store, seen: Mapping[str, Sequence[tuple[int, int]]], ends: Sequence[str] = (), **more: bool
) -> Verdict:
    for index, (host, stretches) in enumerate(seen.items()):
        put(store, host, index, stretches, exits=host in ends, **more)
    view = store.view("job")
    assert view
    return build(view, now_ns=UNIX + (LAST + 1) * S).verdict


def rate(found: Verdict) -> float:
    assert found.examples_per_second.value is not None
    return found.examples_per_second.value


WHOLE = [(FIRST, LAST)]


def test_agent_that_dies_costs_a_synchronous_job_no_throughput(store: Store) -> None:
    found = verdict(store, {"n0": [(FIRST, 105)], "n1": WHOLE, "n2": WHOLE})
    assert rate(found) == pytest.approx(960)
    assert found.examples_per_second_of_run is None
    assert "n0 silent for 55 s: agent stopped, or cut off from the server" in found.quality
    (note,) = [line for line in found.quality if line.startswith("examples/s")]
    assert "with 550 steps of a rank that nobody saw" in note


def test_gap_of_an_agent_costs_no_throughput(store: Store) -> None:
    found = verdict(store, {"n0": [(FIRST, 120), (140, LAST)], "n1": WHOLE})
    assert rate(found) == pytest.approx(640)


def test_agent_that_comes_late_costs_no_throughput(store: Store) -> None:
    assert rate(verdict(store, {"n0": [(130, LAST)], "n1": WHOLE})) == pytest.approx(640)


def test_rank_that_ends_early_works_no_longer(store: Store) -> None:
    found = verdict(store, {"n0": [(FIRST, 130)], "n1": WHOLE}, ends=["n0"])
    assert rate(found) == pytest.approx((300 + 600) * 32 / 60, rel=0.01)
    assert found.examples_per_second_of_run is not None


def test_ranks_that_step_on_their_own_count_while_all_are_watched(store: Store) -> None:
    found = verdict(store, {"n0": [(FIRST, 120)], "n1": WHOLE}, asynchronous=True)
    assert rate(found) == pytest.approx(640, rel=0.01)
    (note,) = [line for line in found.quality if line.startswith("examples/s")]
    assert "during which agents watched all ranks" in note


def test_agents_whose_data_come_a_moment_later_are_not_silent(store: Store) -> None:
    found = verdict(store, {"n0": [(FIRST, LAST - 3)], "n1": WHOLE})
    assert rate(found) == pytest.approx(640)
    assert not [line for line in found.quality if "silent" in line or line.startswith("examples/s")]


def test_last_steps_of_who_ended_are_not_of_a_time_when_all_were_watched(store: Store) -> None:
    """They end with the process, whose end is seen a batch later."""
    found = verdict(
        store, {"n0": [(FIRST, 120)], "n1": [(FIRST, 130), (130, LAST)]}, ["n1"], asynchronous=True
    )
    assert rate(found) == pytest.approx(640, rel=0.01)
