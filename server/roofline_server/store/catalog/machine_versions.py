"""Versions of machines: which of an agent's reports of its machine was true when a job ran. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance

from ...records import Machine

# Installed memory as the kernel counts it differs a little from boot to boot.
SAME_MEMORY = 0.01
Limit = tuple[object, ...]  # what a ceiling limits


class MachineState(NamedTuple):
    """What an agent reported of its machine from a moment on (server time, ns; 0: since when is unknown).

    version counts up from 1 with hardware and ceilings; other things, as the sources that work, change within
    a version.
    """

    version: int
    since_ns: int
    machine: Machine


class LateCeilings(NamedTuple):
    """Ceilings of a host that a job is compared with, and that were not known when it began."""

    host: str
    ceilings: tuple[Ceiling, ...]
    are_all: bool  # that are used of the host
    measured: bool  # it is known when they were measured; else when they came
    after: bool  # the job; else while it ran


class ChangedMachine(NamedTuple):
    """A host whose hardware or ceilings changed while a job ran: what held at its begin is used."""

    host: str
    version: int


class TwoAgents(NamedTuple):
    """Two agents of one node report the same processes."""

    hosts: tuple[str, ...]  # as they call the node


class CalledAlike(NamedTuple):
    """Nodes that have one name."""

    host: str
    shown: tuple[str, ...]  # how each is called in answers


MachineNote = LateCeilings | ChangedMachine | TwoAgents | CalledAlike


class MachineUse(NamedTuple):
    """The machine as a job is reported against it; notes: what the user must know about that."""

    version: int
    machine: Machine
    notes: tuple[MachineNote, ...] = ()


def next_state(last: MachineState | None, machine: Machine, now_ns: int) -> MachineState | None:
    """What is to be kept when an agent reports this after `last`; None: nothing has changed."""
    if last is None:
        return MachineState(1, now_ns, machine)
    if machine == last.machine:
        return None
    step = 1 if is_another(last.machine, machine) else 0
    return MachineState(last.version + step, max(now_ns, last.since_ns), machine)


def is_another(before: Machine, after: Machine) -> bool:
    """Whether hardware or ceilings differ."""
    most = max(before.memory_bytes, after.memory_bytes)
    if abs(before.memory_bytes - after.memory_bytes) > SAME_MEMORY * most:
        return True
    return _hardware(before) != _hardware(after) or set(before.ceilings) != set(after.ceilings)


def _hardware(machine: Machine) -> tuple[object, ...]:
    return machine.host, machine.cpu_model, machine.sockets, machine.cores, machine.cpus


def used(states: Sequence[MachineState], begin_ns: int, end_ns: int) -> MachineUse:
    """What a job from begin to end (server time, ns) is reported against, of an agent's states in order.

    That is the version that held when the job began: what is measured during a running job is measured on a
    busy node, and what is measured after it changes no report of it. Only what was not measured at all then
    comes from the first later version that has it.
    """
    begins = begins_of(states)
    at_begin, at_end = _at(begins, begin_ns), _at(begins, end_ns)
    # Sources change within a version: those of the job's end are reported.
    held = [s for s in states[: at_end + 1] if s.version == states[at_begin].version][-1]
    hardware = _hardware(held.machine)
    later = list(takewhile(lambda state: _hardware(state.machine) == hardware, states[at_begin + 1 :]))
    kept = held.machine.ceilings
    added = list(_added(kept, later))
    ceilings = (*kept, *(c for _, some in added for c in some))
    version = held.version if kept or not added else added[0][0].version
    # Since when the first holds nobody knows: its ceilings may be of a time when the job ran.
    since_ns = end_ns if at_begin else begin_ns
    notes = (
        *_changed_note(held, states[at_end]),
        *_late_notes([(held, kept)], ceilings, since_ns, end_ns),
        *_late_notes(added, ceilings, begin_ns, end_ns),
    )
    return MachineUse(version, held.machine._replace(ceilings=ceilings), notes)


def _added(
    kept: Sequence[Ceiling], later: Sequence[MachineState]
) -> Iterator[tuple[MachineState, tuple[Ceiling, ...]]]:
    """Of later states the ceilings that limit what no earlier one measured anything of."""
    known = {_limited(ceiling) for ceiling in kept}
    for state in later:
        new = tuple(ceiling for ceiling in state.machine.ceilings if _limited(ceiling) not in known)
        known.update(_limited(ceiling) for ceiling in new)
        if new:
            yield state, new


def _limited(ceiling: Ceiling) -> Limit:
    """What one measurement gives: the ceilings of a device, or of the network to a peer. A theoretical one
    is listed next to one that was measured, never in its place."""
    return ceiling.device, ceiling.kind, ceiling.peer, ceiling.provenance == Provenance.ANALYTIC


# -- notes for the user ------------------------------------------------------------------------------------


def _changed_note(held: MachineState, end: MachineState) -> list[MachineNote]:
    same = _hardware(held.machine) == _hardware(end.machine)
    if same and set(held.machine.ceilings) <= set(end.machine.ceilings):
        return []
    return [ChangedMachine(held.machine.host, held.version)]


def _late_notes(
    found: Sequence[tuple[MachineState, Sequence[Ceiling]]],
    whole: Sequence[Ceiling],
    begin_ns: int,
    end_ns: int,
) -> list[MachineNote]:
    """On those of these ceilings that were not known when the job began. whole: all that are used."""
    late: dict[tuple[bool, bool], list[Ceiling]] = {}  # by whether they were measured, and after the job
    for state, some in found:
        for ceiling in some:
            moment_ns, measured = ceiling.time_ns, True
            if not moment_ns and state.version > 1:
                moment_ns, measured = state.since_ns, False
            if moment_ns > begin_ns:
                late.setdefault((measured, moment_ns > end_ns), []).append(ceiling)
    host = found[0][0].machine.host if found else ""
    return [LateCeilings(host, tuple(some), len(some) == len(whole), *how) for how, some in late.items()]


# -- since when --------------------------------------------------------------------------------------------


def begins_of(states: Sequence[MachineState]) -> list[int]:
    """From when each of an agent's states holds, server time, ns.

    The first as long as anybody knows. Ceilings hold since they were measured, though the server may have
    received them later: the agent was cut off then.
    """
    begins = [0]
    for before, after in pairwise(states):
        fresh = set(after.machine.ceilings) - set(before.machine.ceilings)
        measured_ns = max((c.time_ns for c in fresh), default=0)
        since_ns = after.since_ns
        if 0 < measured_ns < since_ns:
            since_ns = max(measured_ns, before.since_ns)
        begins.append(max(since_ns, begins[-1]))
    return begins


def _at(begins: Sequence[int], moment_ns: int) -> int:
    """The last that began by then; else the first."""
    return max((at for at, begin_ns in enumerate(begins) if begin_ns <= moment_ns), default=0)
