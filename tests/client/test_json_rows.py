"""Text of many rows at once is the text of each row."""

from __future__ import annotations

import io
from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from roofline_client.trace import json_rows, write_trace
from roofline_client.trace.arrays import of_message

from .chunks import MS, chunk, introductions, message, slices

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1500, 1500), min_size=1, max_size=20)


@given(NUMBERS)
def test_whole_numbers_are_written_in_all_their_digits(values: list[int]) -> None:
    block = json_rows.beside([json_rows.whole(np.array(values, np.int64)), json_rows.same(" ", len(values))])
    assert json_rows.text_of(block).split() == list(map(str, values))


@given(NUMBERS)
def test_times_are_exact(values: list[int]) -> None:
    block = json_rows.beside(
        [json_rows.microseconds(np.array(values, np.int64)), json_rows.same(" ", len(values))]
    )
    assert [Decimal(text) * 1000 for text in json_rows.text_of(block).split()] == values


def test_objects_have_the_members_that_are_there() -> None:
    there = [np.array(which) for which in ([False, True, True, False], [False, True, False, True])]
    columns = [('"a"', json_rows.same("1", 4), there[0]), ('"b"', json_rows.texts("wxyz"), there[1])]
    block = json_rows.beside([json_rows.members(columns), json_rows.same(";", 4)])
    assert json_rows.text_of(block) == ';{"a":1,"b":x};{"a":1};{"b":z};'


def test_arrays_and_records_make_the_same_trace() -> None:
    more = {"step": [3, None], "cpu_time": [None, 0.1], "problem": ["", "m4"]}
    rows = {**slices("steps", [(0, 9 * MS), (10 * MS, 19 * MS + 7)]), **more}
    found = [io.StringIO(), io.StringIO()]
    write_trace([chunk("timeline", one) for one in (introductions(), rows)], found[0])
    write_trace([of_message(message("timeline", one)) for one in (introductions(), rows)], found[1])
    assert found[0].getvalue() == found[1].getvalue()
    assert '"args":{"step":3}' in found[0].getvalue()
