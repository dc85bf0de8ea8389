"""Data of a later release: refused before anything of them is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ..errors import Unavailable
from ..later_release import of_later_release
from .catalog.versions import FORMAT as CATALOG_FORMAT
from .catalog.versions import RELEASE
from .intake.inbox import FORMAT as INBOX_FORMAT
from .wal import opened_to_read

_FILES = (
    ("catalog.db", "state", "the catalog", CATALOG_FORMAT),
    ("inbox.db", "about", "the inbox", INBOX_FORMAT),
)


def refuse_later(root: Path) -> None:
    """To be called before the files of a data directory are opened to be written. Raises Unavailable.

    What cannot be read says nothing here: who opens it next says why.
    """
    for name, table, what, known in _FILES:
        about = _names_and_values(root / name, table)
        found = about.get("format", "")
        if found.isdecimal() and int(found) > known:
            raise Unavailable(of_later_release(f"{what} of {root}", found, known, about.get(RELEASE, "")))


def _names_and_values(path: Path, table: str) -> dict[str, str]:
    """Of a table of these two columns."""
    if not path.exists():
        return {}
    try:
        with closing(opened_to_read(path)) as db:
            return {str(name): str(value) for name, value in db.execute(f"select name, value from {table}")}
    except (sqlite3.Error, UnicodeDecodeError):  # SQLite's own message may have damaged text in it
        return {}
