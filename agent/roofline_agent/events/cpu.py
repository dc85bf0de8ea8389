"""Which CPU this is, from /proc/cpuinfo, and which file of events belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Cpu(NamedTuple):
    """What distinguishes CPU families; -1 where cpuinfo does not have it."""

    vendor: str = ""
    family: int = -1
    model: int = -1
    implementer: int = -1
    part: int = -1
    flags: frozenset[str] = frozenset()


# Models of Intel's family 6: intel/perfmon mapfile.csv.
INTEL: Mapping[str, tuple[int, ...]] = {
    "intel_haswell": (0x3C, 0x3F, 0x45, 0x46),
    "intel_broadwell": (0x3D, 0x47, 0x4F, 0x56),
    "intel_skylake": (0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6),
    "intel_icelake": (0x7D, 0x7E, 0x8C, 0x8D, 0xA7),
    "intel_skylake_sp": (0x55,),
    "intel_icelake_sp": (0x6A, 0x6C),
    "intel_sapphire_rapids": (0x8F, 0xCF),
    "intel_granite_rapids": (0xAD, 0xAE),
    "intel_sierra_forest": (0xAF, 0xB6, 0xDD),
    "intel_alder_lake": (0x97, 0x9A, 0xB7, 0xBA, 0xBF),
    "intel_meteor_lake": (0xAA, 0xAC, 0xB5, 0xBD, 0xC5, 0xC6),
}

# Xeon Phi: AVX-512 without the events that the other CPUs with it have.
_XEON_PHI = (0x57, 0x85)

# MIDR_EL1 part numbers of implementer 0x41, Arm (linux arch/arm64/include/asm/cputype.h).
ARM: Mapping[str, tuple[int, ...]] = {
    "arm_neoverse_n1": (0xD0C,),
    "arm_neoverse_v1": (0xD40,),
    "arm_neoverse_v2": (0xD4F, 0xD49, 0xD84, 0xD8E),
}


def identify(cpuinfo: str) -> Cpu:
    """The first CPU in /proc/cpuinfo's text."""
    first: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            first.setdefault(key.strip(), value.strip())
    return Cpu(
        first.get("vendor_id", ""),
        _number(first.get("cpu family", "")),
        _number(first.get("model", "")),
        _number(first.get("CPU implementer", "")),
        _number(first.get("CPU part", "")),
        frozenset(first.get("flags", first.get("Features", "")).split()),
    )


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1


def family_of(cpu: Cpu) -> str:
    """The name of the CPU's file; "generic" for one that nobody wrote a file for."""
    if cpu.vendor == "GenuineIntel" and cpu.family == 6:
        is_later = "avx512f" in cpu.flags and cpu.model not in _XEON_PHI
        return _listed(INTEL, cpu.model) or ("intel_avx512" if is_later else "generic")
    if cpu.vendor == "AuthenticAMD":
        # Linux distinguishes Zen generations by the same ranges (arch/x86/kernel/cpu/amd.c).
        if cpu.family == 0x17:
            return "amd_zen2"
        if cpu.family == 0x19:
            zen4 = 0x10 <= cpu.model <= 0x1F or 0x60 <= cpu.model <= 0xAF
            return "amd_zen4" if zen4 else "amd_zen3"
        return "amd_zen5" if cpu.family == 0x1A else "generic"
    if cpu.implementer == 0x41:
        return _listed(ARM, cpu.part) or "generic"
    return "generic"


def _listed(table: Mapping[str, tuple[int, ...]], number: int) -> str | None:
    return next((name for name, numbers in table.items() if number in numbers), None)
