"""Hardware events per CPU family, as TOML: which perf event counts what, and how much one count is worth.

A file has: `note` (what its counts leave out), `counters` (general counters of one hardware thread),
`base` (a file whose events come first), `event` (asked of every rank) and `uncore` (asked of the node, per
socket).
"""

from __future__ import annotations

import sys
from importlib import resources
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .cpu import Cpu, family_of

__all__ = ["Cpu", "Family", "HardwareEvent", "UncoreEvent", "families", "for_cpu", "load", "parse"]


DEFAULT_COUNTERS = 4  # general counters that any CPU has


class HardwareEvent(NamedTuple):
    """One perf event of a process; the metric it feeds grows by `factor` `unit`s per count.

    Several events may feed one metric: it is their sum. scalable: counted per 128 bits of an SVE vector, so
    the factor is still to be multiplied by the vector's length in those.
    """

    perf: str
    metric: str
    unit: str = "1"
    factor: int = 1
    fixed: bool = False  # has a counter of its own
    counters: int = 1  # general counters it takes otherwise
    estimated: bool = False
    scalable: bool = False


class UncoreEvent(NamedTuple):
    """One event of a PMU outside the cores. pmu: a pattern of names in sysfs; event: asked of each."""

    pmu: str
    event: str
    metric: str
    unit: str = "byte"
    factor: int = 64
    estimated: bool = False


class Family(NamedTuple):
    name: str
    note: str
    events: tuple[HardwareEvent, ...]
    uncore: tuple[UncoreEvent, ...] = ()
    counters: int = DEFAULT_COUNTERS
    hybrid: bool = False  # two kinds of core, one PMU each


def families() -> dict[str, Family]:
    """All families by file name."""
    found = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".toml"):
            name = entry.name.removesuffix(".toml")
            found[name] = load(name)
    return found


def load(name: str) -> Family:
    """The family of one file."""
    return parse(name, (resources.files(__name__) / f"{name}.toml").read_text())


def parse(name: str, text: str) -> Family:
    """A family from its TOML text."""
    data = tomllib.loads(text)
    events: list[HardwareEvent] = []
    if "base" in data:
        events += load(data["base"]).events
    events += [HardwareEvent(**fields) for fields in data.get("event", ())]

    uncore: list[UncoreEvent] = []
    for fields in data.get("uncore", ()):
        # AMD's data fabric has one event code per memory channel: the same text with another code for each.
        codes = fields.pop("codes", None)
        if codes is None:
            uncore.append(UncoreEvent(**fields))
        else:
            pattern = fields.pop("event")
            uncore += [UncoreEvent(event=pattern.format(code=hex(code)), **fields) for code in codes]

    return Family(
        name,
        data.get("note", ""),
        tuple(events),
        tuple(uncore),
        data.get("counters", DEFAULT_COUNTERS),
        data.get("hybrid", False),
    )


def for_cpu(cpu: Cpu) -> Family:
    """The events to ask of a CPU."""
    return load(family_of(cpu))
