from __future__ import annotations

import numpy as np
import pytest
from roofline_server.correlate.in_a_row import MOST, in_rows
from roofline_server.correlate.spans import total
from roofline_server.records import ABSENT, Table


@pytest.mark.parametrize(("longest_ns", "groups"), [(1_000, 1), (MOST // 4, 3)])
def test_ranks_follow_each_other_as_far_as_their_times_fit(longest_ns: int, groups: int) -> None:
    ranks = np.array([7, 2, 7, 5, 9, 11])
    found = list(in_rows(ranks, np.array([0, longest_ns])))
    assert [rank for some in found for rank in some.ranks.tolist()] == [2, 5, 7, 9, 11]
    assert len(found) == groups
    for some in found:
        shift = some.shift(some.ranks)
        assert (np.diff(shift) > longest_ns).all()
        assert int(shift.max()) + longest_ns < 2**63


@pytest.mark.parametrize("later_ns", [0, MOST // 2])
def test_spans_are_summed_alike_of_ranks_together_and_apart(later_ns: int) -> None:
    rank = np.array([1, 1, 2, 2, 3])
    begin = np.array([0, 100, 0, 100, later_ns])
    windows: Table = {"rank": rank, "window": np.full(5, -1), "step": np.arange(5), "begin_ns": begin}
    windows["end_ns"] = begin + 100
    spans: Table = {
        "rank": np.array([1, 2, 3]),
        "time_ns": np.array([50, 10, later_ns + 20]),
        "end_ns": np.array([150, 40, later_ns + 30]),
        "name": np.array(["phase.input", "phase.input", "phase.forward"], object),
        "bytes": np.array([ABSENT, 8, ABSENT]),
        "count": np.array([1, 1, 1]),
    }
    found = total(windows, spans)
    assert found["rank"].tolist() == [1, 1, 2, 2, 3]
    assert found["phase.input.ns"].tolist() == [50, 50, 30, 0, ABSENT]
    assert found["phase.input.bytes"].tolist() == [ABSENT, ABSENT, 8, 0, ABSENT]
    assert found["phase.forward.ns"].tolist() == [ABSENT] * 4 + [10]
