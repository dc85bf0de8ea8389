"""Takes up where the last server of a data directory left off, however it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import BadBatch, Unavailable
from ..records import DecodedBatch
from .catalog.catalog import Catalog
from .catalog.name_ids import NameIds
from .identity import set_foreign_copy_apart
from .intake.entries import Entry
from .intake.inbox import Inbox
from .intake.lost import lost_batch
from .intake.tail import Tail
from .retention.apply import finish
from .segments.backup_links import remove_abandoned
from .segments.files import StoreIdentity
from .segments.unknown import QUARANTINE, tidy
from .taking import end_taking

log = logging.getLogger(__name__)

MOST_NAMED = 5  # agents

Decode = Callable[[Entry, NameIds], DecodedBatch]


class Recovery:
    """One start. Batches of the inbox that are sound are remembered, others are set apart and named."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        inbox: Inbox,
        identity: StoreIdentity,
        name_ids: NameIds,
        tail: Tail,
        remember: Callable[[Entry, DecodedBatch], None],
    ) -> None:
        self._root, self._catalog, self._inbox, self._identity = root, catalog, inbox, identity
        self._name_ids, self._tail, self._remember = name_ids, tail, remember

    def take_up(self, decode: Decode) -> None:
        """Where the last server left off. Raises Unavailable for files that do not belong together."""
        sealed = self._catalog.sealed_through()
        self._check_inbox(sealed)
        self._inbox.delete(sealed)
        if apart := set_foreign_copy_apart(self._root, self._catalog, self._identity):
            log.warning(
                "the catalog of %s is not the one that was here before, of which a copy is kept in %s",
                self._root,
                apart,
            )
        remove_abandoned(self._root)
        finish(self._root, self._catalog)
        end_taking(self._root, self._catalog)
        unknown = tidy(self._root, self._catalog.paths(), set(self._inbox.ids()))
        if unknown.set_apart:
            count, where = len(unknown.set_apart), self._root / QUARANTINE
            log.warning(
                "%d files that the catalog does not know are set apart in %s: stop the server and run "
                "`roofline-server check --repair`, which takes in again what it can",
                count,
                where,
            )
        found = self._take_from_inbox(sealed, decode)
        if found or unknown.removed:
            log.info("recovered %d unsealed batches, removed %d unfinished files", found, unknown.removed)

    def _take_from_inbox(self, sealed: int, decode: Decode) -> int:
        """How many batches were there, without those that are damaged: they cost their own rows alone."""
        found = 0
        damaged: list[Entry] = []
        of_unknown: list[Entry] = []
        agents = {node: key.agent for key, node in self._name_ids.nodes().items()}
        for entry, is_sound in self._inbox.read(sealed):
            if is_sound and agents.get(entry.node) != entry.agent:
                of_unknown.append(entry)
            elif is_sound and (decoded := self._decoded(entry, decode)) is not None:
                self._remember(entry, decoded)
                found += 1
            else:
                damaged.append(entry)
                self._note_damaged(entry)
        self._set_apart(damaged, "are not as they were written")
        self._set_apart(
            of_unknown, "are of nodes that the catalog, which was damaged or lost, does not know,"
        )
        return found

    def _decoded(self, entry: Entry, decode: Decode) -> DecodedBatch | None:
        """None for what was damaged before batches had checksums: it was sound when it was stored."""
        try:
            return decode(entry, self._name_ids)
        except BadBatch as error:
            log.error("batch %d of agent %s in the inbox: %s", entry.sequence, entry.agent[:8], error)
            return None

    def _set_apart(self, entries: Sequence[Entry], why: str) -> None:
        if not entries:
            return
        self._inbox.set_apart(entry.id for entry in entries)
        named = ", ".join(sorted({entry.agent[:8] for entry in entries})[:MOST_NAMED])
        log.error(
            "%d batches in the inbox %s and are left out (of agents %s); they are kept in the table "
            "`damaged` of inbox.db",
            len(entries),
            why,
            named,
        )

    def _note_damaged(self, entry: Entry) -> None:
        """Have the jobs of its node say that a batch is lost."""
        known_ns = self._tail.now().reported.get(entry.node)
        if known_ns is not None:
            self._tail.add(entry, lost_batch(entry.sequence, entry.node, known_ns))

    def _check_inbox(self, sealed: int) -> None:
        """Raises Unavailable for one that is older than the catalog: its batches have numbers that others
        had, and would be taken for sealed."""
        last = self._inbox.last_id()
        if last >= sealed:
            return
        if last:
            raise Unavailable(
                f"inbox.db and catalog.db of {self._root} do not belong together: the inbox is older (batch "
                f"{last}, the catalog has {sealed}). Put back both of one backup; or move inbox.db away, and "
                "what it alone holds is lost"
            )
        log.warning("the inbox of %s is new: batches that only the old one held are lost", self._root)
        self._inbox.begin_after(sealed)
