"""Steps that differ in numbers only give the rows that their marks and spans would have given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline_server.errors import BadBatch
from roofline_server.ingest import steps as steps_module
from roofline_server.records import ABSENT, MarkKind, Table

from ..builders import S, batch, marks, packed, rank, spans
from .decoding import frames, lists

NAMES = ("phase.input", "phase.forward", "thread.gc")
RANKS = [rank(), rank(index=1, pid=101)]


def block(*rows: tuple[int, ...], **form: Any) -> pb.Steps:
    return pb.Steps(numbers=packed(number for row in rows for number in row), **form)


def sorted_rows(table: Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(table[name].tolist() for name in sorted(table)), strict=True))


FORMS = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "marks": st.sampled_from([1, 2]),
        "like": st.integers(0, 2**16 - 1),
        "names": st.integers(0, len(NAMES)).map(lambda count: NAMES[:count]),
        "counted": st.integers(0, len(NAMES)),
    }
)


@given(st.lists(st.tuples(FORMS, st.integers(1, 5)), min_size=1, max_size=4), st.booleans())
def test_they_are_the_same_as_marks_and_spans(forms: list[tuple[dict[str, Any], int]], more: bool) -> None:
    blocks, said, stretches, step = [], [], [], 0
    likes = {}
    for form, count in forms:
        rows = []
        form["counted"] = min(form["counted"], len(form["names"]))
        ones = len(form["names"]) - form["counted"]
        for _ in range(count):
            step += 1
            examples = ABSENT if step % 3 else 16
            begin, end = S + 100 * step, S + 100 * step + 90
            edges = [number for at in range(len(form["names"])) for number in (begin + at, end - at)]
            counts = [step * 10 + at for at in range(form["counted"])]
            rows.append((step, examples, *((end,) if form["marks"] == 1 else (begin, end)), *edges, *counts))
            kinds = [MarkKind.BORDER] if form["marks"] == 1 else [MarkKind.BEGIN, MarkKind.END]
            times = [end] if form["marks"] == 1 else [begin, end]
            said += [(form["rank"], kind, step, examples, at) for kind, at in zip(kinds, times, strict=True)]
            likes[step] = form["like"]
            for at, name in enumerate(form["names"]):
                count_of = counts[at - ones] if at >= ones else 1
                stretches.append((form["rank"], name, edges[2 * at], edges[2 * at + 1], ABSENT, count_of))
        blocks.append(block(*rows, **form))
    before: dict[str, Any] = {}
    if more:  # steps of another kind in the same batch
        other, beside = [(0, 3, 0, 8, S)], [(0, "asked.allreduce", S, S + 5, 100, 2)]
        before = {"marks": marks(other), "spans": spans(beside)}
        said, stretches, likes = other + said, beside + stretches, {0: 0, **likes}
    apart = {"marks": marks(said, likes=likes), **({"spans": spans(stretches)} if stretches else {})}
    one = frames(batch(ranks=RANKS, steps=blocks, **before))
    two = frames(batch(ranks=RANKS, **apart))
    assert one.keys() == two.keys()
    for key, table in two.items():
        assert sorted_rows(one[key]) == sorted_rows(table), key


def test_marks_are_in_order_of_time() -> None:
    # Steps of two forms take turns; what is sent together lies behind one another.
    even = block((0, ABSENT, 10), (2, ABSENT, 30), rank=0, marks=1)
    odd = block((1, ABSENT, 20), (3, ABSENT, 40), rank=0, marks=1)
    found = frames(batch(ranks=RANKS, steps=[even, odd], marks=marks([(0, 3, 4, ABSENT, 25)])))
    assert lists(found["job", "marks"])["step"] == [0, 1, 4, 2, 3]


GOOD = {"rank": 0, "marks": 1, "names": NAMES[:1], "counted": 1}
ROW = (5, 16, 30, 10, 20, 4_000_000_000_000)  # the last may be ns of a thread: more than an hour


@pytest.mark.parametrize(
    ("row", "form", "why"),
    [
        (ROW, {"rank": 2}, "points outside the 2 ranks"),
        (ROW, {"marks": 0}, "1 or 2 marks"),
        (ROW, {"marks": 3}, "1 or 2 marks"),
        (ROW, {"counted": 2}, "no more counts than spans"),
        (ROW[:-1], {}, "5 numbers, and 6 are one step"),
        ((), {}, "0 numbers"),
        (ROW, {"names": ("Phase",)}, "must be named as"),
        (ROW, {"names": tuple(f"phase.a{at}" for at in range(257))}, "257 names"),
        (ROW, {"like": 2**16}, "like"),
        ((5, 16, 2**62, *ROW[3:]), {}, "out of range"),
        ((*ROW[:3], 2**62, 2**62, 3), {}, "out of range"),
        ((*ROW[:3], 21, 20, 3), {}, "ends before it begins"),
        ((*ROW[:5], -1), {}, "counts out of range"),
        ((*ROW[:5], 2**50), {}, "counts out of range"),
    ],
)
def test_steps_that_cannot_be_cost_their_batch(row: tuple[int, ...], form: dict[str, Any], why: str) -> None:
    frames(batch(ranks=RANKS, steps=[block(ROW, **GOOD)]))
    with pytest.raises(BadBatch, match=why):
        frames(batch(ranks=RANKS, steps=[block(row, **{**GOOD, **form})]))


def test_half_a_number_costs_the_batch() -> None:
    with pytest.raises(BadBatch, match="not a multiple of 8"):
        frames(batch(ranks=RANKS, steps=[pb.Steps(marks=1, numbers=b"1234567")]))


def test_too_many_kinds_of_steps_cost_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "MAX_FORMS", 2)
    with pytest.raises(BadBatch, match="3 kinds of steps"):
        frames(batch(ranks=RANKS, steps=[block(ROW, **GOOD)] * 3))
