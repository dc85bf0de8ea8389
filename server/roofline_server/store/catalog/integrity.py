"""Whether an SQLite database is as it was written."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from ...errors import Unavailable
from .sums import wrong_sums
from .versions import REPAIR

EMPTY = "it is empty"
DISK_FULL, READ_ONLY = "the disk is full", "the file system is read-only"
FULL_BYTES = 1 << 20  # where less is free, SQLite fails to make its files, and does not always say why
# What SQLite says of a database that may be sound, and that it cannot open or read now: wrong rights, a full
# or failing disk, another program.
_NOT_NOW = ("unable to open", "disk I/O", "is full", "locked", "readonly", "denied", "memory")


def integrity(path: Path) -> str:
    """What is wrong with an SQLite database; empty: nothing. Nothing is changed but its log, which is applied
    as every opening does. Raises Unavailable for one that cannot be read now: it may be sound."""
    try:
        return _problem_of(path)
    except sqlite3.OperationalError as error:
        if not any(words in str(error) for words in _NOT_NOW):
            return str(error)
        raise Unavailable(
            f"{path} cannot be read now ({cause_of(error, path.parent)}), which does not mean that it is "
            "damaged: see to its owner, its rights and its disk, and try again"
        ) from None


def cause_of(error: Exception, folder: Path) -> str:
    """What an error of SQLite says, or what it often does not: that the disk of its database is full, or has
    become read-only, as after an error of the disk."""
    error = getattr(error, "orig", None) or error  # SQLAlchemy's own texts have many lines
    if isinstance(error, sqlite3.OperationalError):
        if _is_read_only(folder):
            return READ_ONLY
        with suppress(OSError):
            if shutil.disk_usage(folder).free < FULL_BYTES:
                return DISK_FULL
    return str(error).partition("\n")[0] or type(error).__name__


def _is_read_only(folder: Path) -> bool:
    """Tried out: of one that an error has made so, statvfs(3) does not say it."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error.errno == errno.EROFS
    return False


def refuse_damaged(path: Path) -> None:
    """Raises Unavailable for a catalog that is there and is not as it was written, and
    sqlite3.OperationalError for one that cannot be read now."""
    if path.exists() and (why := _problem_of(path)) and why != EMPTY:
        raise Unavailable(f"{path} is damaged ({why}): {REPAIR}")


def _problem_of(path: Path) -> str:
    try:
        with closing(sqlite3.connect(path)) as db:
            if db.execute("select count(*) from sqlite_master").fetchone() == (0,):
                return EMPTY
            found = [str(row[0]) for row in db.execute("pragma integrity_check(3)")]
        if found != ["ok"]:
            return "; ".join(found).replace("\n", " ")
        return wrong_sums(path)
    except sqlite3.OperationalError:
        raise
    except (sqlite3.Error, ValueError) as error:  # also of texts that are no UTF-8
        return str(error)
