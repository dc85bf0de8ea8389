from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from roofline_server.store.segments.unknown import NOTE, QUARANTINE, tidy

FOLDER = "segments/job-42/marks"


def put(root: Path, name: str, text: str = "data") -> str:
    path = root / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return f"{FOLDER}/{name}"


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_file_of_a_lost_catalog_is_set_apart_and_not_deleted(tmp_path: Path) -> None:
    put(tmp_path, "000000000007.parquet", "rows")
    found = tidy(tmp_path, set(), set())
    assert found == (0, [f"{QUARANTINE}/{FOLDER}/000000000007.parquet"])
    assert (tmp_path / found.set_apart[0]).read_text() == "rows"
    assert files(tmp_path) == {*found.set_apart, f"{QUARANTINE}/{NOTE}"}


def test_another_of_the_same_name_does_not_replace_it(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        put(tmp_path, "000000000007.parquet", text)
        tidy(tmp_path, set(), set())
    apart = tmp_path / QUARANTINE / FOLDER
    assert sorted(path.read_text() for path in apart.iterdir()) == ["first", "second", "third"]


def test_file_is_set_apart_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    test_another_of_the_same_name_does_not_replace_it(tmp_path)


@pytest.mark.parametrize(
    ("name", "known", "in_inbox"),
    [
        ("000000000007.tmp", set(), set()),  # never finished
        ("000000000007.parquet", set(), {6, 7}),  # will be sealed again
        ("000000000003-000000000007.parquet", set(), {7}),
        ("000000000007.parquet", {f"{FOLDER}/000000000003-000000000007.parquet"}, set()),  # was merged
        ("000000000003-000000000005.parquet", {f"{FOLDER}/000000000003-000000000007.parquet"}, set()),
    ],
)
def test_rubbish_is_removed(tmp_path: Path, name: str, known: set[str], in_inbox: set[int]) -> None:
    put(tmp_path, name)
    assert tidy(tmp_path, known, in_inbox) == (1, [])
    assert files(tmp_path) == set()


def test_step_deltas_are_rubbish_once_others_stand_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "segments/job-42/steps_process"
    folder.mkdir(parents=True)
    for number in (7, 9):
        (folder / f"{number:012d}.parquet").write_text("deltas")
    assert tidy(tmp_path, {"segments/job-42/steps_process/000000000009.parquet"}, set()) == (1, [])
    assert len(tidy(tmp_path, set(), set()).set_apart) == 1


def test_step_deltas_stay_if_a_known_file_is_gone(tmp_path: Path) -> None:
    """The catalog is from before a removal of raw data, whose last steps are in files it does not know."""
    folder = "segments/job-42/steps_process"
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "000000000009.parquet").write_text("deltas")
    known = {f"{folder}/000000000007.parquet", f"{FOLDER}/000000000007.parquet"}
    assert tidy(tmp_path, known, set()).removed == 0


@pytest.mark.parametrize("name", ["notes.txt", "7.parquet.gz", "a-b.parquet", "000000000009.parquet"])
def test_what_else_lies_there_is_kept(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    other = f"{FOLDER}/000000000003-000000000007.parquet"
    assert tidy(tmp_path, {other, "segments/job-43/marks/000000000001-000000000009.parquet"}, {8}) == (
        0,
        [f"{QUARANTINE}/{FOLDER}/{name}"],
    )


def test_what_the_catalog_knows_stays(tmp_path: Path) -> None:
    known = put(tmp_path, "000000000007.parquet")
    assert tidy(tmp_path, {known}, {7}) == (0, [])
    assert files(tmp_path) == {known}


def test_empty_directory_has_nothing_unknown(tmp_path: Path) -> None:
    assert tidy(tmp_path, set(), set()) == (0, [])
