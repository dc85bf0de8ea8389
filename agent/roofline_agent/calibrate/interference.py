"""What else holds a calibration back: other processes, other guests of the host, a limit of the cgroup."""

from __future__ import annotations

import os
import resource
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from roofline_agent.sources import cgroup_tree
from roofline_agent.sources.cgroup_tree import CgroupLevel
from roofline_agent.sources.files import as_number, numbers_by_word, read_once

_OTHERS_TO_MENTION, _OTHERS_TO_DOUBT, _STOLEN_TO_MENTION = 0.03, 0.1, 0.01
_IDLE = (3, 4)  # idle and iowait among the columns of /proc/stat
_STOLEN = 7
_COLUMNS = 8  # what follows, guest time, is in user time already


class CpuTimes(NamedTuple):
    """Seconds that some CPUs spent since boot, together."""

    total: float
    idle: float
    stolen: float
    ours: float  # of this process and the children it has waited for


def cpu_times(cpus: tuple[int, ...], proc: Path = Path("/proc")) -> CpuTimes | None:
    """None where /proc/stat cannot be read."""
    try:
        text = (proc / "stat").read_text(encoding="ascii")
        wanted = {f"cpu{cpu}" for cpu in cpus}
        lines = [line.split() for line in text.splitlines()]
        rows = [map(int, numbers[:_COLUMNS]) for name, *numbers in lines if name in wanted]
        ticks = [sum(column) / os.sysconf("SC_CLK_TCK") for column in zip(*rows, strict=True)]
    except (OSError, ValueError):
        return None
    if len(ticks) < _COLUMNS:
        return None
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ours = sum(u.ru_utime + u.ru_stime for u in used)
    return CpuTimes(sum(ticks), sum(ticks[i] for i in _IDLE), ticks[_STOLEN], ours)


def taken_by_others(before: CpuTimes | None, after: CpuTimes | None) -> str:
    """That others took much of the CPUs meanwhile, in a few words; empty: not so, or not known."""
    others = _shares(before, after)[0]
    return f"other processes took {others:.0%} of the CPUs meanwhile" if others > _OTHERS_TO_DOUBT else ""


def disturbance(before: CpuTimes | None, after: CpuTimes | None) -> tuple[str, ...]:
    """What took the CPUs meanwhile, in words; empty: nothing worth saying, or not known."""
    others, stolen = _shares(before, after)
    notes = []
    if others > _OTHERS_TO_MENTION:
        notes.append(
            f"the node was busy: other processes took {others:.0%} of the CPUs meanwhile, so a ceiling may "
            "be too low; calibrate again while it is idle"
        )
    if stolen > _STOLEN_TO_MENTION:
        notes.append(f"the host gave {stolen:.0%} of this virtual machine's time to others meanwhile")
    return tuple(notes)


def _shares(before: CpuTimes | None, after: CpuTimes | None) -> tuple[float, float]:
    """What others, and other guests of the host, had of the CPUs' time; 0 where not known."""
    if before is None or after is None or after.total <= before.total:
        return 0.0, 0.0
    total = after.total - before.total
    stolen = after.stolen - before.stolen
    busy = total - (after.idle - before.idle) - stolen
    return (busy - (after.ours - before.ours)) / total, stolen / total


def cpu_limit(proc: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> float | None:
    """How many CPUs' time the cgroup of this process may use at once; None: no limit is known."""
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found: list[float] = []
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        for above in (PurePosixPath(path), *PurePosixPath(path).parents):
            inside = str(above).lstrip("/")
            if not controllers:
                # Version 2: "150000 100000", or "max 100000".
                found += _ratio(_words(sys_root / "fs/cgroup" / inside / "cpu.max"))
            elif "cpu" in controllers.split(","):
                folder = sys_root / "fs/cgroup/cpu" / inside
                found += _ratio(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))
    return min(found, default=None)


def _ratio(words: list[str]) -> list[float]:
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return []
    return [int(words[0]) / int(words[1])]


def memory_room(proc: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> int | None:
    """Bytes that this process may still take under the limits of all cgroups above it; None: none is known.

    A limit less what is held, of which file pages that nobody uses any more do not count: they give way.
    """
    mounts = cgroup_tree.parse_mounts(
        read_once(f"{proc}/self/mountinfo", 1 << 20, is_list=True), str(sys_root)
    )
    memberships = cgroup_tree.parse_membership(read_once(f"{proc}/self/cgroup", 1 << 16))
    above = cgroup_tree.levels(mounts, memberships, "memory")
    return min((room for level in above if (room := _room(level)) is not None), default=None)


def _room(level: CgroupLevel) -> int | None:
    limit = cgroup_tree.memory_limit(level)
    held = as_number(level.read("memory.current" if level.unified else "memory.usage_in_bytes"))
    if limit is None or held is None:
        return None
    idle_files = b"inactive_file" if level.unified else b"total_inactive_file"
    gives_way = numbers_by_word(level.read("memory.stat")).get(idle_files, 0)
    return max(0, limit - max(0, held - gives_way))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []
