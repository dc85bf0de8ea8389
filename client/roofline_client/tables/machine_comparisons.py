"""Machines side by side: the ceilings of each, and their ratios to the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling, MachineVersion
from roofline.answers.values import Provenance

from ..errors import NotFound
from . import flat, units, wording
from .columns import Column, Columns
from .documents import document
from .machines import label, newest
from .names import clean


class Compared(NamedTuple):
    """A ceiling of several machines; of one that lacks it the value is None. ratios: over the first."""

    device: str
    name: str
    unit: str
    provenance: str
    values: list[float | None]
    ratios: list[float | None]


def chosen(machines: Sequence[MachineVersion], asked: Sequence[str]) -> list[MachineVersion]:
    """The newest version of each HOST, that one of each HOST@2. Raises NotFound."""
    hosts = {m.machine.host for m in machines}
    found = []
    for name in asked:
        host, at, number = name.rpartition("@")
        if name in hosts or not (at and number.isdecimal()):
            host, number = name, ""
        known = [m for m in machines if m.machine.host == host]
        if not known:
            raise NotFound(f"this server has no host {host!r} (see `roofline-client machines`)")
        # What an agent reported goes before what was imported for its host, which lacks the hardware.
        known.sort(key=lambda m: (not m.machine.cpu_model, m.until_ns > 0, -m.since_ns))
        fitting = [m for m in known if number in ("", str(m.version))]
        if not fitting:
            versions = ", ".join(str(v) for v in sorted({m.version for m in known}))
            raise NotFound(f"{host} has no version {number}, only {versions} (see `machines --history`)")
        found.append(fitting[0])
    return found


def compared(machines: Sequence[MachineVersion]) -> list[Compared]:
    """All ceilings that any of them has, in the order of the first that has them."""
    each = [_by_name(m.machine.ceilings) for m in machines]
    keys = dict.fromkeys(key for found in each for key in found)
    rows = []
    for key in keys:
        cells = [found.get(key) for found in each]
        some = next(c for c in cells if c is not None)
        values = [None if c is None else c.value for c in cells]
        first = values[0]
        ratios = [v / first if v is not None and first else None for v in values]
        rows.append(Compared(some.device, some.name, some.unit, some.provenance, values, ratios))
    return sorted(rows, key=lambda row: (len(row.device), row.device))


def _by_name(ceilings: Sequence[Ceiling]) -> dict[tuple[str, str, bool], Ceiling]:
    """The best under each name: of those to several peers the highest, of times the lowest."""
    found: dict[tuple[str, str, bool], Ceiling] = {}
    for c in ceilings:
        key = (c.device, c.name, c.provenance == Provenance.ANALYTIC)
        if key not in found or (c.value < found[key].value) == (c.unit == "s"):
            found[key] = c
    return found


def as_text(machines: Sequence[MachineVersion]) -> Group:
    """A row per ceiling, a column per machine and, but for the first, its ratio to the first."""
    hardware = []
    heads = [Column("ceiling")]
    for at, one in enumerate(machines):
        machine = one.machine
        mine = [c for c in machine.ceilings if c.provenance != Provenance.ANALYTIC]
        measured = f"measured {newest(mine)}" if mine else "never calibrated"
        memory = units.number(machine.memory_bytes, "byte") if machine.memory_bytes else "-"
        line = f"{label(one)}: {machine.cpu_model or '-'}, {machine.cpus or '-'} CPUs, {memory}, {measured}"
        hardware.append(Text(clean(line)))
        heads.append(Column(clean(label(one)), right=True))
        if at > 0:
            heads.append(Column("ratio", right=True))

    table = Columns("", heads)
    for row in compared(machines):
        name = f"{row.device} {row.name}".strip()
        if row.provenance == Provenance.ANALYTIC and not name.endswith(".theory"):
            name += " (theory)"
        cells = []
        for value, ratio in zip(row.values, row.ratios, strict=True):
            cells.append("-" if value is None else units.number(value, row.unit))
            cells.append("-" if ratio is None else units.factor(ratio))
        del cells[1]  # the first against itself
        table.add(name, *cells)
    legend = Text(clean(wording.comparison_legend(label(machines[0]))), style="dim")
    return Group(*hardware, "", table, "", legend)


def as_json(machines: Sequence[MachineVersion]) -> str:
    """Raises ClientError for a number that JSON cannot hold."""
    return document(compared=[label(m) for m in machines], ceilings=compared(machines))


def as_csv(machines: Sequence[MachineVersion]) -> str:
    """A row per ceiling and machine."""
    rows = [
        (row.device, row.name, row.unit, row.provenance, one.machine.host, one.version, value, ratio)
        for row in compared(machines)
        for one, value, ratio in zip(machines, row.values, row.ratios, strict=True)
    ]
    head = ("device", "ceiling", "unit", "provenance", "host", "version", "value", "ratio_to_first")
    return flat.as_csv(flat.Table(head, rows, {}))
