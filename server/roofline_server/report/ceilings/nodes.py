"""What the hosts of a job have measured: their ceilings, and which devices have any."""

from __future__ import annotations

from collections.abc import Collection

from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance

from ...records import Machine
from ...sentences import ceilings as texts
from ...sentences.notes import called_alike, two_agents
from ...store.catalog.machine_versions import (
    CalledAlike,
    ChangedMachine,
    LateCeilings,
    MachineNote,
    TwoAgents,
)
from ...store.view import JobView, once
from ..ranks.members import nodes_of

ROOFING = ("compute", "memory")  # kinds that calibrate measures; the network is measured at another time


@once
def hosts(view: JobView) -> list[str]:
    return list(dict.fromkeys(view.machines[node].host for node in sorted(nodes_of(view))))


@once
def devices(view: JobView, host: str) -> list[str]:
    """ "" for the CPUs, then the GPUs that have ceilings, be they theoretical."""
    found = {c.device for c in ceilings(view, host) if c.device and c.kind in ROOFING}
    return ["", *sorted(found, key=lambda device: (len(device), device))]


@once
def ceilings(view: JobView, host: str) -> list[Ceiling]:
    """Ceilings of a host: those its agent measured, and those of imported benchmark results; of what was
    measured twice the newest."""
    newest: dict[tuple[str, str, str, Provenance], Ceiling] = {}
    for machine in machines_of(view, host):
        for c in machine.ceilings:
            key = (c.name, c.device, c.peer, c.provenance)
            if key not in newest or c.time_ns >= newest[key].time_ns:
                newest[key] = c
    return list(newest.values())


def machines_of(view: JobView, host: str) -> list[Machine]:
    return _machines(view).get(host, [])


@once
def _machines(view: JobView) -> dict[str, list[Machine]]:
    """host -> what its agents reported of it, a boot each."""
    found: dict[str, list[Machine]] = {}
    for node in sorted(nodes_of(view)):
        found.setdefault(view.machines[node].host, []).append(view.machines[node])
    return found


def cpus_of(view: JobView, host: str) -> int:
    return max((machine.cpus for machine in machines_of(view, host)), default=0)


def late_notes(view: JobView, kinds: Collection[str]) -> list[str]:
    """The words on the job's machines, without those on ceilings of other kinds that came late."""
    return [_words(note) for note in view.machine_notes if _is_of(note, kinds)]


def machine_notes(view: JobView) -> list[str]:
    """What to know about the job's machines."""
    return [_words(note) for note in view.machine_notes]


def _is_of(note: MachineNote, kinds: Collection[str]) -> bool:
    return not isinstance(note, LateCeilings) or note.are_all or any(c.kind in kinds for c in note.ceilings)


def _words(note: MachineNote) -> str:
    if isinstance(note, ChangedMachine):
        return texts.changed(*note)
    if isinstance(note, TwoAgents):
        return two_agents(note.hosts)
    if isinstance(note, CalledAlike):
        return called_alike(*note)
    names = [] if note.are_all else [_name(ceiling) for ceiling in note.ceilings]
    return texts.late(note.host, list(dict.fromkeys(names)), note.measured, note.after)


def _name(ceiling: Ceiling) -> str:
    peer = f"to {ceiling.peer}" if ceiling.peer else ""
    return " ".join(filter(None, (ceiling.device, ceiling.name, peer)))
