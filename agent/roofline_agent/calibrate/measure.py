"""Measures the ceilings of a machine, one after the other, in parts that a child process each can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from roofline_agent.calibrate.bandwidth import measure_memory
from roofline_agent.calibrate.calibration import Ceiling, SweepPoint
from roofline_agent.calibrate.caveats import too_low
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.peak import measure_half_peaks, measure_peaks
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import RunPlan

Measurement = Callable[[], Ceiling]


class Callbacks(NamedTuple):
    """Called with each thing as soon as it is known."""

    ceiling: Callable[[Ceiling], None]
    note: Callable[[str], None]  # why something could not be measured
    sweep: Callable[[list[SweepPoint]], None]


# Each gives measurements to be made one by one. A new kind of ceiling is one more line. What the youngest
# instructions need stands apart: should they fail, the rest is not lost.
PARTS: dict[str, Callable[[Bench, RunPlan, Callbacks], Iterator[Measurement]]] = {
    "peaks": lambda bench, plan, callbacks: measure_peaks(bench, plan),
    "half": lambda bench, plan, callbacks: measure_half_peaks(bench, plan),
    "memory": lambda bench, plan, callbacks: measure_memory(bench, plan, callbacks.sweep, callbacks.note),
}


def measure(
    part: str,
    bench: Bench,
    plan: RunPlan,
    callbacks: Callbacks,
    now_ns: Callable[[], int] = time.time_ns,
) -> None:
    """All of one part that this machine has instructions for; what cannot be measured becomes a note.

    What others show to be too low gets a second chance; a ceiling that is higher then is passed on again.
    """
    known: dict[str, tuple[Measurement, Ceiling]] = {}
    twice: set[str] = set()

    def run(measurement: Measurement) -> Ceiling | None:
        try:
            ceiling = measurement()._replace(time_ns=now_ns())
        except CalibrationError as error:
            callbacks.note(str(error))
            return None
        if ceiling.name not in known or ceiling.value > known[ceiling.name][1].value:
            known[ceiling.name] = (measurement, ceiling)
            callbacks.ceiling(ceiling)
        return ceiling

    for measurement in PARTS[part](bench, plan, callbacks):
        new = run(measurement)
        if new is None or not plan.patient:
            continue
        before = [ceiling for _, ceiling in known.values() if ceiling.name != new.name]
        for name in too_low(new, before):
            if name not in twice and can_be_repeated(known[name][1], new):
                twice.add(name)
                run(known[name][0])


def can_be_repeated(one: Ceiling, latest: Ceiling) -> bool:
    """Whether the buffers it runs through are still there: only those of the latest one's CPUs are."""
    return one.kind == "compute" or one.threads == latest.threads
