"""Files that were replaced stay until everyone who looked before has read them.

A reader takes a lease first; files are removed once all leases from before they were replaced are gone, or by
the sweep of the next start.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Lease:
    """Its holder finds all files that the catalog knew when it was taken, or knew later."""

    def __init__(self, turn: int) -> None:
        self.turn = turn  # how often files had been replaced by then


class Leases:
    """The leases of one data directory. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._turn = 0
        # No callbacks: a lease may go in the midst of anything, where a lock would wait forever.
        self._taken: list[weakref.ref[Lease]] = []
        self._replaced: list[tuple[int, str]] = []

    def take(self) -> Lease:
        """A lease; to be taken before the catalog is read."""
        with self._lock:
            lease = Lease(self._turn)
            self._taken = [*self._alive(), weakref.ref(lease)]
            return lease

    @contextmanager
    def held(self) -> Iterator[None]:
        """A lease for as long as something is done."""
        lease = self.take()
        try:
            yield
        finally:
            del lease

    def replaced(self, paths: Iterable[str]) -> None:
        """The catalog no longer knows these files; paths are relative to the data directory."""
        with self._lock:
            self._turn += 1
            self._replaced.extend((self._turn, path) for path in paths)

    def remove(self) -> None:
        """Remove the replaced files that nobody can want any more."""
        with self._lock:
            self._taken = self._alive()
            held = [lease.turn for taken in self._taken if (lease := taken())]
            oldest = min(held, default=self._turn)
            free = [path for turn, path in self._replaced if turn <= oldest]
            self._replaced = [(turn, path) for turn, path in self._replaced if turn > oldest]
        for path in free:
            (self._root / path).unlink(missing_ok=True)

    def _alive(self) -> list[weakref.ref[Lease]]:
        return [taken for taken in self._taken if taken() is not None]
