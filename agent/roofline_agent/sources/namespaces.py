"""TCP connections of ranks in network namespaces of their own, as containers have; looking in takes root."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from .listing import Listing
from .sock_diag import Connection, Diag, list_connections

_AGAIN_NS = 10_000_000_000  # after a list that could not be had


def namespace_of(proc: str, pid: int) -> int:
    """Number of a process's network namespace; 0 when it has gone or cannot be seen."""
    try:
        return os.stat(f"{proc}/{pid}/ns/net").st_ino
    except OSError:
        return 0


def why_unseen(proc: str, pid: int) -> str:
    """Why the traffic of a process cannot be seen; empty when it can."""
    if namespace_of(proc, pid) in (0, namespace_of("/proc", os.getpid())):
        return ""
    try:
        Diag(f"{proc}/{pid}/ns/net").close()
    except OSError as error:
        return (
            f"not seen: the rank is in another network namespace ({error.strerror}); run the agent as root "
            "on the host, or the rank with the host's network"
        )
    return ""


class Lists:
    """The connections of all network namespaces that ranks live in."""

    def __init__(self, proc: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc, self._clock = proc, clock
        self._own = namespace_of("/proc", os.getpid())

        def ask_ours(known: Sequence[Connection]) -> list[Connection] | None:
            with contextlib.closing(Diag()) as diag:
                return diag.ask(known)

        self._ours = Listing("/proc/net/snmp", lambda: list_connections(), ask_ours)
        self._diags: dict[int, tuple[Diag, Listing]] = {}
        self._again_ns: dict[int, int] = {}  # when to try one that failed again
        self.listed: set[int] = set()  # the namespaces of the last answer

    def connections(
        self,
        places: Mapping[int, int],
        owned: Collection[int] | None = None,
        same_files: Callable[[], bool] = lambda: False,
    ) -> dict[int, Connection]:
        """By inode, which no two sockets of a machine share. places: namespace -> a process in it. owned: the
        inodes whose counts must be of now; None: of all. same_files: as of Listing.

        Raises OSError when our own cannot be listed.
        """
        for left in (self._diags.keys() | self._again_ns.keys()) - places.keys():
            self._drop(left)
            self._again_ns.pop(left, None)
        found: dict[int, Connection] = {}
        self.listed = set()
        # Our own comes last and wins: the owner of another namespace may make up what it lists.
        for namespace, pid in sorted(places.items(), key=lambda place: place[0] == self._own):
            ours = namespace == self._own
            if ours:
                listed: dict[int, Connection] | None = self._ours.connections(owned, same_files)
            else:
                listed = self._elsewhere(namespace, pid, owned, same_files)
            if listed is not None:
                self.listed.add(namespace)
                found.update(listed)
        return found

    def _elsewhere(
        self, namespace: int, pid: int, owned: Collection[int] | None, same_files: Callable[[], bool]
    ) -> dict[int, Connection] | None:
        if self._clock() < self._again_ns.get(namespace, 0):
            return None
        try:
            if namespace not in self._diags:
                diag = Diag(f"{self._proc}/{pid}/ns/net")
                listing = Listing(f"{self._proc}/{pid}/net/snmp", diag.connections, diag.ask)
                self._diags[namespace] = diag, listing
            return self._diags[namespace][1].connections(owned, same_files)
        except OSError:
            self._drop(namespace)
            self._again_ns[namespace] = self._clock() + _AGAIN_NS
            return None

    def _drop(self, namespace: int) -> None:
        if namespace in self._diags:
            diag, listing = self._diags.pop(namespace)
            diag.close()
            listing.close()

    def close(self) -> None:
        self._ours.close()
        for namespace in list(self._diags):
            self._drop(namespace)
