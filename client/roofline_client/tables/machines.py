"""Machines and their ceilings as text, JSON, CSV and tables. Contains words and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling, Machine, MachineVersion
from roofline.answers.values import Provenance
from roofline.texts import listed

from . import flat, units, wording
from .columns import Column, Columns
from .documents import document
from .names import clean, natural

HEADS = (
    Column(""),
    Column("version", right=True),
    Column("since (UTC)"),
    Column("CPU model", folds=True),
    Column("CPUs", right=True),
    Column("f64", right=True),
    Column("f32", right=True),
    Column("memory", right=True),
    Column("network", right=True),
    Column("measured (UTC)"),
    Column("agent"),
    Column("jobs", right=True),
)
DAY_AND_TIME = "%Y-%m-%d %H:%M"
LEGEND = Text(wording.MACHINES_LEGEND, style="dim")
OF_MACHINE = ("cpu_model", "sockets", "cores", "cpus", "memory_bytes", "kernel")


def label(version: MachineVersion) -> str:
    return f"{version.machine.host}@{version.version}"


def as_text(machines: Sequence[MachineVersion]) -> Group:
    """A row per machine, and one per GPU of it; below them what a "?" stands for."""
    parts: list[Any] = [rows(machines)]
    if doubted := doubts(machines):
        parts += ["", *doubted]
    return Group(*parts, "", LEGEND)


def rows(machines: Sequence[MachineVersion]) -> Columns:
    """A row per machine, and one per GPU of it."""
    table = Columns("", HEADS)
    for one in machines:
        machine = one.machine
        state = "not connected"
        if one.connected:
            state = "connected"
        elif one.until_ns:
            state = "replaced"
        table.add(
            machine.host,
            str(one.version),
            units.when(one.since_ns, DAY_AND_TIME),
            machine.cpu_model or "-",
            str(machine.cpus or "-"),
            *_ceilings(machine, ""),
            state,
            str(len(one.jobs)),
        )
        for gpu in sorted({c.device for c in machine.ceilings if c.device}, key=natural):
            table.add(f"  {gpu}", "", "", "", "", *_ceilings(machine, gpu), "", "")
    return table


def doubts(machines: Sequence[MachineVersion]) -> list[Text]:
    """What the "?" of ceilings stand for."""
    doubted: dict[tuple[str, str], list[str]] = {}  # (where, why) -> ceilings
    for one in machines:
        for c in one.machine.ceilings:
            if c.doubt:
                where = f"{label(one)} {c.device}".strip()
                doubted.setdefault((where, c.doubt), []).append(c.name)
    return [
        Text(clean(f"  ? {where}: {listed(names)} may be higher: {doubt}"))
        for (where, doubt), names in doubted.items()
    ]


def _ceilings(machine: Machine, device: str) -> list[str]:
    """Cells: f64, f32, memory, network, measured."""
    mine = [c for c in machine.ceilings if c.device == device and c.provenance != Provenance.ANALYTIC]
    whole = [c for c in mine if c.threads != 1 or machine.cpus == 1]
    level = "hbm" if device else "dram"
    return [
        _highest(c for c in whole if c.kind == "compute" and c.precision == "f64"),
        _highest(c for c in whole if c.kind == "compute" and c.precision == "f32"),
        _highest(c for c in whole if c.kind == "memory" and c.level == level),
        _highest(c for c in mine if c.kind == "network"),
        newest(mine),
    ]


def newest(ceilings: Sequence[Ceiling]) -> str:
    newest_ns = max((c.time_ns for c in ceilings), default=None)
    return "never" if newest_ns is None else units.when(newest_ns, DAY_AND_TIME)


def _highest(ceilings: Iterable[Ceiling]) -> str:
    best = max(ceilings, key=lambda c: c.value, default=None)
    if best is None:
        return "-"
    return units.number(best.value, best.unit) + (" ?" if best.doubt else "")


def as_json(machines: Sequence[MachineVersion]) -> str:
    """Raises ClientError for a number that JSON cannot hold."""
    return document(machines=list(machines))


def as_csv(machines: Sequence[MachineVersion]) -> str:
    """A row per machine and ceiling; of a machine without any one row, whose cells of ceilings are empty."""
    head = ("host", "version", "agent", "since_ns", "until_ns", "connected", *OF_MACHINE)
    rows = []
    for one in machines:
        hardware = [getattr(one.machine, name) for name in OF_MACHINE]
        version = (one.machine.host, one.version, one.agent, one.since_ns, one.until_ns or None)
        begin = (*version, int(one.connected), *hardware)
        ceilings: Sequence[Sequence[Any]] = one.machine.ceilings or [[None] * len(Ceiling._fields)]
        rows += [(*begin, *ceiling) for ceiling in ceilings]
    columns = (*head, *(f"ceiling_{name}" for name in Ceiling._fields))
    return flat.as_csv(flat.Table(columns, rows, {}))


def tables(machines: Sequence[MachineVersion]) -> dict[str, flat.Table]:
    """machines: a row a version; ceilings: a row each, `unit` is that of `value` and `median`."""
    hardware = flat.table(Machine, [version.machine for version in machines])
    ceilings = [
        flat.table(Ceiling, version.machine.ceilings).wider(
            host=version.machine.host, version=version.version
        )
        for version in machines
    ]
    return {
        "machines": flat.beside(hardware, flat.table(MachineVersion, machines)),
        "ceilings": flat.joined(ceilings, flat.table(Ceiling, ()).wider(host="", version=0)),
    }
