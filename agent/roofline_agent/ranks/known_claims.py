"""Which rank each process claims to be, and which were moved apart, kept over the scans of a node. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .claims import Claim, Claimed, moved_apart, rivals

# A rank that is started again may overlap with the process before for so long.
SHARED_SCANS = 4


class Moves(NamedTuple):
    """Pids of the processes that an update has made another rank."""

    apart: list[int]
    back: list[int]  # they are the rank that they claim after all


class KnownClaims:
    """Claims of the processes of one node."""

    def __init__(self) -> None:
        self._since: dict[Claim, int] = {}  # which scan
        self.moved: dict[Claim, int] = {}  # index of each process that is not the rank it claims to be
        self.rivals: dict[int, Claimed] = {}  # pid -> the rank that it and another process claim
        self._holders: dict[Claimed, int] = {}  # which of the rivals has sent the newest steps as this rank
        # Since the last update:
        self._began: set[int] = set()  # processes that have sent their first steps
        self._both_train: set[Claimed] = set()  # ranks of which several processes are seen to train

    def began(self, pid: int) -> None:
        """A process has sent its first steps."""
        self._began.add(pid)

    def holds(self, claimed: Claimed, pid: int) -> None:
        """A process sends steps as this rank, which others claim too: if one has to be another rank, they."""
        self._holders[claimed] = pid

    def both_train(self, claimed: Claimed) -> None:
        """Several processes that claim this rank train at the same time: none follows on another."""
        self._both_train.add(claimed)

    def update(self, claims: Collection[Claim], scan: int) -> Moves:
        """These are all claims, in this scan."""
        self._since = {one: self._since.get(one, scan) for one in claims}
        due = [
            one
            for one, since in self._since.items()
            if scan - since >= SHARED_SCANS or one[2:5] in self._both_train
        ]
        before = self.moved
        self.moved = moved_apart(claims, before, due, self._began, self._holders.values())
        self._began.clear()
        self._both_train.clear()
        self.rivals = rivals(claims, self.moved)
        if self._holders:
            contested = set(self.rivals.values())
            self._holders = {claimed: pid for claimed, pid in self._holders.items() if claimed in contested}
        apart = [one.pid for one in self.moved if one not in before]
        return Moves(apart, [one.pid for one in claims if one in before and one not in self.moved])
