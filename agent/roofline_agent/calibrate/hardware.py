"""What a calibration must know of this node's CPUs and memory, read from given /proc and /sys roots.

Caches and cores are counted for the CPUs in use alone: only these can keep a buffer from DRAM.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.interference import cpu_limit, memory_room
from roofline_agent.machine import cpu_name

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Cache(NamedTuple):
    """One data or unified cache; the same one under each of the CPUs that share it."""

    level: int
    size: int  # bytes
    cpus: frozenset[int]  # that share it, also those not in use


class Hardware(NamedTuple):
    """The CPUs that this process may use, their caches, and the memory."""

    host: str
    cpu_model: str
    flags: frozenset[str]  # of /proc/cpuinfo ("Features" on Arm), those that all its processors have
    cpus: tuple[int, ...]  # that this process may use, in order
    caches: tuple[Cache, ...]  # of these CPUs; empty if not known
    available_bytes: int  # memory to be had without swapping, and within the limits of its cgroups
    vendor: str = ""  # vendor_id of /proc/cpuinfo: "GenuineIntel"; on Arm the implementer: "0x41"
    family: int = 0  # on Arm the version of the architecture
    model: int = 0  # on Arm the part number
    cores: int = 0  # physical ones among the CPUs; 0: not known
    sockets: int = 0
    core_of: tuple[int, ...] = ()  # for each of `cpus` the number of its core; empty: not known
    node_cpus: int = 0  # online ones, whether this process may use them or not; 0: not known
    cpu_limit: float | None = None  # how many CPUs' time its cgroup grants; None: all that it may use
    architecture: str = "x86_64"  # as uname has it

    @property
    def last_level_cache_bytes(self) -> int | None:
        """The last-level caches of these CPUs together; None if not known."""
        last = max((cache.level for cache in self.caches), default=0)
        return sum(cache.size for cache in self.caches if cache.level == last) or None

    @property
    def is_part(self) -> bool:
        """Whether the node has CPUs that this process may not use (an affinity, a cpuset)."""
        return len(self.cpus) < self.node_cpus

    @property
    def granted(self) -> float:
        """The share of these CPUs' time that the cgroup grants."""
        return 1.0 if self.cpu_limit is None else min(1.0, self.cpu_limit / len(self.cpus))

    @property
    def is_virtual(self) -> bool:
        return "hypervisor" in self.flags


def this_hardware() -> Hardware:
    """Raises CalibrationError where no kernels can run or /proc is unreadable."""
    proc, sys_root = Path("/proc"), Path("/sys")
    require_64_bit_linux(sys.platform, platform.machine(), ctypes.sizeof(ctypes.c_void_p))
    limit = cpu_limit(proc, sys_root)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    if limit is not None and limit >= len(cpus):
        limit = None
    if limit is not None:
        cpus = enough(cpus, limit, partial(_core, sys_root))
    found = read_hardware(proc, sys_root, cpus, os.uname().nodename)
    return found._replace(cpu_limit=limit, architecture=platform.machine())


def enough(
    cpus: tuple[int, ...], limit: float, core_of: Callable[[int], tuple[str, str] | None]
) -> tuple[int, ...]:
    """As many of the CPUs as a limit can keep busy, of different cores where there are as many."""
    first_of: dict[object, int] = {}
    for cpu in cpus:
        first_of.setdefault(core_of(cpu) or cpu, cpu)
    of_cores = list(first_of.values())
    others = [cpu for cpu in cpus if cpu not in of_cores]
    return tuple(sorted([*of_cores, *others][: max(1, math.ceil(limit))]))


def require_64_bit_linux(system: str, architecture: str, pointer_bytes: int) -> None:
    if system == "linux" and pointer_bytes == 8:
        return
    raise CalibrationError(
        f"no ceilings measured: the measuring code is for 64-bit Python on Linux, and this is "
        f"{8 * pointer_bytes}-bit Python on {system} {architecture}; "
        "import a result of STREAM, likwid-bench or ERT instead (roofline-agent import)"
    )


