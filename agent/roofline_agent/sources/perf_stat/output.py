"""Lines of `perf stat -I -x ';'` as readings; values as perf prints them, so scaled up when multiplexed.

A line is `time;[socket;CPUs;]value;unit;event;runtime;percent;...`: the two fields in the middle only with
--per-socket.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SOCKET = re.compile(r"S(\d+)(?:-D\d+)?$")
_NO_CPUS = "0"  # an older perf prints the PMUs of other sockets too, which newer ones leave out
_NUMBER_OR_NOT = re.compile(r"\s*(?:[\d.]+|<not (?:counted|supported)>)\s*$")


class Reading(NamedTuple):
    """One event in one interval: value None where perf did not count."""

    seconds: float  # since perf started, at the interval's end
    value: float | None
    unit: str
    event: str
    running: float  # share of the time that the event was on a counter, 0..1
    socket: str = ""  # its number; "" where perf was not asked per socket
    elsewhere: bool = False  # the event's PMU belongs to another socket: nothing is to be counted on this one


def parse_line(line: str) -> Reading | None:
    """A reading from an interval line; None for comments, summaries and what is no reading."""
    fields = line.strip().split(";")
    if line.startswith("#") or len(fields) < 6:
        return None
    try:
        seconds = float(fields[0])
    except ValueError:
        return None
    socket, elsewhere = "", False
    found = _SOCKET.match(fields[1]) if fields[1][:1] == "S" else None
    if found:
        socket, elsewhere = found.group(1), fields[2] == _NO_CPUS
        del fields[1:3]
    if len(fields) < 6 or not fields[3]:
        return None
    _, text, unit, event, _, percent = fields[:6]
    value: float | None
    try:
        value = float(text)
        running = float(percent.replace(",", ".")) / 100
    except ValueError:
        # <not counted> and <not supported> print 100 % next to no value: the text decides.
        value, running = None, 0.0
    return Reading(seconds, value, unit, plain(event), running, socket, elsewhere)


def plain(event: str) -> str:
    """A name without the modifier for user space, which unprivileged perf adds: cycles:u, cpu/event=1/u."""
    if event.endswith(":u"):
        return event[:-2]
    return event[:-1] if event.endswith("/u") else event


def printed(text: str) -> list[tuple[str, str]]:
    """(value, event as named) of each line of `perf stat -x ';'` without intervals, all sockets alike.

    A line of a socket that does not have the event's PMU is left out.
    """
    found = []
    for line in text.splitlines():
        fields = line.split(";")
        if len(fields) > 5 and _SOCKET.match(fields[0]):
            if fields[1] == _NO_CPUS:
                continue
            del fields[:2]
        if len(fields) > 4 and _NUMBER_OR_NOT.match(fields[0]):
            found.append((fields[0].strip(), fields[2]))
    return found
