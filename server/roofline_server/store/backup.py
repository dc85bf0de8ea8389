"""A consistent copy of a data directory, also while a server works with it.

The inbox is read as it is at one moment, and then the catalog as it is a moment later: what the catalog
lists as sealed by then is in its segments, and the rest is in that inbox. If more is sealed in between than
that inbox knows, both are read again. Segments never change; those that are replaced meanwhile stay, as links
in the data directory.

The copy grows under the name DIR.partial, where an interrupted backup goes on, and gets its final name once
everything in it has been read and found sound.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import Unavailable
from .catalog.catalog import Catalog, sqlite_url
from .check.adopt import FORK
from .check.findings import Checked
from .check.reading import CATALOG, INBOX, check
from .identity import BEFORE, catalog_is_elsewhere, identity_of_catalog, new_identity, put_identity
from .intake.inbox import Inbox
from .later import refuse_later
from .segments.backup_links import links_of_backup
from .segments.files import fsync
from .usable import usable

PARTIAL = ".partial"
MOST_TRIES = 100  # a sealing would have to come in between each time
ACCESS = "access"  # keys and tokens
ELSEWHERE = (
    "the catalog of {root} is in another database, which `backup` does not copy, and without it nothing says "
    "what the files hold: stop the server, back up that database with its own tools and copy {root}, then "
    "start it again; to restore, put both of one backup back"
)


class Backup(NamedTuple):
    """Where it is, and what reading all of it has found."""

    place: Path
    checked: Checked

    @property
    def is_whole(self) -> bool:
        return not self.checked.problems


def back_up(root: Path, target: Path, copies: bool = False) -> Backup:
    """Copy a data directory. copies: the bytes of segments, also where links could be made.

    Raises Unavailable.
    """
    refuse_later(root)
    if catalog_is_elsewhere(root):
        raise Unavailable(ELSEWHERE.format(root=root))
    if not (root / CATALOG).exists() or not (root / INBOX).exists():
        raise Unavailable(f"{root} has no {CATALOG} and {INBOX}: choose another --data")
    if target.exists():
        raise Unavailable(f"{target} exists already: choose another directory, one for each backup")
    partial = target.with_name(f"{target.name}{PARTIAL}")
    with usable(partial if root.exists() else root):
        partial.mkdir(parents=True, exist_ok=True, mode=0o700)
        with links_of_backup(root) as links:
            paths = _take_databases(root, partial, links)
            _take_segments(links, partial, paths, copies)
        if (root / ACCESS).is_dir():
            shutil.copytree(root / ACCESS, partial / ACCESS, dirs_exist_ok=True)
        _begin_epoch(partial)
        found = Backup(partial, check(partial))
        if not found.is_whole:
            return found
        _make_durable(partial)
        partial.rename(target)
        fsync(target.parent)
    return found._replace(place=target)


def _take_databases(root: Path, partial: Path, links: Path) -> set[str]:
    """Copies of catalog and inbox that belong together, and links to the catalog's segments; their paths."""
    missing: set[str] = set()
    for _ in range(MOST_TRIES):
        if not _copy_together(root, partial):
            continue
        catalog = Catalog(sqlite_url(partial / CATALOG))
        paths = catalog.paths()
        catalog.close()
        gone = {path for path in sorted(paths) if not _hold(root / path, links / path, partial / path)}
        if gone <= missing:  # also in the earlier catalog: these are missing, not replaced
            return paths - gone
        missing = gone
    raise Unavailable(f"{root} changes all the time: try again when less is sealed")


def _copy_together(root: Path, partial: Path) -> bool:
    """Copies of catalog and inbox; False: a sealing came in between."""
    for name in (CATALOG, INBOX):
        for end in ("", "-wal", "-shm"):
            (partial / f"{name}{end}").unlink(missing_ok=True)
    with ExitStack() as stack:
        inbox, catalog = (
            stack.enter_context(closing(sqlite3.connect(root / name, isolation_level=None)))
            for name in (INBOX, CATALOG)
        )
        # What a transaction has read first is what all of it reads.
        inbox.execute("begin")
        last = inbox.execute("select seq from sqlite_sequence where name = 'batch'").fetchone()
        catalog.execute("begin")
        sealed = catalog.execute("select value from state where name = 'sealed_through'").fetchone()
        if int(sealed[0] if sealed else 0) > int(last[0] if last else 0):
            return False
        for source, name in ((inbox, INBOX), (catalog, CATALOG)):
            with closing(sqlite3.connect(partial / name)) as copy:
                source.backup(copy)
    return True


def _hold(source: Path, link: Path, target: Path) -> bool:
    """Have a link to a segment, or its copy in the backup. False: there is no such file any more."""
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.link(source, link)
    except FileExistsError:
        return True  # of the try before: segments never change
    except FileNotFoundError:
        return False
    except OSError:  # a file system without links
        with suppress(FileNotFoundError):
            if not _is_there(source, target):
                _copy(source, target)
            return True
        return False
    return True


def _is_there(source: Path, target: Path) -> bool:
    """One of the same size is of a backup that was interrupted: all are read in the end."""
    size = source.stat().st_size
    return target.exists() and target.stat().st_size == size


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.unlink(missing_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o600)


def _take_segments(links: Path, partial: Path, paths: Iterable[str], copies: bool) -> None:
    wanted = set(paths)
    for old in list((partial / "segments").rglob("*")):
        if old.is_file() and str(old.relative_to(partial)) not in wanted:
            old.unlink()  # of a backup that was interrupted
    for name in sorted(wanted):
        path, target = links / name, partial / name
        if not path.exists():
            continue  # it was copied at once
        # What is there may be a link, of a backup that was not to make copies.
        if _is_there(path, target) and not (copies and os.path.samefile(path, target)):
            continue
        if copies or not _try_link(path, target):
            _copy(path, target)


def _try_link(source: Path, target: Path) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        return False
    return True


def _begin_epoch(partial: Path) -> None:
    """Files of the copy belong together, and to no other copy."""
    catalog = Catalog(sqlite_url(partial / CATALOG))
    inbox = Inbox(partial / INBOX)
    try:
        before = identity_of_catalog(catalog)
        new = new_identity(before.store if before else "")
        put_identity(catalog, new)
        catalog.put_state(FORK, str(catalog.sealed_through()))
        inbox.put_about({**new._asdict(), BEFORE: ""})
        inbox.delete(catalog.sealed_through())
    finally:
        inbox.close()
        catalog.close()


def _make_durable(partial: Path) -> None:
    for path in [partial, *partial.rglob("*")]:
        fsync(path)
