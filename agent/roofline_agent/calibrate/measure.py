"""Measures the ceilings of a machine, one after the other, in parts that a child process each can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from roofline_agent.calibrate.bandwidth import measure_memory
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.peak import measure_half_peaks, measure_peaks
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.records import Ceiling, SweepPoint
from roofline_agent.calibrate.runs import Plan


class Listener(NamedTuple):
    """Hears of each thing as soon as it is known."""

    ceiling: Callable[[Ceiling], None]
    note: Callable[[str], None]  # why something could not be measured
    sweep: Callable[[list[SweepPoint]], None]


def _peaks(bench: Bench, plan: Plan, listener: Listener) -> Iterator[Callable[[], Ceiling]]:
    return measure_peaks(bench, plan)


def _half_peaks(bench: Bench, plan: Plan, listener: Listener) -> Iterator[Callable[[], Ceiling]]:
    return measure_half_peaks(bench, plan)


def _memory(bench: Bench, plan: Plan, listener: Listener) -> Iterator[Callable[[], Ceiling]]:
    return measure_memory(bench, plan, listener.sweep, listener.note)


# Each gives measurements to be made one by one. A new kind of ceiling is one more line. What the youngest
# instructions need stands apart: should they fail, the rest is not lost.
PARTS = {"peaks": _peaks, "half": _half_peaks, "memory": _memory}


def measure(
    part: str,
    machine: Machine,
    plan: Plan,
    listener: Listener,
    now_ns: Callable[[], int] = time.time_ns,
) -> None:
    """All of one part that this machine has instructions for; what cannot be measured becomes a note.

    Raises CalibrationError if the CPU or the system can't run the kernels at all.
    """
    if "sse2" not in machine.flags:
        raise CalibrationError("the CPU lists no sse2 flag, so there is no measuring code for it")
    for measurement in PARTS[part](Bench(machine), plan, listener):
        try:
            ceiling = measurement()
        except CalibrationError as error:
            listener.note(str(error))
        else:
            listener.ceiling(ceiling._replace(time_ns=now_ns()))
