"""Several processes of a node that say at the same time that they are one rank are kept apart. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

Claimed = tuple[str, str, int]  # job, role, index


class Claim(NamedTuple):
    """A process says that it is a rank; claims are ordered by its start."""

    start_ticks: int
    pid: int
    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    world: int = 0  # ranks of its kind, on all nodes; 0: not known


class Owned(NamedTuple):
    """A process of a user says that it is of a job; ordered by its start."""

    start_ticks: int
    pid: int
    job: str
    uid: int


def owners_of(processes: Iterable[Owned], before: Mapping[str, int]) -> dict[str, int]:
    """The user of each job: that of its oldest process, as long as it has any. before: as it was."""
    users: dict[str, list[int]] = {}
    for one in sorted(processes):
        users.setdefault(one.job, []).append(one.uid)
    return {job: before[job] if before.get(job) in uids else uids[0] for job, uids in users.items()}


def moved_apart(
    claims: Iterable[Claim],
    before: Mapping[Claim, int],
    due: Collection[Claim],
    began: Collection[int] = (),
    holders: Collection[int] = (),
) -> dict[Claim, int]:
    """The index of each process that is not the rank it claims to be.

    Of several one is that rank: the one that sends its steps, else the oldest; each other gets the first
    index behind the ranks of all nodes that nobody claims, and keeps it. before: the indices that were given.
    due: claims that are old enough; a younger one may be the successor of a process that is about to end.
    began: pids of processes that have sent their first step: if the one that was the rank is none, they are.
    holders: pids of processes that send the steps of the rank they claim.
    """
    groups: dict[Claimed, list[Claim]] = {}
    used: dict[tuple[str, str], set[int]] = {}
    worlds: dict[tuple[str, str], int] = {}  # the largest: a step inside a job has a small one of its own
    for claim in sorted(claims):
        groups.setdefault(claim[2:5], []).append(claim)
        used.setdefault(claim[2:4], set()).add(claim.index)
        worlds[claim[2:4]] = max(claim.world, worlds.get(claim[2:4], 0))
    moved = {claim: before[claim] for group in groups.values() for claim in group if claim in before}
    for claim, index in moved.items():
        used[claim[2:4]].add(index)
    for group in groups.values():
        first = next((one for one in group if one.pid in began), None)
        if first is not None and all(one in moved for one in group):
            del moved[first]
        here = sorted((one for one in group if one not in moved), key=lambda one: one.pid not in holders)
        for claim in here[1:]:
            if claim in due and here[0] in due:
                taken = used[claim[2:4]]
                free = itertools.count(worlds[claim[2:4]])
                moved[claim] = next(number for number in free if number not in taken)
                taken.add(moved[claim])
    return moved


def rivals(claims: Iterable[Claim], moved: Collection[Claim]) -> dict[int, Claimed]:
    """pid -> the rank it claims, of processes that claim the same and were not moved."""
    groups: dict[Claimed, list[int]] = {}
    for claim in claims:
        if claim not in moved:
            groups.setdefault(claim[2:5], []).append(claim.pid)
    return {pid: claimed for claimed, pids in groups.items() if len(pids) > 1 for pid in pids}
