from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from roofline_server.store.wal import FRAME, HEADER, LogDamage, damage_of, lost_transactions

PAGE = 4096
ROWS = 6


def log_of(folder: Path) -> Path:
    """A database and its log as a killed process leaves them: one transaction a row."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / "live.db", isolation_level=None)) as db:
        db.executescript("pragma journal_mode=wal; create table one (value integer)")
        for value in range(ROWS):
            db.execute("insert into one values (?)", (value,))
        for end in ("", "-wal"):
            shutil.copyfile(folder / f"live.db{end}", folder / f"left.db{end}")
    return folder / "left.db-wal"


def rows_left(log: Path) -> int:
    with closing(sqlite3.connect(log.with_name("left.db"))) as db:
        return int(db.execute("select count(*) from one").fetchone()[0])


def flip(log: Path, at: int) -> None:
    data = bytearray(log.read_bytes())
    data[at] ^= 16
    log.write_bytes(data)


def test_sound_log_and_none_have_lost_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    assert damage_of(log) == LogDamage()
    assert rows_left(log) == ROWS
    assert lost_transactions(tmp_path / "no.db-wal") == 0


@pytest.mark.parametrize("place", [100, 8 - FRAME, 14 - FRAME])  # in a page, in salts
@pytest.mark.parametrize("back", range(1, ROWS))
def test_bit_in_the_midst_loses_what_follows_and_is_counted(tmp_path: Path, back: int, place: int) -> None:
    log = log_of(tmp_path / "log")
    frames = (log.stat().st_size - HEADER) // (FRAME + PAGE)
    flip(log, HEADER + (frames - 1 - back) * (FRAME + PAGE) + FRAME + place)
    # The transaction of the frame itself is lost too: were it the last, a crash might have cut it.
    assert damage_of(log) == LogDamage(back)
    assert rows_left(log) == ROWS - back - 1


def test_log_that_ends_amid_a_frame_is_that_of_a_crash(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    log.write_bytes(log.read_bytes()[:-1000])
    assert damage_of(log) == LogDamage()
    assert rows_left(log) == ROWS - 1


@pytest.mark.parametrize("at", [16, 25])  # salts, checksum
def test_bit_in_the_header_loses_all(tmp_path: Path, at: int) -> None:
    log = log_of(tmp_path / "log")
    flip(log, at)
    # That which made the table, and one for each row.
    assert lost_transactions(log) == 1 + ROWS
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        rows_left(log)


def test_bit_in_the_last_frame_is_told_from_a_frame_that_is_cut(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    flip(log, log.stat().st_size - 100)
    assert damage_of(log) == LogDamage(0, True)
    assert rows_left(log) == ROWS - 1


def test_frames_of_an_earlier_turn_of_the_log_are_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "live.db", isolation_level=None)) as db:
        db.executescript("pragma journal_mode=wal; create table one (value integer)")
        for value in range(ROWS):
            db.execute("insert into one values (?)", (value,))
        db.execute("pragma wal_checkpoint(full)")
        db.execute("insert into one values (99)")
        assert damage_of(folder / "live.db-wal") == LogDamage()


def test_other_bytes_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "odd.db-wal").write_bytes(bytes(range(256)) * 64)
    assert lost_transactions(tmp_path / "odd.db-wal") == 0
