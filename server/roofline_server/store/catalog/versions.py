"""The format of a catalog, and the copies of it that are kept next to it.

A catalog of a later format is refused. One of an earlier format is copied before it is changed. A copy is
made whole or not at all, also while the catalog is written.
"""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa

from ...errors import Unavailable
from ...later_release import of_later_release
from ..segments.files import fsync
from .sums import wrong_sums
from .tables import STATE

log = logging.getLogger(__name__)

# 1: without identity; 2: with it, and with checksums of inbox rows; 3: with checksums of the catalog (SQLite)
FORMAT = 3
RELEASE = "release"  # name of a state: the release that opened it last
COPY = "catalog.copy.db"  # next to the catalog, as it was at the last sealing


def check_format(engine: sa.Engine) -> None:
    """To be called before anything is changed. Raises Unavailable for a format of a later release."""
    tables = set(sa.inspect(engine).get_table_names())
    if not tables:
        return
    found = _format_of(engine) if STATE.name in tables else 1
    if found > FORMAT:
        raise Unavailable(of_later_release("the catalog", found, FORMAT, _state(engine, RELEASE)))
    path = engine.url.database
    if found < FORMAT and path and engine.dialect.name == "sqlite":
        kept = Path(path).with_suffix(f".format{found}.db")
        if not kept.exists():
            write_copy(engine, kept)
            log.info("the catalog gets format %d; as it was, it is kept in %s", FORMAT, kept)


def _format_of(engine: sa.Engine) -> int:
    value = _state(engine, "format")
    if value is None:
        return 1
    if not str(value).isdecimal():
        raise Unavailable(f"the catalog says that its format is {value!r}: it is damaged; {REPAIR}")
    return int(value)


def _state(engine: sa.Engine, name: str) -> str | None:
    with engine.connect() as db:
        return db.execute(sa.select(STATE.c.value).where(STATE.c.name == name)).scalar()


REPAIR = "stop the server and run `roofline-server check --repair`"


def write_copy(engine: sa.Engine, target: Path) -> bool:
    """Write an SQLite catalog to another file, which appears whole or not at all; False: it is no SQLite.
    Raises OSError, sqlalchemy.exc.SQLAlchemyError."""
    if engine.dialect.name != "sqlite":
        return False
    temporary = target.with_name(f"{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            db.exec_driver_sql("vacuum into ?", (str(temporary),))
        if why := wrong_sums(temporary):  # the existing copy must not be replaced by it
            raise OSError(f"the catalog is damaged ({why}): {REPAIR}")
        temporary.chmod(0o600)
        fsync(temporary)
        # A repair that was killed leaves the log of the copy that is replaced: SQLite would apply it to this.
        for end in ("-wal", "-shm"):
            target.with_name(f"{target.name}{end}").unlink(missing_ok=True)
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync(target.parent)
    return True
