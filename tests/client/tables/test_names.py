from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_client.tables import flat
from roofline_client.tables.names import inert


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("worker:0", "worker:0"),
        ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+cmd|' /C calc'!A0", "'-2+cmd|' /C calc'!A0"),
        ("-2.5e-3", "-2.5e-3"),
        ("\x1b]0;gotcha\x07", "?]0;gotcha?"),
        ("two\nlines", "two\nlines"),
        ("", ""),
    ],
)
def test_no_program_acts_on_a_cell(text: str, cell: str) -> None:
    assert inert(text) == cell


@given(st.text())
def test_every_cell_of_csv_is_inert(text: str) -> None:
    table = flat.Table(("a", "b"), [(text, -1.5)], {})
    (_, (cell, number)) = csv.reader(io.StringIO(flat.as_csv(table), newline=""))
    assert number == "-1.5"
    assert not cell.startswith(("=", "@", "\t", "\r")) and "\x1b" not in cell