def read_hardware(proc: Path, sys_root: Path, cpus: tuple[int, ...], host: str) -> Hardware:
    cpuinfo = _read(proc / "cpuinfo")
    cores = [_core(sys_root, cpu) for cpu in cpus]
    known = None not in cores
    room = memory_room(proc, sys_root)
    available = available_bytes(_read(proc / "meminfo"))
    try:
        node_cpus = len(parse_cpus(_line(sys_root / "devices/system/cpu/online")))
    except (OSError, ValueError):
        node_cpus = 0
    # A field has one or two names in cpuinfo (x86, Arm), and a value for where the system does not have it.
    return Hardware(
        host=host,
        cpu_model=cpu_name(cpuinfo),
        flags=cpu_flags(cpuinfo),
        cpus=cpus,
        caches=caches(sys_root, cpus),
        available_bytes=available if room is None else min(available, room),
        vendor=first(cpuinfo, "vendor_id") or first(cpuinfo, "CPU implementer"),
        family=_number(first(cpuinfo, "cpu family") or first(cpuinfo, "CPU architecture")),
        model=_number(first(cpuinfo, "model") or first(cpuinfo, "CPU part")),
        cores=len(set(cores)) if known else 0,
        sockets=len({core[0] for core in cores if core}) if known else 0,
        core_of=tuple(cores.index(core) for core in cores) if known else (),
        node_cpus=node_cpus,
    )


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The flags that all processors of a /proc/cpuinfo have; a thread may be pinned to any of them."""
    each = {value for key, value in _fields(cpuinfo) if key in ("flags", "Features")}
    if not each:
        return frozenset()
    return frozenset.intersection(*(frozenset(flags.split()) for flags in each))


def first(cpuinfo: str, wanted: str) -> str:
    """What the first processor of a /proc/cpuinfo has behind this key."""
    return next((value for key, value in _fields(cpuinfo) if key == wanted), "")


def available_bytes(meminfo: str) -> int:
    """MemAvailable of a /proc/meminfo."""
    for key, value in _fields(meminfo):
        if key == "MemAvailable":
            return int(value.removesuffix("kB")) * 1024
    raise CalibrationError("/proc/meminfo has no MemAvailable, so no safe size of a buffer is known")


def caches(sys_root: Path, cpus: Iterable[int]) -> tuple[Cache, ...]:
    """The data caches of these CPUs, inner levels first, one shared by several once.

    None at all if any of the CPUs has none in sysfs, as in some virtual machines: a part would pass for all.
    """
    found: set[Cache] = set()
    for cpu in cpus:
        of_cpu = []
        try:
            for index in (sys_root / f"devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"):
                if _line(index / "type") == "Instruction":
                    continue
                level, size = int(_line(index / "level")), parse_size(_line(index / "size"))
                of_cpu.append(Cache(level, size, parse_cpus(_line(index / "shared_cpu_list"))))
        except (OSError, ValueError):
            return ()
        if not of_cpu:
            return ()
        found.update(of_cpu)
    return tuple(sorted(found, key=lambda cache: (cache.level, min(cache.cpus))))


def _core(sys_root: Path, cpu: int) -> tuple[str, str] | None:
    """Socket and core of a CPU; None if sysfs has none. Where a socket has several dies or clusters, a
    kernel may number the cores of each anew."""
    directory = sys_root / f"devices/system/cpu/cpu{cpu}/topology"
    try:
        inside = [_line(path) for name in ("die_id", "cluster_id") if (path := directory / name).exists()]
        return _line(directory / "physical_package_id"), ".".join([*inside, _line(directory / "core_id")])
    except OSError:
        return None


def parse_size(text: str) -> int:
    """Bytes of a sysfs size such as "491520K". Raises ValueError."""
    if text[-1:] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    return int(text)


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a sysfs list such as "0-3,8". Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def _fields(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CalibrationError(f"can't read {path}: {error.strerror}; is /proc mounted?") from error


def _line(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
