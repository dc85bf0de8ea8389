"""The ceilings of this node's CPUs: peak FLOP/s by precision and vector width, bandwidth by level of memory.

On x86-64 they are measured with machine code made here, so a node needs no compiler; elsewhere with C that
the node's compiler compiles. Nothing is made up: where something can't be measured, a note says why, and
where nothing can, `calibrate` raises CalibrationError.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.calibrate.caveats import also, doubted
from roofline_agent.calibrate.child import PartResult, run_child
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Hardware, this_hardware
from roofline_agent.calibrate.interference import cpu_times, disturbance, taken_by_others
from roofline_agent.calibrate.kernel_sets import library_for
from roofline_agent.calibrate.measure import PARTS
from roofline_agent.calibrate.theory import theoretical

# Ten times what two CPUs take: first touching the buffers grows with the caches of larger machines.
_TIMEOUTS_S = {"quick": 60.0, "normal": 150.0, "full": 600.0}
# With -m, Python looks for modules in the working directory first: the child runs this very package.
_PACKAGES = Path(__file__).resolve().parents[2]


def calibrate(
    progress: Callable[[Ceiling], None] | None = None,
    effort: str = "normal",
    prefer: bool = True,
    compiled: bool = False,
) -> Calibration:
    """Measures this node's CPUs in child processes for some 20 s, keeping them all busy.

    prefer: before all other processes, where we may (root); not for a node that others need meanwhile.
    compiled: by compiled kernels, even where machine code can be made.

    `progress` gets each ceiling as it is done. effort "full" takes a minute or two and measures also what
    makes no roof; "quick" takes a second and is too rough for a report. Raises CalibrationError if
    nothing could be measured.
    """
    hardware = this_hardware()
    before = cpu_times(hardware.cpus)
    parts = measure_parts(hardware, effort, progress or (lambda ceiling: None), prefer, compiled)
    notes = [note for part in parts for note in (*part.notes, part.error) if note]
    # One that was measured again comes twice.
    measured = tuple({ceiling.name: ceiling for part in parts for ceiling in part.ceilings}.values())
    if not measured:
        raise CalibrationError(
            notes[0] if notes else "no ceiling could be measured, and no part gave a reason"
        )
    after = cpu_times(hardware.cpus)

    measured = doubted(measured)
    theory, unknown = theoretical(hardware, measured)
    notes += [*unknown, *share_notes(hardware), *disturbance(before, after)]
    notes += [f"{c.name} may be too low: {c.doubt}" for c in measured if c.doubt]
    measured = also(measured, taken_by_others(before, after))
    return Calibration(
        hardware.host,
        hardware.cpu_model,
        len(hardware.cpus),
        time.time_ns(),
        measured + theory,
        tuple(dict.fromkeys(notes)),
        tuple(point for part in parts for point in part.sweep),
        effort,
        not any(part.error for part in parts),
    )


def measure_parts(
    hardware: Hardware, effort: str, progress: Callable[[Ceiling], None], prefer: bool, compiled: bool
) -> list[PartResult]:
    """Each part in a process of its own. Raises CalibrationError where there are no kernels for this CPU."""
    results = []
    with library_for(hardware, compiled) as library:
        for part in PARTS:
            command = [sys.executable, "-m", "roofline_agent.calibrate", part, "--effort", effort]
            if library:
                command += ["--library", str(library.path), "--compiler", library.compiler]
            results.append(run_child(command, progress, _PACKAGES, _TIMEOUTS_S[effort], prefer))
    return results


def share_notes(hardware: Hardware) -> list[str]:
    """Which part of the node was measured, if not all of it."""
    all_cpus = hardware.node_cpus or "?"
    if hardware.cpu_limit is not None:
        return [
            f"a cgroup grants the time of {hardware.cpu_limit:g} of {all_cpus} CPUs (cpu.max): ceilings are "
            "of that limit, and no roof for a job that may use more"
        ]
    if hardware.is_part:
        return [
            f"measured on {len(hardware.cpus)} of {all_cpus} CPUs, as this process may use no others "
            "(taskset, a cpuset, a batch system): ceilings are of these, and no roof for a job on all of them"
        ]
    return []
