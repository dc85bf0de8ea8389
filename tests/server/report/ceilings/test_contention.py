"""Ranks that share a node are compared with their parts of its roof, whatever their points are of."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_server.report.questions import ALL_STEPS, Subject
from roofline_server.report.roofline.rooflines import needed, roofline
from roofline_server.report.time_roofline.time_rooflines import TimeRooflineQuery, time_roofline

from ...builders import MS, batch, rank
from ..work import FIRST, STEP, Call, Host, kernel, store_of

N = 16
SUBJECT = Subject("job", ALL_STEPS, ())
# For the whole step at a sixteenth of the node's 4 TFLOP/s: together they are at its peak.
GEMM = Call(kernel("matmul", int(4e12 / N * 0.1), 10**7), 1, 100 * MS)


@pytest.mark.parametrize("points", ["role", "rank", "step", "kernel", "phase"])
def test_ranks_at_the_peak_together_are_at_the_roof(tmp_path: Path, points: str) -> None:
    store = store_of(tmp_path, GEMM, ranks=N)
    view = store.view("job", needed("classic", points))
    assert view is not None
    found = roofline(store, view, SUBJECT, "classic", points).points
    assert found
    for point in found:
        assert "compute-bound, at " in point.words and "more machines help" in point.words


def test_parameter_server_takes_no_part_of_the_roof(tmp_path: Path) -> None:
    store = store_of(tmp_path, GEMM, ranks=2)
    host = Host("b", host="host-a")
    host.greet(store)
    host.put(store, batch(1, FIRST, FIRST + 10 * STEP, ranks=[rank(role="ps", pid=300)]))
    view = store.view("job", needed("classic", "rank"))
    assert view is not None
    workers = [p for p in roofline(store, view, SUBJECT, "classic", "rank").points if p.role == "worker"]
    assert [p.words.endswith("the node's roof is shared by 2 ranks") for p in workers] == [True, True]


@pytest.mark.parametrize("points", ["step", "kernel"])
def test_ranks_at_the_peak_together_take_no_longer_than_it_allows(tmp_path: Path, points: str) -> None:
    (panel,) = time_roofline(
        store_of(tmp_path, GEMM, ranks=N), TimeRooflineQuery(SUBJECT, "", (), "", points)
    ).panels
    for point in panel.points:
        assert point.words.startswith(
            "bound by computing, at 100 % of its part (1/16) of the shared peak FLOP/s"
        )
