"""Machines made up of plain records, as the server would send them."""

from __future__ import annotations

from typing import Any

from roofline.answers.machines import Ceiling, Machine, MachineVersion
from roofline_client.tables.text import rendered

from .reports import BEGIN, SECOND, ceiling


def made(host: str, number: int, *ceilings: Ceiling, until_ns: int = 0, **more: Any) -> MachineVersion:
    machine = Machine(host, "a CPU", 1, 4, 8, 2**34, "6.1", list(ceilings))
    since_ns = BEGIN + number * SECOND
    return MachineVersion(machine, number, since_ns, until_ns, ["41", "42"], not until_ns, "a")._replace(
        **more
    )


def peak(value: float, **more: Any) -> Ceiling:
    return ceiling("peak.f32.512", "compute", value, **more)


def dram(value: float, **more: Any) -> Ceiling:
    return ceiling("dram.triad", "memory", value, **more)


LATENCY = ceiling("net.tcp.latency", "latency", 4e-5, unit="s", level="network", peer="b")
OLD = made("a", 1, peak(1e12), dram(1e11), until_ns=BEGIN + 2 * SECOND)
NEW = made("a", 2, peak(2e12), dram(5e10), LATENCY)
OTHER = made("b", 1, peak(5e11), ceiling("peak.f64.512", "compute", 2.5e11, precision="f64"))
ALL = [NEW, OLD, OTHER]


def row(found: Any, name: str) -> list[str]:
    (line,) = [line for line in rendered(found).splitlines() if line.startswith(name)]
    return [cell for cell in line.removeprefix(name).split("  ") if cell]
