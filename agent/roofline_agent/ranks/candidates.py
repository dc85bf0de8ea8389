"""Processes that carry an identity, and which of them are ranks. Pure logic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from .claims import Claim
from .identity import NO_JOB, Identity

# What has these variables may as well be a program that starts ranks, by a launcher of its own.
_OF_STARTERS_TOO = ("slurm", "roofline", "kubernetes")


class Candidate(NamedTuple):
    """A process that carries an identity."""

    pid: int
    parent: int
    start_ticks: int
    uid: int
    launcher: bool
    identity: Identity
    # As its environment has it, which a process inherits; the identity is another if it reported one itself.
    outside: Identity | None = None
    reported: bool = False
    named: bool = False  # the user or the scheduler has named its job
    helper: bool = False  # a process of the program that started it
    by_hand: bool = False  # started in a terminal of a step of Slurm's, which alone makes it a rank

    @property
    def claim(self) -> Claim:
        """Which process says that it is which rank."""
        return Claim(self.start_ticks, self.pid, *self.identity[:4])

    def belongs_to(self, above: Candidate) -> bool:
        """Whether it has its identity from this process above it."""
        if self.reported:
            return False
        if above.identity == self.identity or (above.reported and above.outside == self.outside):
            return True
        # A process that has written its title over its environment (Ray's do) has lost a part of it.
        return self.identity.job == NO_JOB and self.identity[1:3] == above.identity[1:3]


def is_child(candidate: Candidate, candidates: Mapping[int, Candidate]) -> bool:
    """Whether it has its identity from a process above it that is no launcher, or is a part of a launcher."""
    above = candidates.get(candidate.parent)
    if candidate.helper and above is not None and candidate.belongs_to(above):
        return True  # of a launcher, too
    while above is not None and above.launcher and candidate.belongs_to(above):
        above = candidates.get(above.parent)
    return above is not None and candidate.belongs_to(above)


def starters_among(candidates: Mapping[int, Candidate]) -> Iterator[int]:
    """Processes that have started others which report that they are ranks."""
    for candidate in candidates.values():
        above = candidates.get(candidate.parent) if candidate.reported else None
        while above is not None:
            if not above.reported and above.identity == candidate.outside:
                yield above.pid
            above = candidates.get(above.parent)


def starters_of_launched(candidates: Mapping[int, Candidate]) -> Iterator[int]:
    """Processes that have started others to which a launcher has given a rank of their own."""
    for one in candidates.values():
        is_launched = one.outside is not None and one.outside.framework not in _OF_STARTERS_TOO
        above = candidates.get(one.parent) if is_launched else None
        while above is not None:
            of_starter = above.outside is not None and above.outside.framework in _OF_STARTERS_TOO
            if of_starter and not (above.launcher or above.reported) and above.uid == one.uid:
                yield above.pid
            above = candidates.get(above.parent)


def tools_beside(candidates: Mapping[int, Candidate], training: Collection[int]) -> Iterator[int]:
    """Processes that a user has started by hand in a step of Slurm's in which another trains: htop, vim."""
    known = [candidates[pid] for pid in training if pid in candidates]
    claimed = {(one.identity, one.uid) for one in known}
    for one in candidates.values():
        if one.by_hand and (one.identity, one.uid) in claimed and one.pid not in training:
            yield one.pid


def idle_above(one: Candidate, candidates: Mapping[int, Candidate], training: Collection[int]) -> list[int]:
    """Processes that have only started this one, which trains: they have its identity, and train nothing.
    None if it belongs to one that trains."""
    idle = []
    above = candidates.get(one.parent)
    while above is not None and one.belongs_to(above):
        if above.pid in training:
            return []
        if not above.launcher:
            idle.append(above.pid)
        above = candidates.get(above.parent)
    return idle
