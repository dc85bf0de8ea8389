"""Versions of machines: which of the things an agent said of its machine was true when a job ran. No I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance

from ...model.wording import listed
from ...records import Machine

# Installed memory as the kernel counts it differs a little from boot to boot.
SAME_MEMORY = 0.01
MOST_NAMES = 4  # of ceilings in a note
_LATE = re.compile(r"ceilings of \S+ \((.+)\) (?:were measured|came) (?:after the job|while the job ran)")


Limit = tuple[object, ...]  # what a ceiling limits


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
    return (*_hardware(machine), frozenset(machine.ceilings))


def _hardware(machine: Machine) -> tuple[object, ...]:
    return machine.host, machine.cpu_model, machine.sockets, machine.cores, machine.cpus


def used(sayings: Sequence[Saying], begin_ns: int, end_ns: int) -> Use:
    """What a job from begin to end (server time, ns) is reported against, of an agent's sayings in order.

    That is the version that held when the job began: what is measured beside a running job is measured on a
    busy node. Limits of which it knows nothing, or only what something speaks against, come from the first
    later version that knows them better.
    """
    begins = begins_of(sayings)
    at_begin, at_end = _at(begins, begin_ns), _at(begins, end_ns)
    # Sources change within a version: those of the job's end are told.
    held = [s for s in sayings[: at_end + 1] if s.version == sayings[at_begin].version][-1]
    later = _of_same_hardware(held.machine, sayings[at_begin + 1 :])
    better = _better(held.machine, later)
    kept = tuple(c for c in held.machine.ceilings if _limited(c) not in better)
    added = list(_added(kept, better, later))
    ceilings = (*kept, *(c for _, some in added for c in some))
    version = held.version if held.machine.ceilings or not added else added[0][0].version
    # Since when the first holds nobody knows: its ceilings may be of a time when the job ran.
    since_ns = end_ns if at_begin else begin_ns
    notes = [
        _changed(held, sayings[at_end]),
        *_belated([(held, kept)], ceilings, since_ns, end_ns),
        *_set_aside(held, better),
    ]
    notes += _belated(added, ceilings, begin_ns, end_ns)
    return Use(version, held.machine._replace(ceilings=ceilings), "; ".join(filter(None, notes)))


def _of_same_hardware(machine: Machine, later: Sequence[Saying]) -> list[Saying]:
    return list(takewhile(lambda saying: _hardware(saying.machine) == _hardware(machine), later))


def _better(machine: Machine, later: Sequence[Saying]) -> dict[Limit, Saying]:
    """Of each limit that the machine is doubted in the first later saying that nothing speaks against."""
    doubted = {_limited(c) for c in machine.ceilings if c.doubt}
    found: dict[Limit, Saying] = {}
    for saying in later:
        known = set(map(_limited, saying.machine.ceilings))
        unsound = {_limited(c) for c in saying.machine.ceilings if c.doubt}
        for limit in (doubted & known) - unsound:
            found.setdefault(limit, saying)
    return found


def _added(
    kept: Sequence[Ceiling], better: Mapping[Limit, Saying], later: Sequence[Saying]
) -> Iterator[tuple[Saying, tuple[Ceiling, ...]]]:
    """Of later sayings the ceilings that limit what none before them does; of some the better saying's."""
    known = set(map(_limited, kept))
    for saying in later:
        ceilings = saying.machine.ceilings
        new = tuple(
            c for c in ceilings if better.get(_limited(c), saying) is saying and _limited(c) not in known
        )
        known |= set(map(_limited, new))
        if new:
            yield saying, new


def _set_aside(held: Saying, better: Mapping[Limit, Saying]) -> Iterator[str]:
    """Words on ceilings that are not used, as something speaks against them."""
    doubts: dict[str, list[Ceiling]] = {}
    for ceiling in held.machine.ceilings:
        if ceiling.doubt and _limited(ceiling) in better:
            doubts.setdefault(ceiling.doubt, []).append(ceiling)
    for doubt, some in doubts.items():
        names = _names(some, held.machine.ceilings)
        yield f"ceilings of {held.machine.host}{names} from before the job are not used: {doubt}"


def _limited(ceiling: Ceiling) -> Limit:
    """What a ceiling limits. A theoretical one stands beside one that was measured, never for it."""
    where = ceiling.device, ceiling.kind, ceiling.level, ceiling.precision, ceiling.peer
    return *where, ceiling.provenance == Provenance.ANALYTIC


def _changed(held: Saying, end: Saying) -> str:
    same = _hardware(held.machine) == _hardware(end.machine)
    if same and set(held.machine.ceilings) <= set(end.machine.ceilings):
        return ""
    what = f"ceilings or hardware of {held.machine.host} changed while the job ran"
    return f"{what}: what held at its begin is used (version {held.version})"


def _belated(
    told: Sequence[tuple[Saying, Sequence[Ceiling]]], whole: Sequence[Ceiling], begin_ns: int, end_ns: int
) -> list[str]:
    """Words on those of these ceilings that were not there when the job began. whole: all that are used."""
    late: dict[str, list[Ceiling]] = {}
    for saying, some in told:
        for ceiling in some:
            moment_ns, verb = ceiling.time_ns, "were measured"
            if not moment_ns and saying.version > 1:
                moment_ns, verb = saying.since_ns, "came"
            if moment_ns > begin_ns:
                when = "after the job" if moment_ns > end_ns else "while the job ran"
                late.setdefault(f"{verb} {when}", []).append(ceiling)
    host = told[0][0].machine.host if told else ""
    return [f"ceilings of {host}{_names(some, whole)} {words}" for words, some in late.items()]


def is_of(note: str, names: Collection[str], late: bool = True) -> bool:
    """Whether a note of `used` matters where ceilings of these names are used: not if it only says of others
    that they came late. late: whether any of them can have, which decides where it does not name all."""
    told = [_LATE.fullmatch(part) for part in note.split("; ")]
    words = {word for found in told if found for name in found[1].split(", ") for word in name.split()}
    return not all(told) or not words.isdisjoint(names) or (late and "more" in words)


def _names(some: Sequence[Ceiling], whole: Sequence[Ceiling]) -> str:
    """Which; nothing where it is all of them."""
    if len(some) == len(whole):
        return ""
    peers = (f"to {c.peer}" if c.peer else "" for c in some)
    each = zip((c.device for c in some), (c.name for c in some), peers, strict=True)
    names = list(dict.fromkeys(" ".join(filter(None, parts)) for parts in each))
    return f" ({listed(names, MOST_NAMES)})"


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
