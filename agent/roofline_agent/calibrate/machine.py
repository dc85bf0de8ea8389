"""What a calibration must know of this node beforehand, read from given /proc and /sys roots.

Caches are counted for the CPUs in use alone: only these can keep a buffer from DRAM.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.errors import CalibrationError

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Machine(NamedTuple):
    host: str
    cpu_model: str
    flags: frozenset[str]  # of /proc/cpuinfo, those that all its processors have
    cpus: tuple[int, ...]  # that this process may use, in order
    last_level_cache_bytes: int | None  # of these CPUs together; None if the system doesn't say
    available_bytes: int  # memory to be had without swapping


def this_machine(proc: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> Machine:
    """Raises CalibrationError where the kernels can't run or /proc is unreadable."""
    require_x86_64_linux(sys.platform, platform.machine(), ctypes.sizeof(ctypes.c_void_p))
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    return read_machine(proc, sys_root, cpus, os.uname().nodename)


def require_x86_64_linux(system: str, architecture: str, pointer_bytes: int) -> None:
    if system == "linux" and architecture in ("x86_64", "amd64") and pointer_bytes == 8:
        return
    raise CalibrationError(
        f"no ceilings measured: the measuring code is x86-64 for 64-bit Python on Linux, and this is "
        f"{8 * pointer_bytes}-bit Python on {system} {architecture} (aarch64 is not supported yet); "
        "state the ceilings of this machine by hand instead"
    )


def read_machine(proc: Path, sys_root: Path, cpus: tuple[int, ...], host: str) -> Machine:
    cpuinfo = _read(proc / "cpuinfo")
    return Machine(
        host=host,
        cpu_model=cpu_model(cpuinfo),
        flags=cpu_flags(cpuinfo),
        cpus=cpus,
        last_level_cache_bytes=last_level_cache_bytes(sys_root, cpus),
        available_bytes=available_bytes(_read(proc / "meminfo")),
    )


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The flags that all processors of a /proc/cpuinfo have; a thread may be pinned to any of them."""
    each = {value for key, value in _fields(cpuinfo) if key == "flags"}
    if not each:
        raise CalibrationError("/proc/cpuinfo lists no CPU flags, so no instruction is known to be safe")
    return frozenset.intersection(*(frozenset(flags.split()) for flags in each))


def cpu_model(cpuinfo: str) -> str:
    return next((value for key, value in _fields(cpuinfo) if key == "model name"), "")


def available_bytes(meminfo: str) -> int:
    """MemAvailable of a /proc/meminfo."""
    for key, value in _fields(meminfo):
        if key == "MemAvailable":
            return int(value.removesuffix("kB")) * 1024
    raise CalibrationError("/proc/meminfo has no MemAvailable, so no safe size of a buffer is known")


def last_level_cache_bytes(sys_root: Path, cpus: Iterable[int]) -> int | None:
    """The last-level caches of these CPUs together, one shared by several counted once.

    None if any of the CPUs has no cache in sysfs, as in some virtual machines: a part would pass for all.
    """
    caches: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        cache = _last_cache(sys_root / f"devices/system/cpu/cpu{cpu}/cache")
        if cache is None:
            return None
        level, sharers, size = cache
        caches[level, sharers] = size
    return sum(caches.values()) or None


def _last_cache(directory: Path) -> tuple[int, str, int] | None:
    """Level, CPUs that share it and bytes of the outermost cache below cpuN/cache."""
    try:
        caches = [
            (int(_line(index / "level")), _line(index / "shared_cpu_list"), parse_size(_line(index / "size")))
            for index in directory.glob("index[0-9]*")
            if _line(index / "type") != "Instruction"
        ]
    except (OSError, ValueError):
        return None
    return max(caches, default=None)


def parse_size(text: str) -> int:
    """Bytes of a sysfs size such as "491520K". Raises ValueError."""
    if text[-1:] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    return int(text)


def _fields(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CalibrationError(f"can't read {path}: {error.strerror}; is /proc mounted?") from error


def _line(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
