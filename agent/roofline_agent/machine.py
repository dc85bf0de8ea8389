"""Facts about this node that a report needs in addition to its counters."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path
from typing import NamedTuple

import psutil

from .events.arm_cpus import arm_name


class Machine(NamedTuple):
    host: str
    cpu_model: str
    sockets: int
    cores: int
    cpus: int
    memory_bytes: int
    kernel: str


def read_machine(proc: Path = Path("/proc"), sys_root: Path = Path("/sys")) -> Machine:
    """This node. What cannot be read is empty or 0."""
    try:
        cpuinfo = (proc / "cpuinfo").read_text()
    except OSError:
        cpuinfo = ""
    sockets: set[str] = set()
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            sockets.add(value.strip())
    return Machine(
        host=platform.node(),
        cpu_model=cpu_name(cpuinfo),
        sockets=len(sockets or _packages(sys_root)) or 1,
        cores=psutil.cpu_count(logical=False) or 0,
        cpus=psutil.cpu_count() or 0,
        memory_bytes=int(psutil.virtual_memory().total),
        kernel=platform.release(),
    )


def _packages(sys_root: Path) -> set[str]:
    """Sockets that sysfs knows; /proc/cpuinfo names none on Arm. -1 is unknown."""
    found = set()
    for path in sys_root.glob("devices/system/cpu/cpu[0-9]*/topology/physical_package_id"):
        with contextlib.suppress(OSError):
            found.add(path.read_text().strip())
    return found - {"-1"}


def cpu_name(cpuinfo: str) -> str:
    """Name of the first CPU in /proc/cpuinfo's text; "" where that has neither a name nor Arm's numbers."""
    first: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    if "model name" in first:
        return first["model name"]
    try:
        return arm_name(int(first["CPU implementer"], 0), int(first["CPU part"], 0))
    except (KeyError, ValueError):
        return ""


def boot_id(proc: Path = Path("/proc")) -> str:
    """Identity of this boot: CLOCK_MONOTONIC restarts with it. Empty where hidden."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
