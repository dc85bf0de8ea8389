"""Lines that cannot be switched off are read for a part of the time where they come fast."""

from __future__ import annotations

import pytest
from roofline_agent.run.reading import ENOUGH, SHORTEST_S, LineReading
from roofline_agent.verbose import VerboseFilter

LINE = (
    b"onednn_verbose,v1,1700000000000.5,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 "
    b"dst:f32:p:blocked:Acdb16a::f0,attr-scratchpad:user,,8x3x3x3,0.004\n"
)


def read_share(reading: LineReading, lines_per_s: int, seconds: int) -> float:
    """Share of the time that is read, looked at every 0.2 s."""
    looks = 5 * seconds
    return sum(reading.wanted(look / 5, 1 + look * lines_per_s // 5) for look in range(looks)) / looks


@pytest.mark.parametrize(
    ("lines_per_s", "share"), [(10, 1.0), (200, 1.0), (400, 1.0), (1000, 1 / 4), (10_000, 1 / 40)]
)
def test_time_is_read_as_the_budget_allows(lines_per_s: int, share: float) -> None:
    reading = LineReading(0.005, cpus=2)  # of which 250 lines a second can be read
    assert read_share(reading, lines_per_s, 5000) == pytest.approx(share, rel=0.25)
    assert reading.period == round(1 / share)


def test_short_trainings_are_read_whole() -> None:
    assert read_share(LineReading(0.005, cpus=2), 100_000, int(SHORTEST_S)) == 1.0
    assert read_share(LineReading(0.005, cpus=2), 1000, ENOUGH // 1000) == 1.0


def test_waiting_for_the_first_line_is_no_reading() -> None:
    reading = LineReading(0.005, cpus=2)
    assert all(reading.wanted(float(at), 0) for at in range(1000))
    assert read_share(reading, 10_000, 100) < 0.1


def test_lines_are_taken_out_unread_and_the_rest_stays() -> None:
    filtered = VerboseFilter()
    filtered.reads = False
    assert filtered.feed(b"a\n" + LINE + b"b" + LINE[:30], 0) == b"a\nb"
    assert filtered.feed(LINE[30:] + b"c\nx", 0) == b"c\nx"
    assert filtered.take() == [] and filtered.lines_seen == 2
    filtered.reads = True
    assert filtered.feed(b"\n" + LINE, 0) == b"\n"
    assert len(filtered.take()) == 1


def test_lines_that_users_asked_for_stay() -> None:
    filtered = VerboseFilter(keep_onednn=True)
    filtered.reads = False
    assert filtered.feed(LINE, 0) == LINE
