"""Steps that differ only in numbers stay as they were packed."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roofline_agent.records import Event, EventKind, StepRows
from roofline_agent.uplink import bounds
from roofline_step.packets import ABSENT, STEPS, StepForm, pack_spans, pack_steps

from .receiving import Site, mark


def record(at: int, names: tuple[str, ...], wrong: bool) -> bytes:
    """A step with a span of each of these names, which end before they begin where it is wrong."""
    begin, end = 100 * at, 100 * at + (-10 if wrong else 10)
    spans = [(name, begin, end, None if at % 2 else 8, at) for name in names]
    return mark(step=at, time_ns=end, examples=ABSENT if at % 3 else 32) + (
        pack_spans(spans) if spans else b""
    )


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(
            [("phase.input",), ("phase.input", "phase.forward"), ("phase.input", "thread.gc"), ()]
        ),
        st.sampled_from([False] * 9 + [True]),
    ),
    max_size=30,
)


@given(RECORDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_steps_behind_one_another_are_read_as_each_by_itself(site: Site, records: list[Any]) -> None:
    packets = [record(at, *one) for at, one in enumerate(records)]
    # What follows on a malformed record is lost with it, and the mark before its spans is not.
    whole = next((at for at, (names, wrong) in enumerate(records) if wrong and names), len(records))
    link = site.connect()
    for packet in packets[: whole + 1]:
        link.send(packet)
    apart, _, _ = site.take()
    spans = sorted(site.spans)
    if packets:
        link.send(b"".join(packets))
    together, _, events = site.take()
    assert together == apart
    assert sorted(site.spans) == spans
    assert len(events) == (whole < len(records))


FORM = StepForm(1, ("phase.input", "thread.gc"), 1, 7)  # the second of these spans has a count
# step, examples, border, begin and end of each span, count: ns, here of more than an hour
STEP = (3, 32, 50, 10, 20, 10, 50, 4_000_000_000_000)


def test_steps_of_one_form_stay_as_they_were_packed(site: Site) -> None:
    other = FORM._replace(names=(), counted=0)
    link = site.connect()
    link.send(pack_steps(FORM, [STEP]) + pack_steps(other, [(4, ABSENT, 60)]))
    link.send(mark(step=5) + pack_steps(FORM, [(6, *STEP[1:]), (7, *STEP[1:])]))
    marks, _, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert ([one.step for one in marks], events) == ([5], [])
    assert site.steps == [
        StepRows(rank, FORM, struct.pack("<24q", *STEP, 6, *STEP[1:], 7, *STEP[1:])),
        StepRows(rank, other, struct.pack("<3q", 4, ABSENT, 60)),
    ]
    ended = Event(EventKind.RANK_EXITED, 1, 1, rank)
    assert site.receiver.with_last_step(ended).step == 7
    site.take()
    assert site.steps == [], "handed over once"


def test_last_step_is_the_newest_though_steps_stand_form_by_form(site: Site) -> None:
    """As of two optimizers whose steps differ, held and sent together."""
    other, row = FORM._replace(names=(), counted=0), STEP[1:]
    site.connect().send(pack_steps(FORM, [(36, *row), (39, *row)]) + pack_steps(other, [(38, ABSENT, 60)]))
    site.take()
    ended = Event(EventKind.RANK_EXITED, 1, 1, site.discovery.ranks[os.getpid()])
    assert site.receiver.with_last_step(ended).step == 39
    site.connect().send(pack_steps(other, [(5, ABSENT, 90)]))
    site.take()
    assert site.receiver.with_last_step(ended).step == 5, "numbers may begin anew"


@pytest.mark.parametrize(
    "row",
    [
        (3, 2**50 + 1, *STEP[2:]),
        (2**62, *STEP[1:]),
        (*STEP[:2], -(2**62), *STEP[3:]),
        (*STEP[:3], 21, *STEP[4:]),
        (*STEP[:7], -1),
        (*STEP[:7], 2**50),
    ],
)
def test_steps_that_cannot_be_are_refused_and_no_others(site: Site, row: tuple[int, ...]) -> None:
    link = site.connect()
    link.send(mark(step=5) + pack_steps(FORM, [STEP, row]))
    link.send(pack_steps(FORM, [STEP]))
    marks, _, events = site.take()
    assert [one.step for one in marks] == [5]
    assert [(one.kind, one.count) for one in events] == [(EventKind.REFUSED, 1)]
    assert [one.numbers for one in site.steps] == [2 * struct.pack("<8q", *STEP)]
    link.send(pack_steps(FORM, [row]))
    assert [(one.kind, one.count) for one in site.take()[2]] == [(EventKind.REFUSED, 1)]
    assert site.steps == []


@pytest.mark.parametrize(
    ("form", "row"),
    [
        (FORM._replace(marks=3), (*STEP, 5, 6)),
        (FORM._replace(marks=0), STEP[:2] + STEP[3:]),
        (FORM._replace(counted=3), (*STEP, 5, 6)),
        (FORM._replace(names=("phase.input", "Phase")), STEP),
    ],
)
def test_steps_of_a_form_that_cannot_be_are_refused(site: Site, form: StepForm, row: tuple[int, ...]) -> None:
    link = site.connect()
    link.send(mark(step=5) + pack_steps(form, [row]))
    link.send(pack_steps(FORM, [STEP]))
    marks, _, events = site.take()
    assert [one.step for one in marks] == [5], "what stood before them"
    assert [(one.kind, one.count) for one in events] == [(EventKind.REFUSED, 1)]
    assert [one.numbers for one in site.steps] == [struct.pack("<8q", *STEP)], "others are taken"


@pytest.mark.parametrize("cut", [1, STEPS.size - 1, STEPS.size + 3, -8, -1])
def test_part_of_a_record_of_steps_is_refused(site: Site, cut: int) -> None:
    site.connect().send(pack_steps(FORM, [STEP])[:cut])
    assert [one.kind for one in site.take()[2]] == [EventKind.REFUSED]
    assert site.steps == []


def test_steps_that_a_batch_cannot_hold_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_FORMS", 2)
    link = site.connect()
    for like in (1, 2, 3, 1):
        link.send(pack_steps(FORM._replace(like=like), [STEP, STEP]))
    _, _, events = site.take()
    assert [(len(one.numbers), one.form.like) for one in site.steps] == [(256, 1), (128, 2)]
    lost = "(more than a batch holds)"
    assert [(one.text, one.count) for one in events] == [(f"marks {lost}", 2), (f"spans {lost}", 4)]
