"""The ceilings of this node: peak FLOP/s by precision and vector width, and DRAM bandwidth.

They are measured with machine code made here, so a node needs neither a compiler nor numpy. Nothing is made
up: where something can't be measured, `calibrate` raises CalibrationError and says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from roofline_agent.calibrate.child import run_child
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.records import Calibration, Ceiling
from roofline_agent.calibrate.store import load, save

__all__ = ["Calibration", "CalibrationError", "Ceiling", "calibrate", "load", "save"]

# Ten times what two CPUs take: first touching the buffers grows with the caches of larger machines.
_TIMEOUT_S = 150.0


def calibrate(progress: Callable[[Ceiling], None] | None = None, quick: bool = False) -> Calibration:
    """Measures this node in a child process for some 10 s, keeping all its CPUs busy.

    `progress` hears of each ceiling as it is done. `quick` takes under a second and is too rough for anything
    but tests. Raises CalibrationError if the machine can't be measured or the child dies.
    """
    command = [sys.executable, "-m", "roofline_agent.calibrate"] + (["--quick"] if quick else [])
    # With -m, Python looks for modules in the working directory first: the child runs this very package.
    packages = Path(__file__).resolve().parents[2]
    return run_child(command, progress or (lambda ceiling: None), packages, _TIMEOUT_S)
