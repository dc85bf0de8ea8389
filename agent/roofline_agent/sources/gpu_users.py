"""Whose processes compute on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..records import Rank

MAX_ANCESTORS = 16
STRAY = 0.25  # of the memory that a rank holds on its own GPU: less elsewhere is no work


def users_of(held: Mapping[int, int | None], ranks: Sequence[Rank], proc: Path) -> dict[Rank, int | None]:
    """The ranks to which these processes belong, with the bytes of the GPU that they hold.

    held: by process; None: not known. A process belongs to the rank that it is or descends from. NVML numbers
    processes as the host does; one that cannot be seen here may still be a rank under its number in another
    PID namespace (NSpid).
    """
    by_pid = {rank.pid: rank for rank in ranks}
    hidden = {pid for pid in held if not (proc / str(pid)).exists()}
    owners = [(_rank_above(pid, by_pid, proc), pid) for pid in held if pid not in hidden]
    if hidden:
        for rank in ranks:
            numbers = {int(number) for number in _status(rank.pid, proc, "NSpid:")}
            owners += [(rank, pid) for pid in hidden & numbers]
    users: dict[Rank, int | None] = {}
    for owner, pid in owners:
        if owner is not None:
            more, before = held[pid], users.get(owner, 0)
            users[owner] = None if more is None or before is None else before + more
    return users


def without_strays(users: Mapping[str, Mapping[Rank, int | None]]) -> dict[str, frozenset[Rank]]:
    """The ranks that compute on each GPU. users: all that have memory there, by GPU, with its bytes.

    A process opens a context on the first GPU by a slip (torch.load without map_location, a collective before
    set_device) while it computes on its own. So a rank with a GPU of its own does not count on one that it
    shares and where it holds a small part of what it holds there. Where the bytes are unknown all count.
    """
    own: dict[Rank, int] = {}
    for ranks in users.values():
        for rank, size in ranks.items() if len(ranks) == 1 else ():
            own[rank] = max(own.get(rank, 0), size or 0)
    return {
        gpu: frozenset(
            rank
            for rank, size in ranks.items()
            if len(ranks) == 1 or size is None or size >= STRAY * own.get(rank, 0)
        )
        for gpu, ranks in users.items()
    }


def _rank_above(pid: int, ranks: Mapping[int, Rank], proc: Path) -> Rank | None:
    """The rank that a process is or descends from."""
    for _ in range(MAX_ANCESTORS):
        if pid in ranks or pid <= 1:
            return ranks.get(pid)
        parent = _status(pid, proc, "PPid:")
        pid = int(parent[0]) if parent else 0
    return None


def _status(pid: int, proc: Path, key: str) -> list[str]:
    with contextlib.suppress(OSError):
        for line in (proc / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith(key):
                return line.split()[1:]
    return []
