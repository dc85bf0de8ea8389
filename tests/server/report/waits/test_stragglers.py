"""How often ranks came last."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.report.waits.stragglers import _last, _times_last

NAN = float("nan")
NAMES = ["ddp:0", "ddp:1", "ddp:2"]
LATE = np.array([[0.0, 0.2, 0.1], [0.3, 0.0, 0.1], [0.0, 0.0, 0.0], [NAN, NAN, NAN], [0.0, NAN, 0.5]])


@pytest.mark.parametrize(
    ("ranks", "times"),
    [
        ("ddp:1", (1, 4)),
        ("ddp:0, ddp:1", (2, 4)),
        ("ddp:2", (1, 4)),
        ("", (0, 0)),
        ("ps:0", (0, 0)),
    ],
)
def test_steps_in_which_one_of_some_ranks_came_last(ranks: str, times: tuple[int, int]) -> None:
    assert _times_last(_last(LATE), NAMES, ranks) == times


def test_where_nothing_is_known_of_the_barrier_nothing_is_counted() -> None:
    assert _times_last(_last(np.zeros((0, 3))), NAMES, "ddp:1") == (0, 0)
    assert _times_last(_last(np.full((4, 3), NAN)), NAMES, "ddp:1") == (0, 0)
