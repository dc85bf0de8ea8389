"""Which cgroups hold a process, and which of them holds it back: mounts, memberships, limits.

Reads versions 1 and 2, also mixed (cgroups(7)), and in containers, where a mount shows a part of the tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .files import as_number, read_once

_MAX_DEPTH = 32
_UNLIMITED = 1 << 60  # v1 writes the largest multiple of a page


class Mount(NamedTuple):
    """Where a hierarchy of cgroups is mounted."""

    unified: bool  # cgroup v2
    controllers: frozenset[str]  # of v1
    root: str  # the cgroup that is seen at `point`
    point: str


def parse_mounts(text: bytes | None, sys: str) -> list[Mount]:
    """The cgroup mounts in /proc/PID/mountinfo (proc_pid_mountinfo(5)); `sys` is where /sys is to be read."""
    found = []
    for line in (text or b"").decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        if len(words) >= 5 and len(kind) >= 3 and kind[0] in ("cgroup", "cgroup2"):
            point = sys + words[4][4:] if words[4].startswith("/sys/") else words[4]
            found.append(Mount(kind[0] == "cgroup2", frozenset(kind[2].split(",")), words[3], point))
    return found


def parse_membership(text: bytes | None) -> list[tuple[frozenset[str], str]]:
    """(controllers, path) of each line of /proc/PID/cgroup; of v2 without controllers."""
    found = []
    for line in (text or b"").decode(errors="replace").splitlines():
        words = line.split(":", 2)
        if len(words) == 3 and words[2].startswith("/"):
            found.append((frozenset(words[1].split(",") if words[1] else ()), words[2]))
    return found


class CgroupLevel(NamedTuple):
    """A cgroup above a process: its directory, and its path below the mount."""

    directory: str
    path: str
    unified: bool

    @property
    def is_root(self) -> bool:
        # Of v2 only the root lacks this file; of v1 a container's own "/" cannot be distinguished from it.
        return self.path == "/" and not os.path.exists(f"{self.directory}/cgroup.type")

    def read(self, name: str) -> bytes | None:
        return read_once(f"{self.directory}/{name}", 4096)


def levels(
    mounts: Sequence[Mount], memberships: Iterable[tuple[frozenset[str], str]], controller: str
) -> list[CgroupLevel]:
    """The cgroups above a process that may hold a controller, innermost first; none where out of sight."""
    # A controller that v1 has is absent from v2.
    for controllers, path in sorted(memberships, key=lambda member: not member[0]):
        unified = not controllers
        for mount in mounts:
            if mount.unified == unified and (unified or controller in controllers & mount.controllers):
                below = _below(mount.root, path)
                if below is None:
                    continue
                words = [word for word in below.split("/") if word][:_MAX_DEPTH]
                paths = ["/" + "/".join(words[:count]) for count in range(len(words), -1, -1)]
                return [CgroupLevel((mount.point + at).rstrip("/"), at, mount.unified) for at in paths]
    return []


def _below(root: str, path: str) -> str | None:
    """The path below a mount's root; ".." is what a namespace shows of cgroups outside it."""
    if "/.." in path:
        return None
    if root == "/":
        return path
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(f"{root}/") else None


def why_unseen(proc: str, pid: int) -> str:
    """Why the cgroups of a process cannot be seen; empty when nothing speaks against it."""
    members = sorted(parse_membership(read_once(f"{proc}/{pid}/cgroup")), key=lambda member: not member[0])
    for controller in ("cpu", "memory"):
        places = [path for controllers, path in members if not controllers or controller in controllers]
        if places and places[0].startswith("/.."):
            return (
                "not seen: the agent is in a cgroup namespace of its own, and the rank outside it; give the "
                "agent the host's (--cgroupns=host, in compose cgroup: host; Kubernetes has no such setting)"
            )
    return ""


def cpu_limit(level: CgroupLevel) -> float | None:
    """Cores that the tasks of a cgroup may keep busy on average."""
    if level.unified:
        quota, _, period = (level.read("cpu.max") or b"").partition(b" ")
    else:
        quota = level.read("cpu.cfs_quota_us") or b""
        period = level.read("cpu.cfs_period_us") or b""
    allowed, every = as_number(quota), as_number(period)
    return allowed / every if allowed and every and min(allowed, every) > 0 else None


def memory_limit(level: CgroupLevel) -> int | None:
    """Bytes that the tasks of a cgroup may hold."""
    limit = as_number(level.read("memory.max" if level.unified else "memory.limit_in_bytes"))
    return limit if limit is not None and limit < _UNLIMITED else None


def holding(
    found: Sequence[CgroupLevel], limit_of: Callable[[CgroupLevel], float | None]
) -> tuple[CgroupLevel | None, float | None]:
    """The cgroup with the lowest limit, and the limit; without any limit the innermost, if it is no root."""
    limits = [(limit, at) for at, level in enumerate(found) if (limit := limit_of(level)) is not None]
    if limits:
        lowest, at = min(limits)
        return found[at], lowest
    if found and not found[0].is_root:
        return found[0], None
    return None, None
