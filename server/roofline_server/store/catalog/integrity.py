"""Whether an SQLite database is as it was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ...errors import Unavailable
from .sums import wrong_sums
from .versions import REPAIR

EMPTY = "it is empty"


def integrity(path: Path) -> str:
    """What is wrong with an SQLite database; empty: nothing. Nothing is changed but its log, which is applied
    as every opening does."""
    try:
        return _problem_of(path)
    except sqlite3.OperationalError as error:
        return str(error)


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
