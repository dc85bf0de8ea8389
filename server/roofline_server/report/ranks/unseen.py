"""Ranks that a job has and nobody saw: agents do not run on their nodes."""

from __future__ import annotations

from typing import NamedTuple

from ...records import RECORDED
from ...store.view import JobView, once
from .members import latest_process, role_order, world_of

NAMED = 64  # ranks of a role that are told one by one


class Unseen(NamedTuple):
    """Of a role whose ranks know how many they are, some were not seen."""

    role: str
    missing: int
    world: int  # of all
    ranks: tuple[str, ...]  # those not seen; of many the first


@once
def unseen_ranks(view: JobView) -> list[Unseen]:
    """By role. Ranks of recorded files, and those that do not know how many they are, tell of no others."""
    worlds: dict[str, int] = {}
    indices: dict[str, set[int]] = {}
    for number, key in view.ranks.items():
        indices.setdefault(key.role, set()).add(key.index)
        process = latest_process(view, number)
        if process is not None and process.framework != RECORDED:
            worlds[key.role] = max(worlds.get(key.role, 0), world_of(view, number))
    found = []
    for role in sorted(worlds, key=role_order):
        seen, world = indices[role], worlds[role]
        if len(seen) < world:
            names = [f"{role}:{index}" for index in range(world) if index not in seen]
            found.append(Unseen(role, world - len(seen), world, tuple(names[:NAMED])))
    return found
