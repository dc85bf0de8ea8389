"""Which processes of a node are to be looked at in a scan: new and young ones, now and then the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .candidates import Candidate
from .processes import Processes

# A process is looked at again while young: between fork and exec it shows its parent's variables.
YOUNG_SCANS = 4
# A shell may set the variables itself and then become the training: all are looked at again now and then.
LOOK_AGAIN_SCANS = 16
LIST_AGAIN_SCANS = 8  # though no new process seems to have begun


class ScannedProcesses:
    """The processes of one node, and how often they were looked at."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.scan = 0  # its number
        self._newest: bytes | None = None  # process at the last listing
        self._young: dict[int, int] = {}  # pid -> how often it was looked at
        self._settled: set[int] = set()  # looked at often enough
        self._of_kernel: set[int] = set()

    def known(self) -> set[int]:
        """Those that were looked at."""
        return self._young.keys() | self._settled | self._of_kernel

    def listed(self) -> set[int] | None:
        """All processes that run now; None: they need no listing, as none has begun since the last one."""
        newest = self._processes.newest()
        # Listed now and then even so: a pid may be used again, and a process that has gone must not stay.
        if newest is not None and newest == self._newest and self.scan % LIST_AGAIN_SCANS:
            return None
        self._newest = newest
        return self._processes.pids()

    def due(self, candidates: Mapping[int, Candidate]) -> list[int]:
        """Those to be looked at again: launchers always, processes that carry no identity now and then, ranks
        never."""
        turn = -self.scan % LOOK_AGAIN_SCANS
        due = [p for p in self._settled if p % LOOK_AGAIN_SCANS == turn and p not in candidates]
        due += [c.pid for c in candidates.values() if c.launcher and c.pid in self._settled]
        return due

    def young(self, new: Iterable[int]) -> Iterator[int]:
        """Those that are young, and the new ones but for threads of the kernel: they are looked at now."""
        for pid in (*self._young, *new):
            looks = self._young.get(pid, 0) + 1
            if looks == 1 and (status := self._processes.status(pid)) is not None and status.of_kernel:
                self._of_kernel.add(pid)
                continue
            if looks < YOUNG_SCANS:
                self._young[pid] = looks
            else:
                self.settle(pid)
            yield pid

    def settle(self, pid: int) -> None:
        """It needs not be looked at as a young one any more."""
        self._young.pop(pid, None)
        self._settled.add(pid)

    def forget(self, pid: int) -> None:
        """A process has gone."""
        self._young.pop(pid, None)
        self._settled.discard(pid)
        self._of_kernel.discard(pid)
