"""Versions of machines: which of the things an agent said of its machine was true when a job ran. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..records import Machine

# Installed memory as the kernel counts it differs a little from boot to boot.
SAME_MEMORY = 0.01


class Saying(NamedTuple):
    """What an agent said of its machine from a moment on (server time, ns; 0: nobody knows since when).

    version counts up from 1 with hardware and ceilings; other things, as the sources that work, change within
    a version.
    """

    version: int
    since_ns: int
    machine: Machine


class Use(NamedTuple):
    """The machine as a job is reported against it; note: what to know about that, for people."""

    version: int
    machine: Machine
    note: str = ""


def follows(last: Saying | None, machine: Machine, now_ns: int) -> Saying | None:
    """What is to be kept when an agent says this after `last`; None: it said nothing new."""
    if last is None:
        return Saying(1, now_ns, machine)
    if machine == last.machine:
        return None
    step = 1 if is_another(last.machine, machine) else 0
    return Saying(last.version + step, max(now_ns, last.since_ns), machine)


def is_another(before: Machine, after: Machine) -> bool:
    """Whether hardware or ceilings differ."""
    most = max(before.memory_bytes, after.memory_bytes)
    if abs(before.memory_bytes - after.memory_bytes) > SAME_MEMORY * most:
        return True
    return _told_apart(before) != _told_apart(after)


def _told_apart(machine: Machine) -> tuple[object, ...]:
    hardware = (machine.host, machine.cpu_model, machine.sockets, machine.cores, machine.cpus)
    return (*hardware, frozenset(machine.ceilings))


def used(sayings: Sequence[Saying], begin_ns: int, end_ns: int) -> Use:
    """What a job from begin to end (server time, ns) is reported against, of an agent's sayings in order.

    That is what held when the job ended. Where there were no ceilings yet, those that came first after it.
    """
    begins = begins_of(sayings)
    at_end = _at(begins, end_ns)
    held = sayings[at_end]
    machine, host = held.machine, held.machine.host
    if not machine.ceilings:
        later = next((s for s in sayings[at_end:] if s.machine.ceilings), None)
        if later is None:
            return Use(held.version, machine)
        note = _late(later, end_ns) or (
            "" if _measured_ns(later) else f"ceilings of {host} came after the job"
        )
        return Use(later.version, machine._replace(ceilings=later.machine.ceilings), note)
    if late := _late(held, end_ns):
        return Use(held.version, machine, late)
    if sayings[_at(begins, begin_ns)].version != held.version:
        note = f"ceilings or hardware of {host} changed while the job ran: what held at its end is used"
        return Use(held.version, machine, f"{note} (version {held.version})")
    return Use(held.version, machine)


def begins_of(sayings: Sequence[Saying]) -> list[int]:
    """From when each of an agent's sayings holds, server time, ns.

    The first as long as anybody knows. Ceilings hold since they were measured, though the server may have
    heard of them later: the agent was cut off then.
    """
    begins = [0]
    for before, after in pairwise(sayings):
        fresh = set(after.machine.ceilings) - set(before.machine.ceilings)
        measured_ns = max((c.time_ns for c in fresh), default=0)
        heard_ns = after.since_ns
        since_ns = max(measured_ns, before.since_ns) if 0 < measured_ns < heard_ns else heard_ns
        begins.append(max(since_ns, begins[-1]))
    return begins


def _at(begins: Sequence[int], moment_ns: int) -> int:
    """The last that began by then; else the first."""
    return max((at for at, begin_ns in enumerate(begins) if begin_ns <= moment_ns), default=0)


def _late(saying: Saying, end_ns: int) -> str:
    late = _measured_ns(saying) > end_ns
    return f"ceilings of {saying.machine.host} were measured after the job" if late else ""


def _measured_ns(saying: Saying) -> int:
    """When the newest ceiling was measured; 0: that is not known."""
    return max((c.time_ns for c in saying.machine.ceilings), default=0)
