"""Who owns each run: the users who submitted its ranks, as their nodes name them.

Durable with the batch that brought them, and in the catalog from the next sealing on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from .catalog import Catalog

MAX_OWNERS = 64  # of a run


class Owners:
    """The owners of all runs. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._known = catalog.owners()
        self._of: dict[str, frozenset[str]] = {}
        self._unsaved: set[tuple[str, str]] = set()
        for job, user in self._known:
            self._of[job] = self.of(job) | {user}

    def add(self, found: Iterable[tuple[str, str]]) -> None:
        """Remember the owners of a batch; the same again changes nothing."""
        with self._lock:
            for job, user in set(found) - self._known:
                if len(self.of(job)) < MAX_OWNERS:
                    self._of[job] = self.of(job) | {user}
                    self._known.add((job, user))
                    self._unsaved.add((job, user))

    def of(self, job: str) -> frozenset[str]:
        """The users that a run belongs to; none where its agents are too old to report them."""
        return self._of.get(job, frozenset())

    def save(self) -> None:
        """Make durable what is new."""
        with self._lock:
            unsaved, self._unsaved = self._unsaved, set()
        if unsaved:
            try:
                self._catalog.add_owners(unsaved)
            except Exception:
                with self._lock:
                    self._unsaved |= unsaved
                raise
