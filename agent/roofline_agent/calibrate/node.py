"""The ceilings of this node's CPUs: peak FLOP/s by precision and vector width, bandwidth by level of memory.

They are measured with machine code made here, so a node needs neither a compiler nor numpy. Nothing is made
up: where something can't be measured, a note says why, and where nothing can, `calibrate` raises
CalibrationError.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from roofline_agent.calibrate.caveats import also, doubted
from roofline_agent.calibrate.child import PartResult, run_child
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.interference import cpu_times, disturbance, taken_by_others
from roofline_agent.calibrate.machine import Machine, this_machine
from roofline_agent.calibrate.measure import PARTS
from roofline_agent.calibrate.records import Calibration, Ceiling
from roofline_agent.calibrate.theory import theoretical

# Ten times what two CPUs take: first touching the buffers grows with the caches of larger machines.
_TIMEOUTS_S = {"quick": 60.0, "normal": 150.0, "full": 600.0}


def calibrate(
    progress: Callable[[Ceiling], None] | None = None, effort: str = "normal", prefer: bool = True
) -> Calibration:
    """Measures this node's CPUs in child processes for some 20 s, keeping them all busy.

    prefer: before all other processes, where we may (root); not for a node that others need meanwhile.

    `progress` hears of each ceiling as it is done. effort "full" takes a minute or two and measures also what
    makes no roof; "quick" takes a second and is too rough for a report. Raises CalibrationError if
    nothing could be measured.
    """
    machine = this_machine()
    listen = progress or (lambda ceiling: None)
    before = cpu_times(machine.cpus)
    parts = [_run(part, effort, listen, prefer) for part in PARTS]
    notes = [note for part in parts for note in (*part.notes, part.error) if note]
    # One that was measured again is told twice.
    measured = tuple({ceiling.name: ceiling for part in parts for ceiling in part.ceilings}.values())
    if not measured:
        raise CalibrationError(notes[0] if notes else "no ceiling could be measured, and no part said why")
    after = cpu_times(machine.cpus)
    measured = doubted(measured)
    theory, unknown = theoretical(machine, measured)
    notes += [*unknown, *_part(machine), *_limited(machine), *disturbance(before, after), *_doubts(measured)]
    measured = also(measured, taken_by_others(before, after))
    return Calibration(
        machine.host,
        machine.cpu_model,
        len(machine.cpus),
        time.time_ns(),
        measured + theory,
        tuple(dict.fromkeys(notes)),
        tuple(point for part in parts for point in part.sweep),
        effort,
    )


def _run(part: str, effort: str, progress: Callable[[Ceiling], None], prefer: bool) -> PartResult:
    command = [sys.executable, "-m", "roofline_agent.calibrate", part, "--effort", effort]
    # With -m, Python looks for modules in the working directory first: the child runs this very package.
    packages = Path(__file__).resolve().parents[2]
    return run_child(command, progress, packages, _TIMEOUTS_S[effort], prefer)


def _doubts(measured: Iterable[Ceiling]) -> Iterator[str]:
    return (f"{c.name} may be too low: {c.doubt}" for c in measured if c.doubt)


def _part(machine: Machine) -> tuple[str, ...]:
    if not machine.is_part or machine.cpu_limit is not None:
        return ()
    return (
        f"measured on {len(machine.cpus)} of {machine.node_cpus} CPUs, as this process may use no others "
        "(taskset, a cpuset, a batch system): ceilings are of these, and no roof for a job on all of them",
    )


def _limited(machine: Machine) -> tuple[str, ...]:
    if machine.cpu_limit is None:
        return ()
    return (
        f"a cgroup grants the time of {machine.cpu_limit:g} of {machine.node_cpus or '?'} CPUs (cpu.max): "
        "ceilings are of that limit, and no roof for a job that may use more",
    )
