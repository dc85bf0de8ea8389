"""The variables that processes were started with, also when they have written a title over them.

setproctitle puts its text where the kernel shows a process's arguments and variables, and fills the rest with
NULs. What was read before such a title is kept for processes that carry an identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from roofline_step.variables import is_overwritten

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
        return (self._known(pid) or data) if is_overwritten(data) else data

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

    def suppose(self, pid: int, variables: Mapping[str, str]) -> None:
        """What a process says that it was started with, which counts if a title stands there and nothing was
        read before. Raises OSError when it has gone or is not ours to read."""
        status = self._processes.status(pid)
        if status is None or self._known(pid) is not None or not is_overwritten(self._processes.environ(pid)):
            return
        data = b"".join(f"{name}={text}\0".encode(errors="replace") for name, text in variables.items())
        self._kept[pid] = _Kept(status.start_ticks, self._processes.owner(pid), data)

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
