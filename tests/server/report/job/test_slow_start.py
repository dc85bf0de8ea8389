"""When it is said that a job spends its time before the first step."""

from __future__ import annotations

from pathlib import Path

from roofline_server.report.job.build import build, first_screen
from roofline_server.report.job.slow_start import slow_start, slow_start_notes
from roofline_server.sentences import notes as texts

from ...builders import S
from ..odd_jobs import FIRST, Odd, stored


def test_rank_that_starts_long_after_the_others_is_named() -> None:
    assert slow_start(80.0, 100.0, {"ddp:0": 0.0, "ddp:1": 60.0}) == [texts.slow_start(80, 100, "ddp:1", 60)]
    assert slow_start(80.0, 100.0, {"ddp:0": 0.0, "ddp:1": 5.0}) == [texts.slow_start(80, 100, "", 5)]
    assert texts.slow_start(80, 100, "ddp:1", 60) == (
        "80 s of 100 s passed before the first step; ddp:1 started 60 s after the first rank"
    )


def test_frameworks_may_take_a_while_to_load_and_long_jobs_to_start() -> None:
    assert slow_start(25.0, 30.0, {"ddp:0": 0.0}) == []
    assert slow_start(80.0, 1000.0, {"ddp:0": 0.0, "ddp:1": 70.0}) == []
    assert slow_start(80.0, 100.0, {}) == ["80 s of 100 s passed before the first step"]


def test_first_screen_and_notes_have_it(tmp_path: Path) -> None:
    waits = [Odd("worker", range(60), begin=FIRST + 40 * S, readings=42)]
    view = stored(tmp_path, waits, asynchronous=False).view("job")
    assert view is not None
    (note,) = slow_start_notes(view)
    assert note.startswith("40 s of ")
    assert note in build(view).notes
    found = first_screen(view).verdict
    assert found is not None and note in found.quality
