"""What goes wrong with the files of a data directory, as one error in plain words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy.exc

from ..errors import Unavailable
from .catalog.integrity import cause_of
from .catalog.versions import REPAIR


@contextmanager
def usable(root: Path) -> Iterator[None]:
    """Raises Unavailable for errors of the disk, of SQLite, and of the catalog's database; of damaged text in
    what SQLite says, Python can say only that it is no UTF-8."""
    try:
        yield
    except (OSError, ImportError, sqlite3.Error, sqlalchemy.exc.SQLAlchemyError, UnicodeDecodeError) as error:
        # SQLAlchemy's own texts have many lines, and the driver's error in `orig`.
        origin = getattr(error, "orig", None) or error
        cause = cause_of(origin, root)
        if isinstance(origin, UnicodeDecodeError):
            cause = f"its inbox or catalog is damaged: {REPAIR}"
        if isinstance(origin, sqlite3.DatabaseError) and not isinstance(origin, sqlite3.OperationalError):
            cause += f": {REPAIR}"
        raise Unavailable(f"cannot use the data directory {root}: {cause}") from None
