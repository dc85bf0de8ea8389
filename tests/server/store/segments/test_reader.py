from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from roofline_server.records import ABSENT, Table
from roofline_server.store.segments import reader
from roofline_server.store.segments.files import Segment
from roofline_server.store.segments.reader import Reader, distinct, grouped_by_rank


def table(*ranks: int, first: int = 0, **more: float) -> Table:
    """Rows of these ranks, numbered in order."""
    found: Table = {"rank": np.array(ranks, np.int64), "step": np.arange(first, first + len(ranks))}
    return {**found, **{name: np.full(len(ranks), value) for name, value in more.items()}}


@pytest.mark.parametrize("most", [0, 100])
def test_rows_of_a_rank_are_together_in_the_order_they_came(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_RUNS", most)
    found = grouped_by_rank([table(1, 1, 2), {}, table(3, 1, 2, first=3, cpu=0.5)])
    assert found["rank"].tolist() == [1, 1, 1, 2, 2, 3]
    assert found["step"].tolist() == [0, 1, 4, 2, 5, 3]
    assert np.isnan(found["cpu"]).tolist() == [True, True, False, True, False, False]


def test_nothing_is_grouped_of_nothing() -> None:
    assert grouped_by_rank([]) == grouped_by_rank([{}]) == {}


def test_ranks_are_told_once() -> None:
    assert distinct(table(2, 2, 1, 2)["rank"]) == [1, 2]
    assert distinct(table()["rank"]) == []


def test_what_is_null_in_a_file_is_absent(tmp_path: Path) -> None:
    # As other programs may write it.
    pq.write_table(pa.table({"a": [1, None], "b": [0.5, None], "c": ["x", None]}), tmp_path / "odd.parquet")
    found = Reader(tmp_path).read([Segment("job", "odd", "odd.parquet", 2, 1, 0, 0)])
    assert found["a"].tolist() == [1, ABSENT]
    assert found["a"].dtype == np.int64
    assert found["b"][0] == 0.5
    assert np.isnan(found["b"][1])
    assert found["c"].tolist() == ["x", ""]
