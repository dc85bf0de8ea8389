from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.records import ABSENT, Table
from roofline_server.store.segments.files import Piece, Segment, directory_name, write
from roofline_server.store.segments.reader import Reader

ALL_KINDS: Table = {
    "time_ns": np.array([1, 2, 2**62], np.int64),
    "absent": np.array([ABSENT, 0, -1], np.int64),
    "number": np.array([0.1, np.nan, -np.inf]),
    "cpu_ns.begin": np.array([1.0, 2.0, 3.0]),
    "text": np.array(["", "späť \u4e2d", 'a"b'], object),
}
ODD_JOBS = [
    "..",
    ".",
    "/",
    "../../etc",
    "a/b",
    "a%2Fb",
    "späť",
    "\u4e2d" * 256,
    "x" * 256,
    "x" * 255,
    " ",
    "~",
]


def put(
    root: Path, job: str = "job", number: int = 1, table: Table = ALL_KINDS, name: str = "marks"
) -> Segment:
    return write(root, job, name, number, [Piece(table, 0, 9)])


def read(root: Path, *segments: Segment) -> Table:
    return Reader(root).read(segments)


def same(found: Table, wanted: Table) -> None:
    assert list(found) == list(wanted)
    for name, column in wanted.items():
        assert found[name].dtype == column.dtype, name
        if column.dtype.kind == "f":
            assert np.array_equal(found[name], column, equal_nan=True)
        else:
            assert found[name].tolist() == column.tolist()


def test_every_kind_of_column_comes_back(tmp_path: Path) -> None:
    same(read(tmp_path, put(tmp_path)), ALL_KINDS)


def test_segment_describes_its_file(tmp_path: Path) -> None:
    segment = put(tmp_path)
    file = tmp_path / segment.path
    assert (segment.rows, segment.bytes) == (3, file.stat().st_size)
    assert (segment.job, segment.dataset, segment.begin_ns, segment.end_ns) == ("job", "marks", 0, 9)


def test_numbers_are_delta_and_byte_stream_encoded(tmp_path: Path) -> None:
    group = pq.ParquetFile(tmp_path / put(tmp_path).path).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["time_ns"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["cpu_ns.begin"].encodings
    assert "RLE_DICTIONARY" in columns["text"].encodings
    assert {c.compression for c in columns.values()} == {"ZSTD"}


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    put(tmp_path)
    assert [p.suffix for p in tmp_path.rglob("*") if p.is_file()] == [".parquet"]


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("roofline_server.store.segments.files.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        put(tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, bool]] = []
    final = tmp_path / "segments/job-job/marks/000000000001.parquet"
    monkeypatch.setattr(
        "roofline_server.store.segments.files.fsync",
        lambda path: synced.append((path.suffix, final.exists())),
    )
    put(tmp_path)
    assert synced[0] == (".tmp", False)
    assert ("", True) in synced


@pytest.mark.parametrize("job", ODD_JOBS, ids=lambda job: ascii(job)[:20])
def test_odd_job_stays_inside_the_root_and_comes_back(tmp_path: Path, job: str) -> None:
    root = tmp_path / "root"
    segment = put(root, job)
    assert (root / segment.path).resolve().is_relative_to((root / "segments").resolve())
    assert [p.name for p in tmp_path.iterdir()] == ["root"]
    assert len(read(root, segment)["time_ns"]) == 3


def test_odd_jobs_have_directories_of_their_own() -> None:
    names = {directory_name(job) for job in ["", "node", "job-a", "a", "A", *ODD_JOBS]}
    assert len(names) == len(ODD_JOBS) + 5


@given(st.text(min_size=1, max_size=256))
def test_any_job_has_a_plain_directory_name(job: str) -> None:
    name = directory_name(job)
    assert name.isascii()
    assert "/" not in name
    assert name not in (".", "..")
    assert len(name) <= 255
    assert name == directory_name(job)


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_jobs_have_different_directories(one: str, other: str) -> None:
    assert (directory_name(one) == directory_name(other)) == (one == other)


def test_several_segments_are_read_as_one_and_lacking_columns_are_absent(tmp_path: Path) -> None:
    old = put(tmp_path, table={"time_ns": np.array([1]), "cpu_ns": np.array([5])})
    new = put(
        tmp_path,
        number=2,
        table={"time_ns": np.array([2]), "load": np.array([0.5]), "text": np.array(["a"], object)},
    )
    found = read(tmp_path, old, new)
    order = np.argsort(found["time_ns"])
    assert found["cpu_ns"][order].tolist() == [5, ABSENT]
    assert np.array_equal(found["load"][order], [np.nan, 0.5], equal_nan=True)
    assert found["text"][order].tolist() == ["", "a"]


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "with space",
        "a[1]",
        "a*",
        "rank=7",
    ],
)
def test_data_directory_of_any_name_can_be_read(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    table: Table = {"time_ns": np.array([1, 2]), "rank": np.array([3, 4])}
    same(read(root, put(root, table=table)), table)


def test_columns_whose_names_differ_in_case_only_come_back(tmp_path: Path) -> None:
    table: Table = {"time_ns": np.array([1]), "Load": np.array([1]), "load": np.array([2])}
    same(read(tmp_path, put(tmp_path, table=table)), table)


def test_nothing_is_read_from_no_segments(tmp_path: Path) -> None:
    assert read(tmp_path) == {}
