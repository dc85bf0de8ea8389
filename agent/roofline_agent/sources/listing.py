"""The TCP connections of one network namespace, known by a walk through the kernel's table only when one may
have been opened.

The cost of a walk follows the table's size, which follows the machine's memory: about 1 ms of CPU for 256 Ki
entries, however few are in use. The kernel counts in /proc/net/snmp what it opens (RFC 4022); while that
count does not change, all connections are known, and those of the ranks are asked for one by one. If other
programs open connections all the time, a walk waits as long as no rank has opened a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from .files import KeptFile
from .sock_diag import CLOSE_WAIT, ESTABLISHED, MAX_ASKED, SYN_SENT, Connection

Walk = Callable[[], Sequence[Connection]]
Ask = Callable[[Sequence[Connection]], Sequence[Connection] | None]


def parse_opened(text: bytes | None) -> int | None:
    """Connections opened so far, from either side, from /proc/net/snmp; None where it does not say."""
    lines = [line.split()[1:] for line in (text or b"").splitlines() if line.startswith(b"Tcp:")]
    if len(lines) != 2:
        return None
    values = dict(zip(*lines, strict=False))
    try:
        return int(values[b"ActiveOpens"]) + int(values[b"PassiveOpens"])
    except (KeyError, ValueError):
        return None


class Listing:
    """The known connections of one namespace."""

    def __init__(self, snmp: str, walk: Walk, ask: Ask) -> None:
        """snmp: a path of its /proc/net/snmp. walk, ask: as of sock_diag's Diag, which may raise OSError."""
        self._snmp = KeptFile(snmp, 8192)
        self._walk, self._ask = walk, ask
        self._answers = True  # to questions for one connection; else there are walks alone
        self._opened: int | None = None  # before the last walk
        self._settled = False  # the last walk has shown all that was opened before it
        self._again = True  # a rank may have a connection that the last walk has not shown
        self._known: dict[int, Connection] = {}

    def connections(
        self, owned: Collection[int] | None, same_files: Callable[[], bool] = lambda: False
    ) -> dict[int, Connection]:
        """By inode. owned: those whose counts must be of now; None: all.

        same_files: whether no rank has opened a file since it was last called.
        """
        opened = parse_opened(self._snmp.read())
        nothing_new = self._settled and opened is not None and opened == self._opened
        same = nothing_new or same_files()
        wanted: list[Connection] = []
        if owned is not None and (nothing_new or (same and not self._again)):
            wanted = [self._known[inode] for inode in owned if inode in self._known]
            if self._update(wanted):
                return self._known

        found = self._walk()
        # What was counted just before may have been put into the table just after.
        opening = any(map(_is_opening, found))
        self._settled = opened == self._opened and not opening
        self._again = not same or opening
        self._opened = opened
        self._known = by_inode(found)
        if wanted and all(one.inode in self._known for one in wanted):
            self._answers = False  # the kernel answered that one is gone, and it is listed still
        return self._known

    def _update(self, wanted: Sequence[Connection]) -> bool:
        """Ask for each of these; True when all have answered, and are known as they are now."""
        if not wanted:
            return True
        if not self._answers or len(wanted) > MAX_ASKED:
            return False
        found = self._ask(wanted)
        if found is None:
            return False
        self._known.update((one.inode, one) for one in found)
        return True

    def close(self) -> None:
        self._snmp.close()


def _is_opening(one: Connection) -> bool:
    """Counted as opened, and nobody's yet: its answer is awaited, or it waits to be accepted."""
    return one.state == SYN_SENT or (not one.inode and one.state in (ESTABLISHED, CLOSE_WAIT))


def by_inode(found: Iterable[Connection]) -> dict[int, Connection]:
    """Connections that some process has open and that are connected; no two sockets of a machine share a
    number."""
    return {one.inode: one for one in found if one.inode and one.state != SYN_SENT}
