"""Whether kept ceilings are those of this node: its state directory may have come with a disk image. Pure."""

from __future__ import annotations

from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.calibrate.caveats import also
from roofline_agent.machine import Machine


def is_of_other_cpu(kept: Calibration, machine: Machine) -> str:
    """Why they are not those of this node; "": they may be."""
    if not kept.cpu_model or not machine.cpu_model or kept.cpu_model == machine.cpu_model:
        return ""
    return (
        f"they are of another machine ({kept.host}, {kept.cpu_model}), and this one has {machine.cpu_model}"
    )


def of_this_node(kept: Calibration, machine: Machine) -> tuple[Ceiling, ...]:
    """Those that may be of this node; with a caveat if they were measured under another name."""
    if is_of_other_cpu(kept, machine):
        return ()
    if kept.host == machine.host:
        return kept.ceilings
    return also(kept.ceilings, f"measured on {kept.host}, which has the same CPU model")
