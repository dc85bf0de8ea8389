"""Machines with their ceilings, as text for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group

from .columns import Column, Columns
from .model_records import MachineVersion
from .tables import when
from .units import number


def as_text(machines: Sequence[MachineVersion]) -> Group:
    return Group(*(part for machine in machines for part in (_machine(machine), "")))


def _machine(version: MachineVersion) -> Columns:
    machine = version.machine
    since = when(version.since_ns, "%Y-%m-%d %H:%M")
    title = (
        f"{machine.host}: {machine.cpu_model}, {machine.cpus} CPUs, version {version.version} since {since}"
    )
    heads = [Column("ceiling"), Column("value", right=True), Column("spread", right=True), Column("method")]
    table = Columns(title, heads)
    for ceiling in machine.ceilings:
        value = number(ceiling.value, ceiling.unit)
        table.add(f"{ceiling.device} {ceiling.name}".strip(), value, f"{ceiling.spread:.1%}", ceiling.method)
    if not machine.ceilings:
        table.add("none measured: roofline-agent calibrate", "-", "-", "-")
    return table
