from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from roofline_server.records import ABSENT, Table, is_constant
from roofline_server.store.segments.files import Piece, Segment, write
from roofline_server.store.segments.reader import Reader, distinct


def table(*ranks: int, first: int = 0, **more: float) -> Table:
    """Rows of these ranks, numbered in order."""
    found: Table = {"rank": np.array(ranks, np.int64), "step": np.arange(first, first + len(ranks))}
    return {**found, **{name: np.full(len(ranks), value) for name, value in more.items()}}


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


def test_a_column_that_is_the_same_in_all_rows_takes_the_memory_of_one_number(tmp_path: Path) -> None:
    columns: Table = {
        "rank": np.array([1, 1, 2]),
        "same": np.array([7, 7, 7]),
        "varies": np.array([7, 7, 8]),
        "known": np.array([0.5, np.nan, 0.5]),  # its least and greatest number are the same
    }
    first = write(tmp_path, "job", "steps", 1, [Piece(columns, 0, 1)])
    second = write(tmp_path, "job", "steps", 2, [Piece({**columns, "same": np.array([7, 7, 9])}, 0, 1)])
    found = Reader(tmp_path).read([first, first])
    assert [name for name in found if is_constant(found[name])] == ["same"]
    assert list(found) == list(columns)
    assert found["same"].tolist() == [7] * 6
    assert np.isnan(found["known"]).tolist() == [False, True, False] * 2
    assert Reader(tmp_path).read([first], ["same"])["same"].tolist() == [7, 7, 7]
    assert Reader(tmp_path).read([first, second])["same"].tolist() == [7, 7, 7, 7, 7, 9]


def written(root: Path, rows: int = 3000) -> Segment:
    some = np.random.default_rng(1)
    columns: Table = {
        "rank": np.sort(some.integers(0, 8, rows)),
        "time_ns": np.arange(rows, dtype=np.int64) * 1000,
        "value": some.normal(size=rows),
        "name": np.array([f"name {number % 7}" for number in range(rows)], object),
    }
    return write(root, "job", "samples_x", 1, [Piece(columns, 0, rows * 1000)])


def test_of_some_ranks_their_rows_alone_are_read(tmp_path: Path) -> None:
    segment = written(tmp_path, 40_000)
    reader = Reader(tmp_path)
    every, found = reader.read([segment]), reader.of_ranks(segment, [2, 5])
    mine = np.isin(every["rank"], [2, 5])
    assert list(found) == list(every)
    assert all(found[name].tolist() == column[mine].tolist() for name, column in every.items())
    others = reader.of_ranks(segment, [2, 5], "name 1")
    kept = mine & (every["name"] != "name 1")
    assert others["time_ns"].tolist() == every["time_ns"][kept].tolist()
    assert reader.of_ranks(segment, [9]) == {}


def flipped(root: Path, segment: Segment, bits: Sequence[int]) -> tuple[int, int]:
    """How many of these single flipped bits were noticed, and how many changed a row and were not."""
    path = root / segment.path
    whole, sound = path.read_bytes(), Reader(root).read([segment])
    noticed = different = 0
    for bit in bits:
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        reading = Reader(root)
        found = reading.read([segment])
        if reading.damaged:
            noticed += 1
        elif not all(np.array_equal(found.get(name, []), column) for name, column in sound.items()):
            different += 1
    path.write_bytes(whole)
    return noticed, different


def test_flipped_bits_in_pages_are_noticed(tmp_path: Path) -> None:
    segment = written(tmp_path)
    with pq.ParquetFile(tmp_path / segment.path) as file:
        column = file.metadata.row_group(0).column(2)
        first, last = column.data_page_offset, column.data_page_offset + column.total_compressed_size
    # The first bytes are the page's header, which tells lengths and the checksum itself.
    bits = random.Random(1).sample(range(8 * (first + 64), 8 * last), 200)
    assert flipped(tmp_path, segment, bits) == (200, 0)


@pytest.mark.slow
def test_bits_flipped_anywhere_are_noticed_or_change_nothing(tmp_path: Path) -> None:
    """The end of the file, where its columns are described, has a checksum in the catalog."""
    segment = written(tmp_path)
    size = 8 * (tmp_path / segment.path).stat().st_size
    noticed, different = flipped(tmp_path, segment, random.Random(2).sample(range(size), 5000))
    assert noticed > 4000 and different == 0


def test_damaged_segment_costs_its_own_rows_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good, bad = written(tmp_path), written(tmp_path)._replace(path="segments/bad.parquet")
    (tmp_path / bad.path).write_bytes(b"PAR1 no parquet PAR1")
    reading = Reader(tmp_path)
    for _ in range(3):
        assert len(reading.read([bad, good])["rank"]) == good.rows
    assert list(reading.damaged) == [bad.path]
    assert [record.levelname for record in caplog.records] == ["ERROR"], "said once"
    assert reading.read([good._replace(rows=good.rows - 1)]) == {}, "a file with other rows than it had"


def test_what_was_read_of_a_file_is_freed_at_once(tmp_path: Path) -> None:
    # Nothing else starts Python's search for cycles: arrays are few and large.
    columns: Table = {"rank": np.array([1, 1, 2]), "same": np.array([7, 7, 7])}
    segment = write(tmp_path, "job", "steps", 1, [Piece(columns, 0, 1)])
    reader = Reader(tmp_path)
    gc.collect()
    gc.disable()
    try:
        reader.read([segment])
        reader.columns(segment)
        reader.of_ranks(segment, [1])
        list(reader.batches(segment, 1))
        left = {type(one) for one in gc.get_objects()}
    finally:
        gc.enable()
    assert left.isdisjoint((pq.FileMetaData, pq.ParquetSchema, pq.ParquetFile))
