"""Hardware events per CPU family, as TOML: which perf event counts what, and FLOPs per count."""

from __future__ import annotations

import sys
from importlib import resources
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class HardwareEvent(NamedTuple):
    """One perf event; the metric it feeds grows by `factor` `unit`s per count."""

    perf: str
    metric: str
    unit: str
    factor: int


class Family(NamedTuple):
    name: str
    note: str
    events: tuple[HardwareEvent, ...]


def families() -> dict[str, Family]:
    """All families by file name."""
    found = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".toml"):
            name = entry.name.removesuffix(".toml")
            found[name] = parse(name, entry.read_text())
    return found


def parse(name: str, text: str) -> Family:
    """A family from its TOML text."""
    data = tomllib.loads(text)
    events = tuple(
        HardwareEvent(e["perf"], e["metric"], e.get("unit", "1"), int(e.get("factor", 1)))
        for e in data["event"]
    )
    return Family(name, data.get("note", ""), events)


def for_cpu(vendor: str, family: int, flags: frozenset[str]) -> Family:
    """The events to ask of a CPU, by /proc/cpuinfo's vendor_id, cpu family and flags."""
    known = families()
    if vendor == "GenuineIntel" and family == 6:
        return known["intel_avx512" if "avx512f" in flags else "intel_avx2"]
    # Zen 2 and 3 are families 0x17 and 0x19; Zen 4 is told from Zen 3 by AVX-512.
    if vendor == "AuthenticAMD" and family in (0x17, 0x19, 0x1A):
        if family == 0x1A:
            return known["amd_zen5"]
        return known["amd_zen4" if "avx512f" in flags else "amd_zen2"]
    return known["generic"]
