from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.correlate.spans import of_marks, total
from roofline_server.correlate.steps import OWN
from roofline_server.records import ABSENT, MarkKind, Table, rows

Told = tuple[int, str, int, int, int, int]  # rank, name, begin, end, bytes, count


def windows_of(*found: tuple[int, int, int, int]) -> Table:
    """found: (rank, step, begin_ns, end_ns)."""
    rank, step, begin, end = (np.array([w[i] for w in found], np.int64) for i in range(4))
    return {
        "rank": rank,
        "window": np.full(len(found), OWN, np.int64),
        "step": step,
        "begin_ns": begin,
        "end_ns": end,
    }


def spans_of(*found: Told) -> Table:
    names = ("rank", "name", "time_ns", "end_ns", "bytes", "count")
    columns = {name: np.array([row[i] for row in found], np.int64) for i, name in enumerate(names) if i != 1}
    return {**columns, "name": np.array([row[1] for row in found], object)}


TWO_STEPS = windows_of((1, 0, 0, 100), (1, 1, 100, 200))


def test_time_is_cut_at_the_border_and_the_thing_belongs_to_the_middle() -> None:
    found = total(TWO_STEPS, spans_of((1, "phase.input", 80, 140, 7, 1)))
    assert found["phase.input.ns"].tolist() == [20, 40]
    assert found["phase.input.count"].tolist() == [0, 1]
    assert found["phase.input.bytes"].tolist() == [0, 7]


def test_overlapping_spans_are_one_stretch_of_time_and_several_things() -> None:
    found = total(
        TWO_STEPS, spans_of((1, "engine.allreduce", 10, 50, 5, 2), (1, "engine.allreduce", 30, 60, 6, 3))
    )
    assert found["engine.allreduce.ns"].tolist() == [50, 0]
    assert found["engine.allreduce.count"].tolist() == [5, 0]
    assert found["engine.allreduce.bytes"].tolist() == [11, 0]


def test_bytes_nobody_knows_are_absent() -> None:
    found = total(TWO_STEPS, spans_of((1, "phase.input", 10, 20, ABSENT, 1)))
    assert found["phase.input.bytes"].tolist() == [ABSENT, ABSENT]
    some = total(TWO_STEPS, spans_of((1, "a.b", 10, 20, ABSENT, 1), (1, "a.b", 110, 120, 9, 1)))
    assert some["a.b.bytes"].tolist() == [ABSENT, 9]


def test_rank_that_never_had_a_name_lacks_it() -> None:
    both = windows_of((1, 0, 0, 100), (2, 0, 0, 100))
    found = total(
        both, spans_of((1, "phase.input", 0, 10, ABSENT, 1), (2, "phase.backward", 0, 10, ABSENT, 1))
    )
    assert found["rank"].tolist() == [1, 2]
    assert found["phase.input.ns"].tolist() == [10, ABSENT]
    assert found["phase.backward.ns"].tolist() == [ABSENT, 10]


def test_ranks_without_spans_have_no_rows() -> None:
    assert rows(total(windows_of((1, 0, 0, 100)), {})) == 0
    assert rows(total(windows_of((1, 0, 0, 100)), spans_of((2, "phase.input", 0, 10, 0, 1)))) == 0


def test_overlap_is_what_the_engine_does_while_the_rank_is_not_blocked() -> None:
    found = total(
        TWO_STEPS,
        spans_of(
            (1, "engine.allreduce", 20, 60, 5, 1),
            (1, "engine.broadcast", 50, 70, 5, 1),
            (1, "engine.queue", 0, 100, ABSENT, 1),
            (1, "phase.communicate", 55, 80, ABSENT, 1),
        ),
    )
    assert found["engine.busy.ns"].tolist() == [50, 0]
    assert found["engine.exposed.ns"].tolist() == [15, 0]


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 100)), min_size=1, max_size=30),
    st.lists(st.integers(1, 399), max_size=6, unique=True),
)
def test_parts_of_a_cut_stretch_add_up(found: list[tuple[int, int]], cuts: list[int]) -> None:
    told = spans_of(*((1, "a.b", begin, begin + length, 3, 1) for begin, length in found))
    edges = [0, *sorted(cuts), 600]
    pieces = windows_of(*((1, k, a, b) for k, (a, b) in enumerate(itertools.pairwise(edges))))
    whole = total(windows_of((1, 0, 0, 600)), told)
    parts = total(pieces, told)
    for column in ("a.b.ns", "a.b.count", "a.b.bytes"):
        assert parts[column].sum() == whole[column].sum()
    assert whole["a.b.ns"][0] == len({t for begin, length in found for t in range(begin, begin + length)})
    assert whole["a.b.count"][0] == len(found)


def phase_marks(*found: tuple[int, MarkKind, str, int]) -> Table:
    return {
        "rank": np.array([m[0] for m in found]),
        "kind": np.array([int(m[1]) for m in found]),
        "phase": np.array([m[2] for m in found], object),
        "time_ns": np.array([m[3] for m in found]),
    }


def test_phases_that_a_training_marks_are_spans() -> None:
    begin, end = MarkKind.PHASE_BEGIN, MarkKind.PHASE_END
    found = of_marks(
        phase_marks(
            (1, begin, "Input", 10),
            (2, begin, "Input", 11),
            (1, begin, "my loss!", 12),
            (1, end, "my loss!", 15),
            (1, end, "Input", 20),
            (2, end, "Input", 31),
            (2, begin, "Input", 40),
        )
    )
    listed = zip(*(found[name].tolist() for name in ("rank", "name", "time_ns", "end_ns")), strict=True)
    assert sorted(listed) == [
        (1, "phase.input", 10, 20),
        (1, "phase.my_loss", 12, 15),
        (2, "phase.input", 11, 31),
    ]


def test_marks_of_steps_are_no_phases() -> None:
    marks = phase_marks((1, MarkKind.BEGIN, "", 1), (1, MarkKind.END, "", 2))
    assert rows(of_marks(marks)) == 0
