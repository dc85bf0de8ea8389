"""What of a process is told to the server that was one rank for a moment, and then another."""

from __future__ import annotations

from pathlib import Path

from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.events import RankEvents
from roofline_agent.records import Batch, Event, EventKind, Rank

from tests.fakes import add_process

IDENTITY = {"ROOFLINE_JOB": "j", "ROOFLINE_RANK": "0"}


def moved(discovery: Discovery, proc: Path, report: bool) -> Rank:
    """The rank that a process was until another turned out to be that."""
    for pid in (20, 21):
        add_process(proc, pid, IDENTITY, start_ticks=pid)
        discovery.look_at(pid)
    if report:
        discovery.changes()
    before = discovery.ranks[21]
    discovery.distinguish(discovery.rivals[20], 20)
    assert discovery.ranks[21] != before
    return before


def test_rank_that_was_never_reported_ends_with_the_batch_that_has_something_of_it(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path))
    events = RankEvents(discovery, {})
    before = moved(discovery, tmp_path, report=False)
    assert discovery.changes()[1] == [], "it was not there"
    batch = Batch(0, 9, events=[Event(EventKind.FACT, 1, 1, before, text="hook.torch=installed")])
    assert events.of_moved(batch, 9) == [Event(EventKind.RANK_EXITED, 9, 9, before)]
    assert events.of_moved(batch, 10) == [], "said once"


def test_rank_of_which_nothing_was_sent_has_no_end(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path))
    moved(discovery, tmp_path, report=False)
    assert RankEvents(discovery, {}).of_moved(Batch(0, 9), 9) == []


def test_rank_that_was_reported_ends_once(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path))
    before = moved(discovery, tmp_path, report=True)
    assert discovery.changes()[1] == [before]
    batch = Batch(0, 9, events=[Event(EventKind.FACT, 1, 1, before, text="hook.torch=installed")])
    assert RankEvents(discovery, {}).of_moved(batch, 9) == []
