"""Spans and facts belong to whoever sent them; those that cannot be are refused and counted."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.marks.receiver import MAX_FACTS
from roofline_agent.records import EventKind
from roofline_step.packets import SPANS, pack_fact, pack_spans

from tests.fakes import add_process

from .receiving import SPAN, Site, mark


def test_spans_are_those_of_whoever_sent_them(site: Site) -> None:
    site.connect().send(pack_spans([SPAN, ("asked.allreduce", 11, 11, 4096, 3)]))
    site.take()
    first, second = site.spans
    assert (first.rank.key, *first[1:]) == ("chief:0", "phase.input", 10, 20, None, 1)
    assert second[1:] == ("asked.allreduce", 11, 11, 4096, 3)
    site.take()
    assert site.spans == []


def test_spans_of_a_wrapper_are_the_ranks_it_wraps(site: Site) -> None:
    link = site.connect()
    link.send(WRAPPED.pack(b"W", os.getpid()))
    link.send(pack_spans([SPAN]))
    site.take()
    assert [span.rank.key for span in site.spans] == ["chief:0"]


@pytest.mark.parametrize(
    "packet",
    [
        pack_spans([("Phase.Input", 10, 20, None, 1)]),
        pack_spans([("phase", 10, 20, None, 1)]),
        pack_spans([("phase." + "x" * 60, 10, 20, None, 1)]),
        pack_spans([("phase.input", 20, 10, None, 1)]),
        pack_spans([("phase.input", 10, 20, None, -1)]),
        pack_spans([("phase.input", 10, 20, None, 2**50)]),
        pack_spans([("phase.input", 10, 20, 2**50 + 1, 1)]),
        pack_spans([("phase.input", -(2**62), 20, 1, 1)]),
        pack_spans([("phase.input", 10, 2**62, 1, 1)]),
        pack_spans([SPAN])[:-1],
        SPANS.pack(b"S", 2**31, 1),
        SPANS.pack(b"S", 11, 1) + b"phase.input" + struct.pack("<5q", 1, 10, 20, 0, 1),
        b"S",
    ],
)
def test_span_that_cannot_be_is_refused(site: Site, packet: bytes) -> None:
    site.connect().send(packet)
    _, _, events = site.take()
    assert [event.kind for event in events] == [EventKind.REFUSED]
    assert site.spans == []


def test_fact_belongs_to_its_rank(site: Site) -> None:
    site.connect().send(pack_fact("hook.torch", "installed\x1b[31m"))
    _, _, (event,) = site.take()
    assert (event.kind, event.text) == (EventKind.FACT, "hook.torch=installed?[31m")
    assert event.rank is not None
    assert event.rank.key == "chief:0"


def test_fact_makes_no_rank_of_a_process_and_waits_until_it_is_one(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shutil.rmtree(site.proc / str(os.getpid()))
    add_process(site.proc, os.getpid(), {})
    link = site.connect()
    link.send(pack_fact("hook.torch", "installed"))
    assert site.take()[2] == []
    link.send(mark())
    _, _, events = site.take()
    assert [event.text for event in events if event.kind == EventKind.FACT] == ["hook.torch=installed"]
    site.close()


def test_facts_of_an_unknown_process_are_bounded(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shutil.rmtree(site.proc / str(os.getpid()))
    add_process(site.proc, os.getpid(), {})
    link = site.connect()
    for number in range(MAX_FACTS + 10):
        link.send(pack_fact("a.b", str(number)))
        site.take()
    link.send(mark())
    assert sum(event.kind == EventKind.FACT for event in site.take()[2]) == MAX_FACTS
    site.close()


def test_a_packet_may_hold_marks_and_spans(site: Site) -> None:
    packet = mark(kind=1, step=4) + mark(kind=2, step=4) + pack_spans([SPAN]) + mark(kind=3, step=5)
    site.connect().send(packet)
    marks, _, events = site.take()
    assert [(m.kind, m.step) for m in marks] == [(1, 4), (2, 4), (3, 5)]
    assert [span.name for span in site.spans] == ["phase.input"]
    assert events == []


def test_what_is_wrong_in_a_packet_costs_itself_and_what_follows(site: Site) -> None:
    site.connect().send(mark(step=4) + pack_spans([("BAD", 1, 2, None, 1)]) + mark(step=5))
    marks, _, (event,) = site.take()
    assert [m.step for m in marks] == [4]
    assert event.kind == EventKind.REFUSED
    site.connect().send(mark(step=6) + b"garbage")
    marks, _, (event,) = site.take()
    assert [m.step for m in marks] == [6]
    assert event.kind == EventKind.REFUSED
