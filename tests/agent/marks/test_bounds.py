"""What the server would refuse with all else in the batch is refused or cut by the agent."""

from __future__ import annotations

import pytest
from roofline.limits import MAX_BATCH_BYTES, MAX_SPAN_NAMES
from roofline_agent.marks import gathered
from roofline_agent.marks.receiver import MarkReceiver
from roofline_agent.ranks.new_names import TOO_MANY_NAMES
from roofline_agent.records import Batch, EventKind
from roofline_agent.uplink import bounds
from roofline_agent.uplink.encoding import encode
from roofline_step.packets import FACT, MAX_FACT, pack_fact, pack_spans

from .receiving import SHAPE, SPAN, Site, calls_packet, covered, flood, kernel, lost, mark, wrapped


def encoded(site: Site) -> bytes:
    marks, calls, events = site.take()
    return encode(Batch(1, 2, {}, marks, calls, events, (), site.spans), 1)


def test_rows_and_facts_leave_room_for_the_rest_of_a_batch() -> None:
    assert bounds.ROWS_BYTES + bounds.FACTS_BYTES + (3 << 20) <= MAX_BATCH_BYTES


@pytest.mark.parametrize(
    "packet",
    [
        mark(time_ns=2**62),
        mark(time_ns=-(2**62)),
        mark(time_ns=2**62, dropped=1),
        mark(step=2**63 - 1),
        mark(examples=2**60),
    ],
)
def test_mark_out_of_range_costs_only_itself(site: Site, packet: bytes) -> None:
    site.connect().send(mark(step=1) + packet + mark(step=2))
    marks, _, events = site.take()
    assert [m.step for m in marks] == [1, 2]
    assert [e.kind for e in events] == [EventKind.REFUSED]


def test_phase_keeps_only_printable_characters(site: Site) -> None:
    site.connect().send(mark(kind=4, phase=b"in\nput") + mark(kind=4, phase=b"x" * 255))
    assert [m.phase for m in site.take()[0]] == ["in?put", "x" * 255]


def test_rank_elsewhere_with_a_name_that_cannot_be_read_is_refused(site: Site) -> None:
    site.connect().send(mark(of=(b"wor\nker", 1)))
    marks, _, events = site.take()
    assert (marks, [e.kind for e in events]) == ([], [EventKind.REFUSED])


def test_ranks_elsewhere_are_bounded(site: Site) -> None:
    link = site.connect()
    for index in range(bounds.MAX_NAMED + 5):
        link.send(mark(of=(b"worker", index)))
        if index % 100 == 0:
            site.receiver.accept()
            site.receiver.receive()
    marks, _, events = site.take()
    assert len(marks) == bounds.MAX_NAMED
    assert lost(events) == {"marks for ranks elsewhere (more than a batch holds)": 5}


def test_new_names_of_a_day_are_bounded_and_known_ones_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "KERNELS", 2)
    site.receiver = MarkReceiver(site.listener, site.discovery, clock=lambda: site.now_ns)
    link = wrapped(site)
    link.send(kernel(0))
    link.send(kernel(1, SHAPE._replace(problem="mb2")))
    link.send(calls_packet((0, 1, 1)))
    link.send(calls_packet((1, 1, 1)))
    link.send(calls_packet((0, 1, 1)))
    _, calls, events = site.take()
    assert [call.shape for call in calls] == [SHAPE, SHAPE]
    assert lost(events) == {f"kernels ({TOO_MANY_NAMES})": 1}


def test_names_of_spans_are_bounded_in_each_batch(site: Site) -> None:
    link = site.connect()
    link.send(pack_spans([(f"phase.x{n}", 1, 2, None, 1) for n in range(MAX_SPAN_NAMES)]))
    link.send(pack_spans([SPAN, ("phase.x1", 1, 2, None, 1), SPAN]))
    events = site.take()[2]
    assert len(site.spans) == MAX_SPAN_NAMES + 1
    assert lost(events) == {"spans (more than a batch holds)": 2}
    link.send(pack_spans([SPAN]))
    site.take()
    assert len(site.spans) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packet", "what"),
    [
        (mark() * 1000, "marks"),
        (pack_spans([SPAN] * 1000), "spans"),
        (calls_packet(*[(0, 1, 1)] * 1000), "kernels"),
    ],
    ids=["marks", "spans", "kernels"],
)
def test_rows_of_a_batch_are_bounded_and_the_rest_is_counted(site: Site, packet: bytes, what: str) -> None:
    link = wrapped(site)
    link.send(kernel())
    flood(site, link, packet, 150)
    marks, spans, calls, events, _ = site.receiver.take(1)
    kept = len(marks) + len(calls) + len(spans)
    assert kept >= 60_000
    assert lost(events) == {f"{what} (more than a batch holds)": 150_000 - kept}
    assert len(encode(Batch(1, 2, {}, marks, calls, events, (), spans), 1)) < bounds.ROWS_BYTES + (1 << 20)
    flood(site, link, packet, 1)
    assert lost(site.take()[2]) == {}, "the next batch has room again"


def test_kernels_that_are_lost_are_not_claimed(site: Site) -> None:
    link = wrapped(site)
    link.send(kernel())
    site.take()
    flood(site, link, mark() * 1000, 70)
    link.send(calls_packet((0, 1, 1)))
    _, calls, events = site.take()
    assert (calls, covered(events)) == ([], [])


def test_kernel_out_of_time_is_refused(site: Site) -> None:
    link = wrapped(site)
    link.send(kernel())
    for packet in (calls_packet((0, 2**62, 1)), calls_packet((0, 1, -1)), calls_packet(through=2**62)):
        link.send(packet)
    _, calls, events = site.take()
    assert calls == []
    assert [(e.kind, e.count) for e in events] == [(EventKind.REFUSED, 3)]


def test_descriptions_of_kernels_are_bounded(site: Site) -> None:
    link = wrapped(site)
    site.receiver.accept()
    for number in range(60):
        link.send(kernel(number, SHAPE._replace(problem=f"{number}" + "x" * 100_000)))
        link.send(calls_packet((number, 1, 1)))
        site.receiver.receive()
    assert len(encoded(site)) < MAX_BATCH_BYTES


def test_facts_are_cut_and_bounded(site: Site) -> None:
    link = site.connect()
    site.receiver.accept()
    for _ in range(600):
        link.send(FACT + b"a=" + b"x" * 50_000)
        site.receiver.receive()
    _, _, events = site.take()
    facts = [event.text for event in events if event.kind == EventKind.FACT]
    assert {len(text) for text in facts} == {MAX_FACT}
    assert 200 < len(facts) < 600
    assert lost(events) == {"facts (more than a batch holds)": 600 - len(facts)}
    for _ in range(bounds.MAX_BATCH_FACTS + 7):
        link.send(pack_fact("a", "b"))
        site.receiver.receive()
    assert lost(site.take()[2]) == {"facts (more than a batch holds)": 7}
