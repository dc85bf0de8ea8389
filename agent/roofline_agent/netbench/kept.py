"""Keeps the network ceilings of this node in a file next to those of `calibrate`, and in the same form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofline_agent.calibrate import store
from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.origin import of_this_node
from roofline_agent.machine import Machine

from .ceilings import merged


def path_in(state: Path) -> Path:
    return state / "network.json"


def load(state: Path, machine: Machine) -> tuple[Ceiling, ...]:
    """None, where nothing was measured yet, or on another machine. Raises CalibrationError for a file that
    cannot be read."""
    kept = store.load(path_in(state))
    return of_this_node(kept, machine) if kept else ()


def keep(state: Path, machine: Machine, new: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """All that is known now: a new run replaces the last one to the same peer. Raises CalibrationError."""
    try:
        before = load(state, machine)
    except CalibrationError:
        before = ()  # unreadable: the new ones are worth more
    now = merged(before, new)
    newest = max((ceiling.time_ns for ceiling in now), default=0)
    kept = Calibration(machine.host, machine.cpu_model, machine.cpus, newest, now)
    store.save(kept, path_in(state))
    return now
