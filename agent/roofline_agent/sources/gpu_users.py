"""Whose processes compute on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..records import Rank

MAX_ANCESTORS = 16


def users_of(pids: Sequence[int], ranks: Sequence[Rank], proc: Path) -> frozenset[Rank]:
    """The ranks to which these processes belong.

    A process belongs to the rank that it is or descends from. NVML numbers processes as the host does; one
    that cannot be seen here may still be a rank under its number in another PID namespace (NSpid).
    """
    by_pid = {rank.pid: rank for rank in ranks}
    visible = [pid for pid in pids if (proc / str(pid)).exists()]
    hidden = set(pids) - set(visible)
    users = {_rank_above(pid, by_pid, proc) for pid in visible}
    if hidden:
        for rank in ranks:
            if hidden & {int(number) for number in _status(rank.pid, proc, "NSpid:")}:
                users.add(rank)
    return frozenset(rank for rank in users if rank is not None)


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
