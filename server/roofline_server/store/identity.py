"""Whether the files of a data directory belong together.

A *store* has a random id, made once. Its *epoch* is another random id, new whenever a catalog or an inbox is
created: when one of them was lost, and in every backup. Catalog and inbox of one store and one epoch belong
together.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import Unavailable
from .catalog.catalog import Catalog, sqlite_url
from .catalog.versions import COPY
from .intake.inbox import Inbox
from .segments.files import StoreIdentity
from .segments.unknown import QUARANTINE, free_place
from .wal import opened_to_read

log = logging.getLogger(__name__)

CATALOGS = f"{QUARANTINE}/catalogs"
CATALOG = "catalog.db"
PLACE, ELSEWHERE = "catalog", "elsewhere"  # what an inbox says of where the catalog is
BEFORE = "before"  # what an inbox says of itself: its epochs with catalogs that were lost


class CopyOf(NamedTuple):
    """What a copy of a catalog is a copy of."""

    identity: StoreIdentity | None
    sealed_through: int


def new_identity(store: str = "") -> StoreIdentity:
    """A new epoch of a store, or a new store."""
    return StoreIdentity(store or secrets.token_hex(8), secrets.token_hex(4))


def identity_of_catalog(catalog: Catalog) -> StoreIdentity | None:
    return _identity(catalog.state("store"), catalog.state("epoch"))


def identity_of_inbox(inbox: Inbox) -> StoreIdentity | None:
    about = inbox.about()
    return _identity(about.get("store"), about.get("epoch"))


def _identity(store: str | None, epoch: str | None) -> StoreIdentity | None:
    return StoreIdentity(store, epoch or "") if store else None


def put_identity(catalog: Catalog, identity: StoreIdentity) -> None:
    catalog.put_states(identity._asdict())


def note_place(root: Path, inbox: Inbox, catalog_url: str) -> None:
    """Keep where the catalog is, for who looks at the directory alone. Raises Unavailable for one that is
    in another database, where none is named: a new one would know none of the files."""
    is_here = catalog_url in ("", sqlite_url(root / CATALOG))
    if is_here and inbox.about().get(PLACE) == ELSEWHERE and not (root / CATALOG).exists():
        raise Unavailable(f"the catalog of {root} is in another database: say with --catalog in which")
    inbox.put_about({PLACE: "" if is_here else ELSEWHERE})


def catalog_is_elsewhere(root: Path) -> bool:
    """Whether the catalog of a data directory is in another database. Files that cannot be read say no."""
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(opened_to_read(root / "inbox.db")) as db:
        found = db.execute("select value from about where name = ?", (PLACE,)).fetchone()
        return found is not None and found[0] == ELSEWHERE
    return False


def agree(root: Path, catalog: Catalog, inbox: Inbox) -> StoreIdentity:
    """The identity of catalog and inbox; what is new gets that of the other. Raises Unavailable where they
    do not belong together."""
    ours, theirs = identity_of_catalog(catalog), identity_of_inbox(inbox)
    if ours and ours == theirs:
        return ours
    if theirs:
        if why := why_apart(catalog, inbox):
            raise Unavailable(
                f"inbox.db and catalog.db of {root} do not belong together: {why}. Put back both of one "
                "backup; or move inbox.db away, and what it alone holds is lost"
            )
        # The inbox first: killed before the catalog has it too, the same is done again.
        new = new_identity(theirs.store)
        inbox.put_about({**new._asdict(), BEFORE: " ".join([*_before(inbox), theirs.epoch])})
        put_identity(catalog, new)
        return new
    if ours and not inbox.last_id() and catalog.sealed_through():
        ours = new_identity(ours.store)  # the inbox was lost
        put_identity(catalog, ours)
        catalog.copy(root / COPY)
    found = ours or new_identity()
    if not ours:
        put_identity(catalog, found)
    inbox.put_about(found._asdict())
    return found


def why_apart(catalog: Catalog, inbox: Inbox) -> str:
    """Why catalog and inbox do not belong together; empty: they do, or one of them is new.

    A catalog that was lost, and is put back when another has been made, belongs to its inbox as before.
    """
    ours, theirs = identity_of_catalog(catalog), identity_of_inbox(inbox)
    if theirs is None or ours == theirs:
        return ""
    if ours is None:
        return "the catalog is from before the inbox was made" if catalog.paths() else ""
    if ours.store != theirs.store:
        return f"they are of two stores ({theirs.store} and {ours.store})"
    if ours.epoch in _before(inbox):
        return ""
    return f"they are of two copies of store {ours.store} ({theirs.epoch} and {ours.epoch})"


def _before(inbox: Inbox) -> list[str]:
    return inbox.about().get(BEFORE, "").split()


def set_foreign_copy_apart(root: Path, catalog: Catalog, identity: StoreIdentity) -> Path | None:
    """Move the copy of a catalog that the present one does not continue to where a repair finds it: the next
    sealing would replace it, and nothing else knows what is in files that are not in the catalog."""
    copy = root / COPY
    if not copy.exists():
        return None
    found = copy_of(copy)
    if found.identity == identity and found.sealed_through <= catalog.sealed_through():
        return None
    place = free_place(root, f"{CATALOGS}/{COPY}")
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(copy)) as db:
        db.execute("pragma wal_checkpoint(truncate)")  # its log, if a repair was killed, would stay behind
    copy.rename(root / place)
    return root / place


def copy_of(path: Path) -> CopyOf:
    """What an SQLite catalog says of itself; of one that cannot be read, nothing."""
    try:
        with closing(opened_to_read(path)) as db:
            states = dict(db.execute("select name, value from state"))
            through = int(states.get("sealed_through") or 0)
    except (sqlite3.Error, ValueError):
        return CopyOf(None, 0)
    return CopyOf(_identity(states.get("store"), states.get("epoch")), through)
