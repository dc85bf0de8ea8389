"""A folder of CSV files that are whole, or not there."""

from __future__ import annotations

import csv
import errno
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline.answers.tables import TableChunk
from roofline_client import ClientError, Refused
from roofline_client.export import write_folder
from roofline_client.files import written

from .chunks import chunk

MARKS = chunk("marks", {"rank": ["worker:0", "worker:1"], "time_ns": [1, None]})
TCP = chunk("samples_tcp", {"rank": ["worker:0"], "sent_bytes": [2.5]})


def rows(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))


def test_names_from_a_training_are_no_formulas(tmp_path: Path) -> None:
    write_folder([chunk("marks", {"rank": ["=cmd|' /C calc'!A0"], "time_ns": [-1]})], tmp_path / "raw")
    assert rows(tmp_path / "raw" / "marks.csv")[1] == ["'=cmd|' /C calc'!A0", "-1"]


def test_a_file_for_each_dataset(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    counts = write_folder([MARKS, MARKS, TCP], tmp_path / "raw", progress=lambda *far: told.append(far))
    assert counts == {"marks": 4, "samples_tcp": 1}
    assert told == [("marks", 2), ("marks", 4), ("samples_tcp", 1)]
    assert rows(tmp_path / "raw/marks.csv") == [
        ["rank", "time_ns"],
        *[["worker:0", "1"], ["worker:1", ""]] * 2,
    ]
    described = rows(tmp_path / "raw/columns.csv")
    assert ["samples_tcp", "sent_bytes", "byte", "measured", ""] in described
    assert len(described) == 5


def test_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ClientError, match=r"not empty.*--force"):
        write_folder([MARKS], tmp_path)
    assert os.listdir(tmp_path) == ["mine"]
    write_folder([MARKS], tmp_path, force=True)
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "marks.csv").exists()


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("mine")
    with pytest.raises(ClientError, match="is a file"):
        write_folder([MARKS], tmp_path / "raw")
    with pytest.raises(ClientError, match="cannot make the folder"):
        write_folder([MARKS], tmp_path / "raw" / "deeper", force=True)


@pytest.mark.parametrize("name", ["../marks", "/etc/x", "", "a.b", "columns", "a\nb", "x" * 200])
def test_name_that_would_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="dataset"):
        write_folder([MARKS._replace(dataset=name)], tmp_path / "raw")
    assert os.listdir(tmp_path / "raw") == []


def test_dataset_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="marks"):
        write_folder([MARKS, TCP, MARKS], tmp_path / "raw")


def test_what_was_whole_stays_when_the_rest_fails(tmp_path: Path) -> None:
    def broken() -> Iterator[TableChunk]:
        yield MARKS
        yield TCP
        raise ClientError("the server went away")

    with pytest.raises(ClientError, match="went away"):
        write_folder(broken(), tmp_path / "raw")
    assert os.listdir(tmp_path / "raw") == ["marks.csv"]


# -- files ---------------------------------------------------------------------------------------------------


def test_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    target.write_text("old")
    with written(target) as file:
        file.write("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and os.listdir(tmp_path) == ["x.json"]


@pytest.mark.parametrize("kind", [ClientError, KeyboardInterrupt, RuntimeError])
def test_failure_leaves_the_file_that_was_there(tmp_path: Path, kind: type[BaseException]) -> None:
    (tmp_path / "x.json").write_text("old")
    with pytest.raises(kind), written(tmp_path / "x.json") as file:
        file.write("half")
        raise kind("no more")
    assert (tmp_path / "x.json").read_text() == "old" and os.listdir(tmp_path) == ["x.json"]


def test_packed_by_its_name(tmp_path: Path) -> None:
    with written(tmp_path / "x.json.gz") as file:
        file.write("ä" * 1000)
    assert gzip.decompress((tmp_path / "x.json.gz").read_bytes()).decode() == "ä" * 1000


def test_question_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    def refused() -> Iterator[TableChunk]:
        raise ClientError("no such job")
        yield MARKS

    with pytest.raises(ClientError, match="no such job"):
        write_folder(refused(), tmp_path / "42")
    assert not (tmp_path / "42").exists()


def test_folder_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ClientError, match=r"cannot read the folder .*/loop: Too many levels"):
        write_folder([MARKS], tmp_path / "loop")


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ClientError, match="No space left on device"), written(tmp_path / name) as file:
        file.write("data")
    assert os.listdir(tmp_path) == []


def test_device_that_is_full() -> None:
    with pytest.raises(ClientError, match="No space left on device"), written(Path("/dev/full")) as file:
        file.write("x" * 100_000)
    assert Path("/dev/full").is_char_device()


def test_pipe_without_a_name_of_its_own_is_written_to() -> None:
    """As the shell's `>(...)` and /dev/stdout."""
    read, write = os.pipe()
    with written(Path(f"/dev/fd/{write}")) as file:
        file.write("rows")
    os.close(write)
    with open(read) as piped:
        assert piped.read() == "rows"


def test_device_is_written_to_and_not_replaced() -> None:
    with written(Path("/dev/null")) as file:
        file.write("data")
    assert Path("/dev/null").is_char_device()


def test_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with written(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="No such file"), written(tmp_path / "no" / "x.json"):
        pass
