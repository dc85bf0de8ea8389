"""The variables that processes were started with, also when they have written a title over them.

setproctitle puts its text where the kernel shows a process's arguments and variables, and fills the rest with
NULs. What was read before such a title is kept for processes that carry an identity.
"""

from __future__ import annotations

from typing import NamedTuple

from .processes import Processes, parse_environ


class _Kept(NamedTuple):
    start_ticks: int
    uid: int
    data: bytes


class Environments:
    """Reads variables from /proc, or has them from before."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._kept: dict[int, _Kept] = {}

    def read(self, pid: int) -> bytes:
        """For `parse_environ`. Raises OSError when it has gone or is not ours to read."""
        try:
            data = self._processes.environ(pid)
        except OSError:
            kept = self._known(pid)
            if kept is None:
                raise
            return kept
        return (self._known(pid) or data) if _is_overwritten(data) else data

    def variables(self, pid: int) -> dict[str, str]:
        """None when it has gone or is not ours to read."""
        try:
            return parse_environ(self.read(pid))
        except OSError:
            return {}

    def keep(self, pid: int, start_ticks: int, uid: int, data: bytes, parent: int) -> None:
        """Keep what was read of a process; parent: a child has the same as a rule, which is kept once."""
        above = self._kept.get(parent)
        self._kept[pid] = _Kept(start_ticks, uid, above.data if above and above.data == data else data)

    def forget(self, pid: int) -> None:
        """A process has gone."""
        self._kept.pop(pid, None)

    def _known(self, pid: int) -> bytes | None:
        kept = self._kept.get(pid)
        status = self._processes.status(pid) if kept is not None else None
        if kept is None or status is None or status.start_ticks != kept.start_ticks:
            return None
        # The same process may have become a program of another user.
        return kept.data if self._processes.owner(pid) == kept.uid else None


def _is_overwritten(data: bytes) -> bool:
    """Whether a title stands there. The kernel ends the last variable with a single NUL."""
    return data == b"\0" or data.endswith(b"\0\0")
