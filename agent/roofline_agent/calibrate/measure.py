"""Measures all ceilings of a machine, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain

from roofline_agent.calibrate.dram import measure_dram
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.peak import measure_peaks
from roofline_agent.calibrate.records import Calibration, Ceiling
from roofline_agent.calibrate.runs import FULL, Plan

# Each gives the ceilings of one kind as they are measured. A new kind of ceiling is one more line.
_MEASUREMENTS = (measure_peaks, measure_dram)


def measure(
    machine: Machine,
    plan: Plan = FULL,
    progress: Callable[[Ceiling], None] = lambda ceiling: None,
    now_ns: Callable[[], int] = time.time_ns,
) -> Calibration:
    """All ceilings that this machine has instructions for; `progress` hears of each as it is done.

    Raises CalibrationError if the CPU or the system can't run the kernels.
    """
    if "sse2" not in machine.flags:
        raise CalibrationError("the CPU lists no sse2 flag, so there is no measuring code for it")
    ceilings = []
    for measured in chain.from_iterable(measurement(machine, plan) for measurement in _MEASUREMENTS):
        ceiling = measured._replace(time_ns=now_ns())
        progress(ceiling)
        ceilings.append(ceiling)
    return Calibration(machine.host, machine.cpu_model, len(machine.cpus), now_ns(), tuple(ceilings))
