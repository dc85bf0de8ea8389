"""Machines and their ceilings as text, JSON and CSV, and side by side. Knows words and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.console import Group
from rich.text import Text
from roofline.answers.machines import Ceiling, Machine, MachineVersion
from roofline.answers.values import Provenance

from ..errors import NotFound
from . import flat, units
from .columns import Column, Columns
from .documents import document
from .names import clean, listed

HEADS = (
    "version",
    "since",
    "CPU model",
    "CPUs",
    "f64",
    "f32",
    "memory",
    "network",
    "measured",
    "agent",
    "jobs",
)
RIGHT = ("version", "CPUs", "f64", "f32", "memory", "network", "jobs")
OF_MACHINE = ("cpu_model", "sockets", "cores", "cpus", "memory_bytes", "kernel")


class Compared(NamedTuple):
    """A ceiling of several machines; of one that lacks it the value is None. ratios: over the first."""

    device: str
    name: str
    unit: str
    provenance: str
    values: list[float | None]
    ratios: list[float | None]


def label(version: MachineVersion) -> str:
    return f"{version.machine.host}@{version.version}"


# -- the list -----------------------------------------------------------------------------------------------


def as_text(machines: Sequence[MachineVersion]) -> Group:
    """A row per machine, and one per GPU of it."""
    table = Columns("", [Column(""), *(Column(h, h in RIGHT, folds=h == "CPU model") for h in HEADS)])
    for one in machines:
        for row in _rows(one):
            table.add(*row)
    legend = (
        "peaks in FLOP/s on all CPUs, memory and network in byte/s, highest measured; '-' is absent, not zero"
    )
    return Group(table, *_doubts(machines), "", Text(legend, style="dim"))


def _doubts(machines: Sequence[MachineVersion]) -> list[Text]:
    """What a "?" in the table stands for."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in machines:
        for c in one.machine.ceilings:
            if c.doubt:
                where = f"{label(one)} {c.device}".strip()
                found.setdefault((where, c.doubt), []).append(c.name)
    lines = [
        Text(clean(f"  ? {where}: {listed(names)} may be higher: {doubt}"))
        for (where, doubt), names in found.items()
    ]
    return [Text(""), *lines] if lines else []


def _rows(one: MachineVersion) -> list[list[str]]:
    machine = one.machine
    state = "connected" if one.connected else "replaced" if one.until_ns else "not connected"
    since = units.when(one.since_ns, "%Y-%m-%d %H:%M")
    hardware = [str(one.version), since, machine.cpu_model or "-", str(machine.cpus or "-")]
    whole = [machine.host, *hardware, *_ceilings(machine, ""), state, str(len(one.jobs))]
    gpus = sorted({c.device for c in machine.ceilings if c.device}, key=lambda name: (len(name), name))
    return [whole, *([f"  {gpu}", *[""] * 4, *_ceilings(machine, gpu), "", ""] for gpu in gpus)]


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
        _newest(mine) if mine else "never",
    ]


def _newest(ceilings: Iterable[Ceiling]) -> str:
    return units.when(max(c.time_ns for c in ceilings), "%Y-%m-%d %H:%M")


def _highest(ceilings: Iterable[Ceiling]) -> str:
    best = max(ceilings, key=lambda c: c.value, default=None)
    return units.number(best.value, best.unit) + " ?" * bool(best.doubt) if best else "-"


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


# -- side by side -------------------------------------------------------------------------------------------


def chosen(machines: Sequence[MachineVersion], asked: Sequence[str]) -> list[MachineVersion]:
    """Of each HOST the newest version, of each HOST@2 that one. Raises NotFound."""
    return [_chosen(machines, one) for one in asked]


def _chosen(machines: Sequence[MachineVersion], asked: str) -> MachineVersion:
    hosts = {m.machine.host for m in machines}
    host, at, number = asked.rpartition("@")
    if asked in hosts or not (at and number.isdecimal()):
        host, number = asked, ""
    known = [m for m in machines if m.machine.host == host]
    # What an agent said goes before what was imported for its host, which says nothing of the hardware.
    known.sort(key=lambda m: (not m.machine.cpu_model, m.until_ns > 0, -m.since_ns))
    fitting = [m for m in known if number in ("", str(m.version))]
    if not known:
        raise NotFound(f"this server has no host {host!r} (see `roofline-client machines`)")
    if not fitting:
        versions = ", ".join(str(v) for v in sorted({m.version for m in known}))
        raise NotFound(f"{host} has no version {number}, only {versions} (see `machines --history`)")
    return fitting[0]


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


def comparison_text(machines: Sequence[MachineVersion]) -> Group:
    """A row per ceiling, a column per machine and, but for the first, its ratio to the first."""
    heads = [Column("ceiling"), Column(clean(label(machines[0])), right=True)]
    for one in machines[1:]:
        heads += [Column(clean(label(one)), right=True), Column("ratio", right=True)]
    table = Columns("", heads)
    for row in compared(machines):
        cells = ["-" if v is None else units.number(v, row.unit) for v in row.values]
        ratios = ["-" if r is None else f"x{r:.3g}" for r in row.ratios]
        beside = [cell for pair in zip(cells[1:], ratios[1:], strict=True) for cell in pair]
        name = f"{row.device} {row.name}".strip()
        if row.provenance == Provenance.ANALYTIC and not name.endswith(".theory"):
            name += " (theory)"
        table.add(name, cells[0], *beside)
    return Group(*(_hardware(one) for one in machines), "", table, "", Text(_legend(machines), style="dim"))


def _hardware(one: MachineVersion) -> Text:
    machine = one.machine
    mine = [c for c in machine.ceilings if c.provenance != Provenance.ANALYTIC]
    measured = f"measured {_newest(mine)}" if mine else "never calibrated"
    memory = units.number(machine.memory_bytes, "byte") if machine.memory_bytes else "-"
    line = f"{label(one)}: {machine.cpu_model or '-'}, {machine.cpus or '-'} CPUs, {memory}, {measured}"
    return Text(clean(line))


def _legend(machines: Sequence[MachineVersion]) -> str:
    return clean(
        f"ratios are to {label(machines[0])}; of a time a ratio below 1 is better; '-' is absent, not zero"
    )


def comparison_json(machines: Sequence[MachineVersion]) -> str:
    """Raises ClientError for a number that JSON cannot hold."""
    return document(compared=[label(m) for m in machines], ceilings=compared(machines))


def comparison_csv(machines: Sequence[MachineVersion]) -> str:
    """A row per ceiling and machine."""
    rows = [
        (row.device, row.name, row.unit, row.provenance, one.machine.host, one.version, value, ratio)
        for row in compared(machines)
        for one, value, ratio in zip(machines, row.values, row.ratios, strict=True)
    ]
    head = ("device", "ceiling", "unit", "provenance", "host", "version", "value", "ratio_to_first")
    return flat.as_csv(flat.Table(head, rows, {}))
