"""Reads what another tool, or another machine's calibration, left in a file."""

from __future__ import annotations

import json
from pathlib import Path

from roofline_agent.calibrate.calibration import Calibration, from_json
from roofline_agent.calibrate.compare.table import Theirs
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.recorded.reader import read
from roofline_agent.records import Provenance


def read_theirs(path: str) -> tuple[Theirs, ...]:
    """Every ceiling in the file. Raises CalibrationError naming it if there is none to be had."""
    calibration = _calibration(path)
    if calibration:
        origin = f"calibration of {calibration.host} ({calibration.cpu_model})"
        measured = [c for c in calibration.ceilings if c.provenance != Provenance.ANALYTIC]
        found = tuple(Theirs(c.name, c.value, c.unit, origin) for c in measured)
    else:
        found = _of_tool(path)
    if not found:
        raise CalibrationError(
            f"{path} holds no ceiling to compare with; give a result of STREAM, likwid-bench or ERT, or what "
            "`roofline-agent calibrate --json` printed"
        )
    return found


def _calibration(path: str) -> Calibration | None:
    """None: it is no calibration of ours, but may be something else."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CalibrationError(f"can't read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "ceilings" not in content or "format" not in content:
        return None
    try:
        return from_json(content)
    except ValueError as error:
        raise CalibrationError(f"{path} is no calibration: {error}") from error


def _of_tool(path: str) -> tuple[Theirs, ...]:
    try:
        found = read(path)
    except RecordedError as error:
        raise CalibrationError(str(error)) from error
    found.close()
    return tuple(
        Theirs(c.name, c.value, c.unit, c.method, "normal" if "normal stores" in c.method else "")
        for c in found.ceilings
    )
