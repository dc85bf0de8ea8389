from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from roofline_server.records import ABSENT, Table, concatenate, constant, is_constant
from roofline_server.store.segments.files import Piece, Segment, write
from roofline_server.store.segments.reader import Reader
from roofline_server.store.segments.stacking import FEW_ROWS, ByRank, source_of, stacked

KEYS = ("rank", "step")


def table(*ranks: int, first: int = 0, **more: float) -> Table:
    """Rows of these ranks, numbered in order."""
    found: Table = {"rank": np.array(ranks, np.int64), "step": np.arange(first, first + len(ranks))}
    return {**found, **{name: np.full(len(ranks), value) for name, value in more.items()}}


def by_rank(*tables: Table) -> Table:
    return ByRank().table([source_of(one, KEYS) for one in tables])


def plain(found: Table) -> Mapping[str, Sequence[Any]]:
    return {name: column.tolist() for name, column in found.items()}


def test_rows_are_in_order_and_what_a_source_lacks_is_absent() -> None:
    tables = [table(1, 2, cpu=0.5), table(3, calls=7), {"rank": constant(4, 3)}]
    found = stacked([source_of(one) for one in tables])
    assert list(found) == ["rank", "step", "cpu", "calls"]
    assert found["rank"].tolist() == [1, 2, 3, 4, 4, 4]
    assert found["step"].tolist() == [0, 1, 0, ABSENT, ABSENT, ABSENT]
    assert np.isnan(found["cpu"]).tolist() == [False, False, True, True, True, True]
    assert found["calls"].tolist() == [ABSENT, ABSENT, 7, ABSENT, ABSENT, ABSENT]


def test_a_constant_stays_one_where_it_is_the_same_in_all_sources() -> None:
    one, other = {"a": constant(1, 2), "b": constant(1, 2)}, {"a": constant(1, 3), "b": constant(2, 3)}
    found = stacked([source_of(one), source_of(other)])
    assert is_constant(found["a"]) and not is_constant(found["b"])
    assert plain(found) == {"a": [1] * 5, "b": [1, 1, 2, 2, 2]}


def test_a_source_with_fewer_rows_than_it_said_is_left_out() -> None:
    short = source_of(table(1, 2))._replace(rows=3)
    assert plain(stacked([source_of(table(1)), short, source_of(table(5))]))["rank"] == [1, 5]
    assert stacked([short]) == stacked([]) == {}
    known = ByRank()
    assert known.table([short, source_of(table(5), KEYS)])["rank"].tolist() == [5]


def test_rows_of_a_rank_are_together_in_the_order_they_came() -> None:
    found = by_rank(table(1, 1, 2), table(3, 1, 2, first=3, cpu=0.5))
    assert found["rank"].tolist() == [1, 1, 1, 2, 2, 3]
    assert found["step"].tolist() == [0, 1, 4, 2, 5, 3]
    assert np.isnan(found["cpu"]).tolist() == [True, True, False, True, False, False]


def test_nothing_is_grouped_of_nothing() -> None:
    assert by_rank() == {}


def test_what_tables_have_in_common_is_kept_once() -> None:
    both = ByRank()
    first = both.table([source_of(table(2, 1, cpu=0.5), KEYS), source_of(table(1), KEYS)])
    second = both.table([source_of(table(2, 1, rss=9.0), KEYS), source_of(table(1), KEYS)])
    assert first["rank"] is second["rank"] and first["step"] is second["step"]
    assert second["step"].tolist() == [1, 0, 0]
    assert second["rss"].tolist()[0] == 9.0 and np.isnan(second["rss"][1])
    other = both.table([source_of(table(1, 2), KEYS)])
    assert plain(other) == {"rank": [1, 2], "step": [0, 1]}


def test_a_column_is_not_that_of_other_ranks() -> None:
    both = ByRank()
    assert both.table([source_of(table(1, 2), KEYS)])["step"].tolist() == [0, 1]
    assert both.table([source_of(table(2, 1), KEYS)])["step"].tolist() == [1, 0]


@pytest.mark.parametrize("rows", [100, 2 * FEW_ROWS + 5])
def test_files_of_the_same_ranks_and_steps_share_them(tmp_path: Path, rows: int) -> None:
    step = np.random.default_rng(1).integers(0, 1000, rows)
    keys: Table = {"rank": np.arange(rows) % 7, "step": step, "window": np.full(rows, -1)}

    def stored(dataset: str, **columns: Any) -> Segment:
        return write(tmp_path, "job", dataset, 1, [Piece({**keys, **columns}, 0, 1)])

    some = np.random.default_rng(2).normal(size=rows)
    one, other = stored("steps_a", a=some), stored("steps_b", b=some[::-1].copy())
    reader, both = Reader(tmp_path), ByRank()
    first, second = (both.table(reader.sources([file], digested=KEYS)) for file in (one, other))
    assert first["step"] is second["step"] and is_constant(first["window"])
    order = np.argsort(keys["rank"], kind="stable")
    assert np.array_equal(first["step"], step[order])
    assert np.array_equal(first["a"], some[order]) and np.array_equal(second["b"], some[::-1][order])
    assert list(second) == [*keys, "b"]


def test_of_a_damaged_file_nothing_counts_though_its_columns_are_known(tmp_path: Path) -> None:
    rows = 3 * FEW_ROWS
    some = np.random.default_rng(1)
    keys: Table = {"rank": some.integers(0, 9, rows), "step": np.arange(rows)}
    files = [write(tmp_path, "job", "steps", n, [Piece(keys, 0, 1)]) for n in (1, 2)]
    more = {**keys, "value": some.normal(size=rows)}
    good, bad = (write(tmp_path, "job", "steps_x", n, [Piece(more, 0, 1)]) for n in (1, 2))
    path = tmp_path / bad.path
    broken = bytearray((tmp_path / good.path).read_bytes())
    broken[bad.bytes // 2] ^= 1  # in the middle of its values
    path.write_bytes(broken)
    reader, both = Reader(tmp_path), ByRank()
    both.table(reader.sources(files, digested=KEYS))
    found = both.table(reader.sources([good, bad], digested=KEYS))
    assert list(reader.damaged) == [bad.path]
    order = np.argsort(keys["rank"], kind="stable")
    assert np.array_equal(found["step"], keys["step"][order])
    assert np.array_equal(found["value"], more["value"][order])


def test_the_same_as_tables_one_after_the_other() -> None:
    tables = [table(3, 1, 2), table(2, 2, cpu=0.5), table(1, first=9, calls=4)]
    whole = concatenate(tables)
    order = np.argsort(whole["rank"], kind="stable")
    found = by_rank(*tables)
    assert list(found) == list(whole)
    for name, column in whole.items():
        assert np.array_equal(found[name], column[order], equal_nan=column.dtype.kind == "f")
